// Which composition a schedule means for a body's hand-overs.
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

Composition Of(const Chain& body, ValueId owner, ValueId value, int unit, int cluster) {
  StitchSchedule s{.owner = owner, .block_threads = 256, .unit_threads = unit, .cluster = cluster};
  const auto program = Got(MakeStitchProgram(body, owner));
  return CompositionsOf(body, program, s)[static_cast<size_t>(value)];
}

TEST(CompositionsOf, FollowsTheThreadsThatShareAUnit) {
  const Chain body = FromText("softmax rows=M cols=64");
  const ValueId row = FirstReduction(body, 1);
  EXPECT_EQ(Of(body, row, row, 1, 1), Composition::kThread);
  EXPECT_EQ(Of(body, row, row, 8, 1), Composition::kWarp);
  EXPECT_EQ(Of(body, row, row, 32, 1), Composition::kWarp);
  EXPECT_EQ(Of(body, row, row, 64, 1), Composition::kBlock);
  EXPECT_EQ(Of(body, row, row, 256, 4), Composition::kCluster);
  EXPECT_EQ(Of(body, row, row - 1, 256, 4), Composition::kThread) << "no reduction";
}

TEST(CompositionsOf, SendsColumnsThroughTheGridAndWhatNobodySharesThroughThreads) {
  const Chain body = ColumnsThenRows(256, 64);
  const ValueId column = FirstReduction(body, 0), row = FirstReduction(body, 1);
  EXPECT_EQ(Of(body, row, column, 32, 1), Composition::kGrid);
  EXPECT_EQ(Of(body, row, row, 32, 1), Composition::kWarp);
  EXPECT_EQ(Of(body, -1, column, 32, 1), Composition::kThread) << "each thread for itself";
}

TEST(CompositionsOf, LanesJoinWhatTheyShareOfAnElement) {
  const Chain body = testing::GraphOf("pooled_attention(5, 21, 12)");
  const StitchProgram flat = *MakeStitchProgram(body, -1);
  StitchSchedule s;
  const auto shared_ones = [&](int split) {
    s.split = split;
    const std::vector<Composition> list = CompositionsOf(body, flat, s);
    return std::count(list.begin(), list.end(), Composition::kWarp);
  };
  EXPECT_EQ(shared_ones(1), 0);
  EXPECT_GT(shared_ones(8), 0);
}

TEST(CompositionsOf, SegmentsStayInTheirWarp) {
  const Chain body = testing::GraphOf("norm_rope(3, 4, 2, 16)");
  int segments = 0;
  for (const ValueId owner : OwnerCandidates(body)) {
    const auto program = MakeStitchProgram(body, owner);
    if (!program.ok()) continue;
    const std::vector<Composition> list = CompositionsOf(body, *program, StitchSchedule());
    for (size_t id = 0; id < list.size(); ++id) {
      if (program->uses[id] != ReduceUse::kSegment) continue;
      EXPECT_EQ(list[id], Composition::kWarp) << id;
      ++segments;
    }
  }
  EXPECT_GT(segments, 0);
}

TEST(CompositionsOf, HasAName) {
  EXPECT_EQ(NameOf(Composition::kThread), "thread");
  EXPECT_EQ(NameOf(Composition::kGrid), "grid");
  EXPECT_EQ(NameOf(Composition(9)), "invalid");
}

}  // namespace
}  // namespace sinter
