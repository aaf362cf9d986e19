// Packing: what is independent, parts as bodies, what may not be packed, bytes.
#include "tests/support/stitch_bytes.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

StitchSchedule Flat(int threads, int grid) {
  return StitchSchedule{
      .block_threads = threads, .unit_threads = threads, .blocks_per_sm = 2, .grid = grid};
}

std::vector<StitchPart> FlatParts(const Chain& body) {
  std::vector<StitchPart> parts;
  for (const std::vector<int>& outputs : IndependentOutputs(body)) {
    parts.push_back({outputs, Flat(128, 3)});
  }
  return parts;
}

StitchSpec SpecOf(const Chain& body, const std::vector<StitchPart>& parts) {
  StitchSpec spec{.body = body, .schedule = PackedSchedule(parts), .parts = parts};
  for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) spec.operands.push_back({i, 0});
  return spec;
}

TEST(Packing, PartsAreWhatNothingComputedConnects) {
  const Chain updates = testing::IndependentUpdates({300, 20, 7});
  EXPECT_EQ(IndependentOutputs(updates),
            (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}))
      << "the step size is computed by each of them";
  EXPECT_EQ(IndependentOutputs(testing::IndependentRows({{4, 8}, {5, 9}}, 100)).size(), 3u);
  const Chain connected = ReadChain("y = exp({f32[64,4]}); out exp(y), sum(y, 1, keep)");
  EXPECT_EQ(IndependentOutputs(connected).size(), 1u);
}

TEST(Packing, APartIsABodyThatKnowsWhereItComesFrom) {
  const Chain body = testing::IndependentUpdates({300, 77});
  const PartBody part = Got(ExtractPart(body, {3, 4, 5}));
  ASSERT_EQ(part.body.num_outputs(), 3);
  ASSERT_EQ(part.inputs.size(), static_cast<size_t>(part.body.num_inputs()));
  for (int i = 0; i < part.body.num_inputs(); ++i) {
    EXPECT_EQ(part.body.input_op(i).type, body.input_op(part.inputs[static_cast<size_t>(i)]).type);
  }
  for (size_t id = 0; id < part.ops.size(); ++id) {
    EXPECT_EQ(part.body.op(static_cast<ValueId>(id)).kind, body.op(part.ops[id]).kind) << id;
  }
  for (int i = 0; i < 2; ++i) {
    const int own = part.body.outputs()[static_cast<size_t>(i)].alias_input;
    ASSERT_GE(own, 0);
    EXPECT_EQ(part.inputs[static_cast<size_t>(own)],
              body.outputs()[static_cast<size_t>(3 + i)].alias_input);
  }
}

TEST(Packing, RefusesWhatDoesNotGoTogether) {
  const Chain body = testing::IndependentUpdates({300, 77});
  const std::vector<StitchPart> parts = FlatParts(body);
  ASSERT_EQ(parts.size(), 2u);
  const StitchSchedule launch = PackedSchedule(parts);
  EXPECT_EQ(launch.grid, 6);
  EXPECT_TRUE(CheckParts(body, launch, parts).ok()) << CheckParts(body, launch, parts);
  const auto refused = [&](std::vector<StitchPart> wrong, const StitchSchedule& schedule) {
    return absl::IsFailedPrecondition(CheckParts(body, schedule, wrong));
  };
  std::vector<StitchPart> wrong = parts;
  wrong[1].schedule.block_threads = wrong[1].schedule.unit_threads = 256;
  EXPECT_TRUE(refused(wrong, launch)) << "other threads";
  wrong = parts;
  wrong[1].outputs = {3, 4};
  EXPECT_TRUE(refused(wrong, launch)) << "an output that nobody gives";
  wrong[0].outputs = {0, 1, 2, 3};
  wrong[1].outputs = {3, 4, 5};
  EXPECT_TRUE(refused(wrong, launch)) << "an output twice";
  wrong[0].outputs = {0, 1, 2, 9};
  EXPECT_TRUE(refused(wrong, launch)) << "no such output";
  wrong = parts;
  wrong[0].schedule.grid = 4;
  EXPECT_TRUE(refused(wrong, launch)) << "not its launch";
  wrong = parts;
  wrong[0].outputs = {0};
  wrong.push_back({{1, 2}, Flat(128, 3)});
  EXPECT_TRUE(refused(wrong, PackedSchedule(wrong))) << "the momentum's place is taken by one";
  EXPECT_TRUE(refused({parts[0]}, parts[0].schedule)) << "one part";
}

TEST(Packing, APartMayNotMeetTheGrid) {
  const Chain chain =
      ReadChain("x: f32[64,32]; y: f32[100]; out x - spread(sum(x, 0, keep), x), exp(y)");
  std::vector<StitchPart> parts = FlatParts(chain);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_TRUE(CheckParts(chain, PackedSchedule(parts), parts).ok()) << "sums by each thread alone";
  const PartBody part = Got(ExtractPart(chain, parts[0].outputs));
  parts[0].schedule.owner = testing::FirstReduction(part.body, 0);
  EXPECT_FALSE(CheckParts(chain, PackedSchedule(parts), parts).ok()) << "sums over all units";
}

TEST(Packing, ReadsBackWhatItWritesAndTrustsNothing) {
  const Chain body = testing::IndependentUpdates({300, 77, 20});
  const StitchSpec spec = SpecOf(body, FlatParts(body));
  ByteWriter writer;
  WriteStitch(spec, writer);
  const std::string bytes = writer.Take();
  const auto read = [](absl::string_view from) {
    ByteReader reader(from);
    return ReadStitch(reader);
  };
  const StitchSpec again = Got(read(bytes));
  EXPECT_TRUE(again == spec);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(read(absl::string_view(bytes).substr(0, size)).ok()) << size;
  }
  StitchSpec wrong = spec;
  wrong.parts[0].outputs = {0, 1};
  ByteWriter damaged;
  WriteStitch(wrong, damaged);
  EXPECT_TRUE(absl::IsDataLoss(read(damaged.str()).status()));
  StitchSpec unpacked = spec;
  unpacked.parts.clear();
  EXPECT_FALSE(unpacked == spec);
  EXPECT_NE(unpacked.ScheduleCanonical(), spec.ScheduleCanonical());
}

TEST(Packing, SaysWhoShares) {
  const Chain body = testing::IndependentUpdates({300, 77, 20});
  std::vector<StitchPart> parts = FlatParts(body);
  parts[1].schedule.chunks = 2;
  EXPECT_EQ(PartsText(parts), "packing 3 parts: 2 x (vec 1 chunks 1), (vec 1 chunks 2)");
  EXPECT_EQ(SpecOf(body, parts).ScheduleText(), "block 128 x2 grid 9 " + PartsText(parts));
}

}  // namespace
}  // namespace sinter
