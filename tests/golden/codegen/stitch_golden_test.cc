// Source and recipe of fixed kernels of the stitch family, byte for byte: every composition, with
// what is kept, held and handed over, whatever search would choose.
#include "src/chain/problem.h"
#include "src/fusion/fusion.h"
#include "tests/golden/codegen/kernel_text.h"
#include "tests/support/composed_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/stitch_schedules.h"

namespace sinter {
namespace {

struct Sample {
  std::string name;
  Chain body;
  StitchSchedule schedule;
};

Chain FromLine(const char* line) { return ParseProblem(line)->chain; }

std::vector<Sample> Samples() {
  return {
      {"layernorm1024-warp-keep", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(2, "block 128 unit 32 vec 8 keep x4 grid 2048")},
      {"layernorm1024-lanes", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(2, "block 128 unit 8 vec 8 x4 grid 512")},
      {"layernorm1024-block-keep-alike", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(2, "block 128 unit 64 vec 4 keep+alike x5 grid 4096")},
      {"layernorm1024-elements-chunks", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(-1, "block 128 vec 8 chunks 2 x5 grid 4096")},
      {"layernorm1024-elements-split", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(-1, "block 128 vec 8 chunks 1 split 16 x6 grid 2048")},
      {"layernorm1024-cluster-keep", FromLine("layernorm rows=M cols=1024"),
       testing::ScheduleOf(2, "block 256 unit 256 cluster 2 vec 2 keep x6 grid 16384")},
      {"softmax64-lanes-keep-values", FromLine("softmax rows=M cols=64"),
       testing::ScheduleOf(2, "block 128 unit 16 vec 4 keep+values x9 grid 1024")},
      {"softmax16384-cluster-keep-values-alike", FromLine("softmax rows=M cols=16384"),
       testing::ScheduleOf(2,
                           "block 256 unit 256 cluster 2 vec 8 keep+values+alike x2 grid 16384")},
      {"softmax16384-block", FromLine("softmax rows=M cols=16384"),
       testing::ScheduleOf(2, "block 128 unit 128 vec 4 x9 grid 8192")},
      {"quantize4096-row-warps-keep", FromLine("quantize rows=M cols=4096"),
       testing::ScheduleOf(4, "block 128 unit 64 vec 8 keep x4 grid 2048")},
      {"quantize4096-group-ue8m0-lanes-keep",
       FromLine("quantize rows=M cols=4096 granularity=group ue8m0=1"),
       testing::ScheduleOf(4, "block 128 unit 4 vec 8 keep x5 grid 2048")},
      {"quantize4096-row-s8-block", FromLine("quantize rows=M cols=4096 codes=s8"),
       testing::ScheduleOf(4, "block 256 unit 256 vec 8 x4 grid 2048")},
      {"pooled-attention-block-split-keep-values-hand-over",
       testing::PooledAttention(256, 100, 36, false),
       testing::ScheduleOf(6,
                           "block 256 unit 256 vec 4 split 32 keep+values handed 9 x4 grid 256")},
      {"pooled-attention-block-split-keep", testing::PooledAttention(256, 100, 36, false),
       testing::ScheduleOf(6, "block 128 unit 128 vec 1 split 4 keep x10 grid 256")},
      {"pooled-product-warp-split", testing::PooledAttention(256, 100, 36, true),
       testing::ScheduleOf(6, "block 128 unit 32 vec 4 split 4 x9 grid 64")},
      {"pooled-product-lanes-hand-over", testing::PooledAttention(256, 100, 36, true),
       testing::ScheduleOf(6, "block 128 unit 16 vec 4 handed 12 x9 grid 32")},
      {"batchnorm-warp-grid-keep-alike-hold", testing::BatchNorm(25088, 256),
       testing::ScheduleOf(2, "block 256 unit 32 vec 8 keep+alike hold 98304 x1 grid 132")},
      {"batchnorm-warp-grid-column-cluster-join-all-keep-alike-hold",
       testing::BatchNorm(25088, 256),
       testing::ScheduleOf(
           2,
           "block 256 unit 32 vec 8 column-cluster 8 join all keep+alike hold 110592 x1 grid 120")},
      {"batchnorm-block-grid-column-cluster-keep-alike-hold", testing::BatchNorm(25088, 256),
       testing::ScheduleOf(
           2, "block 512 unit 64 vec 4 column-cluster 8 keep+alike hold 110592 x1 grid 120")},
      {"batchnorm-m-block-grid", testing::BatchNorm(0, 1024),
       testing::ScheduleOf(2, "block 1024 unit 256 vec 4 x1 grid 132")},
      {"batchnorm-m-cluster-grid-keep-alike-hold", testing::BatchNorm(0, 1024),
       testing::ScheduleOf(2,
                           "block 256 unit 256 cluster 2 vec 2 keep+alike hold 64512 x1 grid 132")},
      {"rope-lanes-split-keep", testing::NormRope(64, 32, 8, 128),
       testing::ScheduleOf(3, "block 128 unit 16 vec 8 split 8 keep x6 grid 256")},
      {"random5-cluster-grid-join-all-split-keep-values-hold", testing::MakeRandomStitchGraph(5),
       testing::ScheduleOf(21,
                           "block 512 unit 512 cluster 4 vec 1 join all split 32 keep+values hold "
                           "3072 x1 grid 36")},
      {"random6-block-split-hand-over", testing::MakeRandomStitchGraph(6),
       testing::ScheduleOf(15, "block 1024 unit 1024 vec 4 split 32 handed 14 x1 grid 1")},
      {"random8-lanes-grid-join-all-keep-alike", testing::MakeRandomStitchGraph(8),
       testing::ScheduleOf(13, "block 256 unit 16 vec 2 join all keep+alike x1 grid 3")},
      {"random10-lanes-grid-split-keep-values-hold-hand-over", testing::MakeRandomStitchGraph(10),
       testing::ScheduleOf(
           21, "block 128 unit 4 vec 4 split 4 keep+values hold 5120 handed 8 x1 grid 16")},
      {"random13-block-keep-hand-over", testing::MakeRandomStitchGraph(13),
       testing::ScheduleOf(6, "block 256 unit 256 vec 4 keep handed 2,20 x1 grid 1")},
      {"random16-warp-grid-keep-values-hold-hand-over", testing::MakeRandomStitchGraph(16),
       testing::ScheduleOf(13,
                           "block 256 unit 32 vec 4 keep+values hold 10240 handed 7 x1 grid 10")},
      {"random17-lanes-grid-column-cluster-keep-hold", testing::MakeRandomStitchGraph(17),
       testing::ScheduleOf(7, "block 128 unit 2 vec 1 column-cluster 8 keep hold 768 x1 grid 16")},
  };
}

KernelSpec SpecOf(const Sample& sample) {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = sample.body;
  stitch->schedule = sample.schedule;
  for (int i = 0; i < sample.body.num_inputs() + sample.body.num_outputs(); ++i) {
    stitch->operands.push_back({i, 0});
  }
  stitch->scratch_offset = kWorkspaceFlagBytes;
  KernelSpec spec;
  spec.family = &StitchFamily();
  spec.body = MakeBody(std::move(*stitch));
  return spec;
}

TEST(StitchGolden, EveryComposition) {
  for (const Sample& sample : Samples()) {
    ExpectGoldenKernel("stitch/" + sample.name, SpecOf(sample));
  }
}

// What packs is the plan's choice: parts have schedules of their own.
TEST(StitchGolden, PackedKernels) {
  const std::pair<const char*, Chain> graphs[] = {
      {"updates", testing::IndependentUpdates(std::vector<int64_t>(80, 12288))},
      {"rows", testing::IndependentRows({{900, 768}, {64, 4096}, {300, 74}}, 100000)}};
  for (const auto& [name, graph] : graphs) {
    const auto planned = Got(PlanChain(graph, 1, *BuiltinModel("h200"), {}), name);
    ASSERT_EQ(planned.chosen.kernels.size(), 1u) << name;
    const KernelSpec& spec = planned.chosen.kernels[0].spec;
    ASSERT_FALSE(StitchOf(spec)->parts.empty()) << name;
    ExpectGoldenKernel(std::string("stitch/packed-") + name, spec);
  }
}

}  // namespace
}  // namespace sinter
