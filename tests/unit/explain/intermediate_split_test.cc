#include "src/plan/product_family.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

double At(const LevelBytes& split, MemoryLevel level) { return split[static_cast<size_t>(level)]; }

TEST(IntermediateSplit, ASlabThatDoesNotHoldAllOfCLiesOnThreeLevels) {
  const ProductSequence p = SampleG7();
  const Schedule s = SampleSchedule(
      p, Dataflow::kClusterSlab);  // 16 rows, 8 blocks of 96 of the 768 columns, a slab of 384
  const LevelBytes split = IntermediateSplit(p, s);
  EXPECT_EQ(At(split, MemoryLevel::kShared), 16 * 96 * 2);
  EXPECT_EQ(At(split, MemoryLevel::kDsm), 16 * 288 * 2);
  EXPECT_EQ(At(split, MemoryLevel::kL2), 16 * 384 * 2);
  EXPECT_EQ(PictureOf(SampleSpec(p, s)).split_text,
            "c of a row tile: 3 KiB shared memory + 9 KiB DSM + 12 KiB L2");
}

TEST(IntermediateSplit, HoldsAllOfCWhateverTheDataflow) {
  const ProductSequence p = SampleS8();
  for (Dataflow dataflow : {Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    const Schedule s = SampleSchedule(p, dataflow);
    const LevelBytes split = IntermediateSplit(p, s);
    EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0.0), 2.0 * s.block_m * p[0].n);
  }
  const Schedule ranges = SampleSchedule(p, Dataflow::kClusterRanges);
  const LevelBytes split = IntermediateSplit(p, ranges);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0.0),
            2.0 * ranges.block_m * ranges.cluster * ranges.first.block_n);
  EXPECT_EQ(PictureOf(SampleSpec(FirstOf(p), Dataflow::kProduct)).split_text, "");
}

}  // namespace
}  // namespace sinter
