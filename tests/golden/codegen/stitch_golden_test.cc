// Source and recipe of fixed kernels of the stitch family, byte for byte: every composition, with
// what is kept, held and handed over, whatever search would choose.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/chain/problem.h"
#include "src/fusion/fusion.h"
#include "tests/golden/codegen/kernel_text.h"
#include "tests/support/composed_graphs.h"
#include "tests/support/random_stitch_graph.h"

namespace sinter {
namespace {

struct Sample {
  std::string name;
  Chain body;
  StitchSchedule schedule;
};

Chain FromLine(const char* line) { return ParseProblem(line)->chain; }

// Fields in the order of StitchSchedule.
std::vector<Sample> Samples() {
  return {
      {"layernorm1024-warp-keep",
       FromLine("layernorm rows=M cols=1024"),
       {2, 128, 32, 1, 8, 1, 1, false, 1, true, false, false, 0, false, {}, 4, 2048}},
      {"layernorm1024-lanes",
       FromLine("layernorm rows=M cols=1024"),
       {2, 128, 8, 1, 8, 1, 1, false, 1, false, false, false, 0, false, {}, 4, 512}},
      {"layernorm1024-block-keep-alike",
       FromLine("layernorm rows=M cols=1024"),
       {2, 128, 64, 1, 4, 1, 1, false, 1, true, false, true, 0, false, {}, 5, 4096}},
      {"layernorm1024-elements-chunks",
       FromLine("layernorm rows=M cols=1024"),
       {-1, 128, 128, 1, 8, 2, 1, false, 1, false, false, false, 0, false, {}, 5, 4096}},
      {"layernorm1024-elements-split",
       FromLine("layernorm rows=M cols=1024"),
       {-1, 128, 128, 1, 8, 1, 1, false, 16, false, false, false, 0, false, {}, 6, 2048}},
      {"layernorm1024-cluster-keep",
       FromLine("layernorm rows=M cols=1024"),
       {2, 256, 256, 2, 2, 1, 1, false, 1, true, false, false, 0, false, {}, 6, 16384}},
      {"softmax64-lanes-keep-values",
       FromLine("softmax rows=M cols=64"),
       {2, 128, 16, 1, 4, 1, 1, false, 1, true, true, false, 0, false, {}, 9, 1024}},
      {"softmax16384-cluster-keep-values-alike",
       FromLine("softmax rows=M cols=16384"),
       {2, 256, 256, 2, 8, 1, 1, false, 1, true, true, true, 0, false, {}, 2, 16384}},
      {"softmax16384-block",
       FromLine("softmax rows=M cols=16384"),
       {2, 128, 128, 1, 4, 1, 1, false, 1, false, false, false, 0, false, {}, 9, 8192}},
      {"quantize4096-row-warps-keep",
       FromLine("quantize rows=M cols=4096"),
       {4, 128, 64, 1, 8, 1, 1, false, 1, true, false, false, 0, false, {}, 4, 2048}},
      {"quantize4096-group-ue8m0-lanes-keep",
       FromLine("quantize rows=M cols=4096 granularity=group ue8m0=1"),
       {4, 128, 4, 1, 8, 1, 1, false, 1, true, false, false, 0, false, {}, 5, 2048}},
      {"quantize4096-row-s8-block",
       FromLine("quantize rows=M cols=4096 codes=s8"),
       {4, 256, 256, 1, 8, 1, 1, false, 1, false, false, false, 0, false, {}, 4, 2048}},
      {"pooled-attention-block-split-keep-values-hand-over",
       testing::PooledAttention(256, 100, 36, false),
       {6, 256, 256, 1, 4, 1, 1, false, 32, true, true, false, 0, false, {9}, 4, 256}},
      {"pooled-attention-block-split-keep",
       testing::PooledAttention(256, 100, 36, false),
       {6, 128, 128, 1, 1, 1, 1, false, 4, true, false, false, 0, false, {}, 10, 256}},
      {"pooled-product-warp-split",
       testing::PooledAttention(256, 100, 36, true),
       {6, 128, 32, 1, 4, 1, 1, false, 4, false, false, false, 0, false, {}, 9, 64}},
      {"pooled-product-lanes-hand-over",
       testing::PooledAttention(256, 100, 36, true),
       {6, 128, 16, 1, 4, 1, 1, false, 1, false, false, false, 0, false, {12}, 9, 32}},
      {"batchnorm-warp-grid-keep-alike-hold",
       testing::BatchNorm(25088, 256),
       {2, 256, 32, 1, 8, 1, 1, false, 1, true, false, true, 98304, false, {}, 1, 132}},
      {"batchnorm-warp-grid-column-cluster-join-all-keep-alike-hold",
       testing::BatchNorm(25088, 256),
       {2, 256, 32, 1, 8, 1, 8, true, 1, true, false, true, 110592, false, {}, 1, 120}},
      {"batchnorm-block-grid-column-cluster-keep-alike-hold",
       testing::BatchNorm(25088, 256),
       {2, 512, 64, 1, 4, 1, 8, false, 1, true, false, true, 110592, false, {}, 1, 120}},
      {"batchnorm-m-block-grid",
       testing::BatchNorm(0, 1024),
       {2, 1024, 256, 1, 4, 1, 1, false, 1, false, false, false, 0, false, {}, 1, 132}},
      {"batchnorm-m-cluster-grid-keep-alike-hold",
       testing::BatchNorm(0, 1024),
       {2, 256, 256, 2, 2, 1, 1, false, 1, true, false, true, 64512, false, {}, 1, 132}},
      {"rope-lanes-split-keep",
       testing::NormRope(64, 32, 8, 128),
       {3, 128, 16, 1, 8, 1, 1, false, 8, true, false, false, 0, false, {}, 6, 256}},
      {"random5-cluster-grid-join-all-split-keep-values-hold",
       testing::MakeRandomStitchGraph(5),
       {21, 512, 512, 4, 1, 1, 1, true, 32, true, true, false, 3072, false, {}, 1, 36}},
      {"random6-block-split-hand-over",
       testing::MakeRandomStitchGraph(6),
       {15, 1024, 1024, 1, 4, 1, 1, false, 32, false, false, false, 0, false, {14}, 1, 1}},
      {"random8-lanes-grid-join-all-keep-alike",
       testing::MakeRandomStitchGraph(8),
       {13, 256, 16, 1, 2, 1, 1, true, 1, true, false, true, 0, false, {}, 1, 3}},
      {"random10-lanes-grid-split-keep-values-hold-hand-over",
       testing::MakeRandomStitchGraph(10),
       {21, 128, 4, 1, 4, 1, 1, false, 4, true, true, false, 5120, false, {8}, 1, 16}},
      {"random13-block-keep-hand-over",
       testing::MakeRandomStitchGraph(13),
       {6, 256, 256, 1, 4, 1, 1, false, 1, true, false, false, 0, false, {2, 20}, 1, 1}},
      {"random16-warp-grid-keep-values-hold-hand-over",
       testing::MakeRandomStitchGraph(16),
       {13, 256, 32, 1, 4, 1, 1, false, 1, true, true, false, 10240, false, {7}, 1, 10}},
      {"random17-lanes-grid-column-cluster-keep-hold",
       testing::MakeRandomStitchGraph(17),
       {7, 128, 2, 1, 1, 1, 8, false, 1, true, false, false, 768, false, {}, 1, 16}},
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
  spec.stitch = std::move(stitch);
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
    const auto planned = PlanChain(graph, 1, *BuiltinModel("h200"), {});
    ASSERT_TRUE(planned.ok()) << name << ": " << planned.status();
    ASSERT_EQ(planned->chosen.kernels.size(), 1u) << name;
    const KernelSpec& spec = planned->chosen.kernels[0].spec;
    ASSERT_FALSE(spec.stitch->parts.empty()) << name;
    ExpectGoldenKernel(std::string("stitch/packed-") + name, spec);
  }
}

}  // namespace
}  // namespace sinter
