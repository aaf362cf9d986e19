#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr uint8_t kM = 1, kN = 2, kK = 4, kL = 8;

LoopSchedule Loops(const std::string& text) {
  for (const LoopSchedule& s : AllLoopSchedules()) {
    if (s.ToString() == text) return s;
  }
  ADD_FAILURE() << text;
  return {};
}

double Of(const LevelBytes& bytes, MemoryLevel level) { return bytes[static_cast<size_t>(level)]; }

TEST(DataflowAnalyzer, InnerLoopsThatTouchATensorMakeOuterLoopsReadItAgain) {
  const PaperProblem p{64, 64, 64, 64};
  const PaperPoint x{Loops("spatial L, MNK"), {}, {16, 16, 16, 16}};
  const double tile = 16 * 16 * 2;
  // A[m,k] under M, N, K: K inside touches it, so N outside reads it four times.
  EXPECT_EQ(GlobalBytes(p, x, kM | kK, kM | kN | kK, tile), 4 * 4 * 4 * tile);
  // B[k,n]: M outermost repeats it.
  EXPECT_EQ(GlobalBytes(p, x, kK | kN, kM | kN | kK, tile), 4 * 4 * 4 * tile);
  // With K outermost and N innermost, A's tile stays while N runs.
  const PaperPoint reuse{Loops("spatial L, MKN"), {}, {16, 16, 16, 16}};
  EXPECT_EQ(GlobalBytes(p, reuse, kM | kK, kM | kN | kK, tile), 4 * 4 * tile);
}

TEST(DataflowAnalyzer, BlocksOfAClusterShareTilesThatTheyDoNotIndex) {
  const PaperProblem p{64, 256, 64, 64};
  const PaperPoint one{Loops("spatial N, MLK"), {1, 1, 1, 1}, {64, 64, 64, 64}};
  const PaperPoint four{Loops("spatial N, MLK"), {1, 4, 1, 4}, {64, 64, 64, 64}};
  const double a_tile = 64 * 64 * 2;
  EXPECT_EQ(GlobalBytes(p, one, kM | kK, kM | kN | kK, a_tile), 4 * a_tile) << "four clusters";
  EXPECT_EQ(GlobalBytes(p, four, kM | kK, kM | kN | kK, a_tile), a_tile) << "one cluster";
  const double b_tile = 64 * 64 * 2;
  EXPECT_EQ(GlobalBytes(p, four, kK | kN, kM | kN | kK, b_tile), 4 * b_tile);
}

TEST(DataflowAnalyzer, EverythingInOneClusterMovesEachTensorOnce) {
  const PaperProblem p{64, 128, 64, 128};
  const PaperPoint x{Loops("spatial M, LNK"), {1, 2, 1, 2}, {64, 64, 64, 64}};
  const DataflowReport r = AnalyzeDataflow(p, x, *BuiltinModel("h200"));
  EXPECT_EQ(r.clusters, 1);
  EXPECT_EQ(Of(r.volume, MemoryLevel::kGlobal), 2.0 * (64 * 64 + 64 * 128 + 128 * 128 + 64 * 128));
  EXPECT_EQ(r.kept_bytes, 64 * 128 * 2);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kRegister), 64 * 128 * 2) << "small enough for registers";
  // shuffle 2: each of two blocks receives the other's 64 x 64 slice.
  EXPECT_EQ(Of(r.volume, MemoryLevel::kDsm), 2 * 64 * 64 * 2);
}

TEST(DataflowAnalyzer, SpillsTheKeptTensorLevelByLevel) {
  const PaperProblem p{128, 16384, 512, 4096};
  const DeviceModel model = *BuiltinModel("h200");
  const PaperPoint x{Loops("spatial M, LNK"), {1, 4, 1, 4}, {128, 128, 64, 128}};
  const DataflowReport r = AnalyzeDataflow(p, x, model);
  EXPECT_EQ(r.kept_bytes, 128 * 16384 * 2);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kRegister), 131072);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kShared), static_cast<double>(model.shared_bytes_per_block));
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kDsm),
            3.0 * static_cast<double>(model.shared_bytes_per_block));
  EXPECT_GT(Of(r.mapping, MemoryLevel::kL2), 0);
  double sum = 0;
  for (double b : r.mapping) sum += b;
  EXPECT_EQ(sum, r.kept_bytes);
}

TEST(DataflowAnalyzer, ClustersThatSplitNReducePartialSumsGlobally) {
  const PaperProblem p{128, 1024, 128, 256};
  const PaperPoint x{Loops("spatial N, MLK"), {1, 1, 1, 1}, {128, 128, 64, 128}};
  const DataflowReport r = AnalyzeDataflow(p, x, *BuiltinModel("h200"));
  EXPECT_EQ(r.clusters, 8);
  const double weights = 2.0 * (128 * 1024 + 1024 * 256), a = 8 * 2.0 * 128 * 128;
  EXPECT_EQ(Of(r.volume, MemoryLevel::kGlobal), weights + a + 8 * 4.0 * 128 * 256);
}

TEST(DataflowAnalyzer, SumsOfCMustNotBeSpreadOverClusters) {
  const PaperProblem p{64, 64, 128, 64};
  EXPECT_FALSE(Realisable(p, {Loops("spatial K, MLN"), {1, 1, 4, 4}, {16, 16, 16, 16}}));
  EXPECT_TRUE(Realisable(p, {Loops("spatial K, MLN"), {1, 1, 4, 4}, {16, 16, 32, 16}}));
  EXPECT_TRUE(Realisable(p, {Loops("spatial N, MLK"), {1, 1, 4, 4}, {16, 16, 16, 16}}));
  EXPECT_FALSE(Realisable(p, {Loops("spatial N, MLK"), {1, 1, 4, 2}, {16, 16, 16, 16}}));
}

TEST(DataflowAnalyzer, CostIsTheSlowestLevel) {
  const DeviceModel model = *BuiltinModel("h200");
  const PaperPoint x{Loops("spatial N, MLK"), {1, 2, 1, 2}, {128, 128, 64, 128}};
  DataflowReport r{.clusters = 66};
  r.volume[static_cast<size_t>(MemoryLevel::kGlobal)] = 10 * model.hbm_bytes_per_us;
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 10);
  r.volume[static_cast<size_t>(MemoryLevel::kDsm)] = 20 * model.dsm_bytes_per_us[1];
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 20);
  r.clusters = 33;  // half the SMs: half the distributed shared memory
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 40);
}

}  // namespace
}  // namespace sinter
