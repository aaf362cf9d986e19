// Sizes: vectors that divide, turns, scratch that does not overlap, shared memory by hand.

#include "tests/support/stitch_bytes.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

StitchLoop LoopOf(int64_t elements) { return StitchLoop{.elements = elements}; }

TEST(StitchSizes, AVectorDividesTheElements) {
  const Chain body = FromText("softmax rows=M cols=64");
  StitchSchedule s{.vector = 8};
  for (const auto& [elements, width] : std::vector<std::pair<int64_t, int>>{
           {64, 8}, {60, 4}, {62, 2}, {37, 1}, {1, 1}, {4096, 8}}) {
    EXPECT_EQ(LoopVector(body, s, LoopOf(elements)), width) << elements;
  }
}

TEST(StitchSizes, AVectorStaysInsideTheOperandsOfAConcat) {
  const Chain chain = ReadChain("out concat({f32[M,12]}, {f32[M,20]}, 1)");
  EXPECT_EQ(LoopVector(chain, {.vector = 16}, LoopOf(32)), 4);
}

TEST(StitchSizes, TurnsCoverAllElements) {
  const Chain body = FromText("softmax rows=M cols=64");
  StitchSchedule s{.unit_threads = 32, .vector = 8};
  EXPECT_EQ(LoopTurns(body, s, LoopOf(256)), 1);
  EXPECT_EQ(LoopTurns(body, s, LoopOf(264)), 2);
  EXPECT_EQ(LoopTurns(body, s, LoopOf(37)), 2) << "one by one";
  s.unit_threads = s.block_threads = 256;
  s.cluster = 4;
  EXPECT_EQ(LoopTurns(body, s, LoopOf(16384)), 2);
}

TEST(StitchSizes, LanesThatShareElementsTakeMoreTurns) {
  const Chain body = FromText("softmax rows=M cols=64");
  StitchSchedule s{.unit_threads = 64, .vector = 4, .split = 8};
  StitchLoop loop = LoopOf(36);
  EXPECT_EQ(LoopTurns(body, s, loop), 1) << "nothing to share";
  EXPECT_EQ(LoopSplit(s, loop), 1);
  loop.serial = true;
  EXPECT_EQ(LoopSplit(s, loop), 8);
  EXPECT_EQ(LoopTurns(body, s, loop), 2) << "nine vectors, eight at once";
}

TEST(StitchSizes, BlocksTakeTheirUnitsInRounds) {
  StitchProgram program{.units = 100};
  StitchSchedule s;
  s.unit_threads = 32;  // eight units a block
  s.grid = 4;
  EXPECT_EQ(UnitRounds(program, s, 1), 4);
  program.units_symbolic = true;
  EXPECT_EQ(UnitRounds(program, s, 3), 10);
  s.unit_threads = s.block_threads;
  s.cluster = 2;
  EXPECT_EQ(UnitRounds(program, s, 3), 150);
}

// A range that must not overlap another: where it begins, how long it is.
using Room = std::pair<int64_t, int64_t>;

void ExpectApart(std::vector<Room> rooms, int64_t bytes) {
  std::sort(rooms.begin(), rooms.end());
  int64_t end = 0;
  for (const auto& [begin, size] : rooms) {
    EXPECT_EQ(begin % 16, 0);
    EXPECT_GE(begin, end);
    end = begin + size;
  }
  EXPECT_GE(bytes, end);
}

TEST(StitchSizes, ColumnPlacesDoNotOverlap) {
  constexpr int64_t kColumns = 37, kResult = kColumns * 4;
  const Chain chain = ReadChain(
      "x: f32[64,$0]; mean = mean(x, 0, keep); square = square(x - spread(mean, x));"
      "out exp(sum(square, 0)), exp(mean), exp(reduce_max(exp(x), 0))",
      kColumns);
  StitchSchedule s{.owner = OwnerCandidates(chain)[1], .unit_threads = 64, .grid = 32};
  const StitchProgram program = *MakeStitchProgram(chain, s.owner);
  for (const bool all : {false, true}) {
    s.join_all = all;
    const ColumnLayout layout = LayOutColumns(chain, program, s);
    ASSERT_EQ(layout.places.size(), 2u);
    std::vector<Room> scratch, shared = {{0, s.block_threads * 4}};
    for (const ColumnPlace& place : layout.places) {
      const int64_t part = kColumns * (place.mean >= 0 ? 16 : 4);
      scratch.push_back({static_cast<int64_t>(place.parts), part * s.grid});
      std::vector<Room>& results = all ? shared : scratch;
      results.push_back({place.results, kResult});
      if (place.mean >= 0) results.push_back({place.mean_results, kResult});
    }
    ExpectApart(scratch, static_cast<int64_t>(layout.scratch_bytes));
    ExpectApart(shared, layout.shared_bytes);
    EXPECT_EQ(*StitchScratchBytes(chain, s), layout.scratch_bytes);
  }
}

TEST(StitchSizes, WhoJoinsColumnsStoresThoseThatAreOutputs) {
  const Chain chain = ReadChain("x: f32[64,40]; sums = sum(x, 0); out sums, exp(sums)");
  StitchSchedule s{.owner = OwnerCandidates(chain)[1]};
  const StitchProgram program = *MakeStitchProgram(chain, s.owner);
  EXPECT_EQ(LayOutColumns(chain, program, s).places[0].output, 0);
  EXPECT_FALSE(OnlyStoresColumns(chain, program, program.phases.back())) << "and the exponential";
  s.join_all = true;
  EXPECT_EQ(LayOutColumns(chain, program, s).places[0].output, -1) << "every block has them";

  const Chain with_gaps = ReadChain("x: f32[64,40]; out sum(x, 0) strides(2)");
  EXPECT_EQ(ColumnOutput(with_gaps, with_gaps.outputs()[0].value), -1);
}

TEST(StitchSizes, NoScratchWithoutColumns) {
  const Chain body = FromText("softmax rows=M cols=64");
  StitchSchedule s{.owner = OwnerCandidates(body)[1]};
  EXPECT_EQ(*StitchScratchBytes(body, s), 0u);
  s.owner = 0;
  EXPECT_FALSE(StitchScratchBytes(body, s).ok());
}

TEST(StitchSizes, SharedMemoryHoldsWhatAGroupExchanges) {
  const Chain rows = FromText("layernorm rows=M cols=4096");
  StitchSchedule s{.owner = OwnerCandidates(rows)[1]};
  const StitchProgram program = *MakeStitchProgram(rows, s.owner);
  const int slots = RowSlots(program);
  EXPECT_GE(slots, 1);
  s.unit_threads = 32;
  EXPECT_EQ(StitchSharedBytes(rows, program, s), 0) << "a warp shuffles";
  s.unit_threads = 64;
  EXPECT_EQ(StitchSharedBytes(rows, program, s), 2 * 4 * slots * 2 * 4);
  s.unit_threads = 256;
  EXPECT_EQ(StitchSharedBytes(rows, program, s), 2 * 1 * slots * 8 * 4);
  s.cluster = 4;
  s.grid = 4;
  EXPECT_EQ(StitchSharedBytes(rows, program, s), 2 * 1 * slots * (8 + 4) * 4);
}

TEST(StitchSizes, WhatIsHeldComesOnTop) {
  const Chain body = ColumnsThenRows(512, 320);
  StitchSchedule s{.owner = FirstReduction(body, 0)};
  const StitchProgram program = *MakeStitchProgram(body, s.owner);
  const int64_t without = StitchSharedBytes(body, program, s);
  s.keep_inputs = true;
  s.hold_bytes = 4096;
  EXPECT_EQ(StitchSharedBytes(body, program, s), without + 4096);
}

TEST(StitchSizes, GroupsOfABlockMeetTheirColumnsInSharedMemory) {
  const Chain body = ColumnsThenRows(512, 320);
  StitchSchedule s{.owner = FirstReduction(body, 0)};
  const StitchProgram program = *MakeStitchProgram(body, s.owner);
  s.unit_threads = 32;
  EXPECT_EQ(StitchSharedBytes(body, program, s), 8 * 320 * 4);
  s.unit_threads = 256;
  EXPECT_GE(StitchSharedBytes(body, program, s), 256 * 4);
}

TEST(StitchSizes, WithoutAnOwnerNothingIsShared) {
  const Chain body = FromText("gelu rows=M cols=64");
  EXPECT_EQ(StitchSharedBytes(body, *MakeStitchProgram(body, -1), StitchSchedule()), 0);
}

}  // namespace
}  // namespace sinter
