// Problems and kernel specs that the tests of codegen share: operands bound as fusion binds them.
#ifndef SINTER_TESTS_UNIT_PLAN_SAMPLE_KERNELS_H_
#define SINTER_TESTS_UNIT_PLAN_SAMPLE_KERNELS_H_

#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"
#include "tests/support/sequences.h"

namespace sinter {

// S8: the smallest gated FFN of the problem lists.
inline ProductSequence SampleS8() {
  return MakeSequence(128, MakeProduct(3072, 1024, Activation::kSilu, true), 1024);
}

// G7: a square plain chain that a cluster can hold.
inline ProductSequence SampleG7() {
  return MakeSequence(128, MakeProduct(768, 768, Activation::kRelu), 768);
}

// Operands of a spec numbered 0, 1, .. in role order, the output last, C behind the flags of the
// workspace. Rows are contiguous.
inline KernelSpec SampleSpec(const ProductSequence& p, const Schedule& s) {
  KernelSpec spec;
  spec.family = p.size() == 2 ? KernelFamily::kChain : KernelFamily::kGemm;
  spec.sequence = p;
  spec.schedule = s;
  const bool io = p.layout() == Layout::kIO, two = p.size() == 2;
  const auto bind = [&spec](Role role, int64_t row_stride) {
    spec.operands.push_back({role, static_cast<int>(spec.operands.size()), 0, row_stride});
  };
  bind(Role::kA, p[0].k);
  bind(Role::kW1, io ? p[0].n : p[0].k);
  if (p[0].pair) bind(Role::kWUp, io ? p[0].n : p[0].k);
  if (p[0].epilogue.has_bias()) bind(Role::kB1, 0);
  if (p[0].epilogue.has_bias() && p[0].pair) bind(Role::kBUp, 0);
  if (two) bind(Role::kW2, io ? p[1].n : p[0].n);
  if (two && p[1].epilogue.has_bias()) bind(Role::kB2, 0);
  if (p.back().epilogue.has_residual()) bind(Role::kResidual, p.back().n);
  if (p[0].epilogue.has_factor()) bind(Role::kFactor1, 1);
  if (two && p[1].epilogue.has_factor()) bind(Role::kFactor2, 1);
  bind(Role::kOut, p.back().n);
  if (WritesC(s)) {
    spec.operands.push_back({Role::kC, kWorkspaceBuffer, kWorkspaceFlagBytes, p[0].n});
  }
  if (s.clusters_n > 1) {
    spec.operands.push_back({Role::kParts, kWorkspaceBuffer, kWorkspaceFlagBytes, 0});
  }
  return spec;
}

// A fixed schedule of S8 or G7 in each dataflow; kProduct is for FirstOf(problem).
inline Schedule SampleSchedule(const ProductSequence& p, Dataflow dataflow) {
  Schedule s;
  s.dataflow = dataflow;
  s.block_k = 128;
  s.stages = 3;
  if (dataflow == Dataflow::kProduct) {
    s.cluster = 2;
    s.first = {p[0].pair ? 48 : 24, 2};
    s.grid = static_cast<int>((p[0].n + s.first.block_n - 1) / s.first.block_n) * 2;
  } else if (dataflow == Dataflow::kGridExchange) {
    s.cluster = 4;
    s.grid = 120;
    s.first = {p[0].pair ? 32 : 8, 1};
    s.second = {32, 4};
  } else if (dataflow == Dataflow::kTaskList) {
    s.cluster = 2;
    s.grid = 48;
    s.share = Share::kRows;
    s.first = {p[0].pair ? 48 : 24, 1};
    s.second = {32, 2};
  } else {
    s.block_m = 16;
    s.warpgroups_m = 1;
    s.warpgroups_n = p[0].pair ? 2 : 1;
    s.stages = p[0].pair ? 2 : 4;
    s.block_k = 64;
    s.cluster = p[0].pair ? 16 : 8;
    s.grid = 8 * s.cluster;
    s.first = {static_cast<int>(p[0].n) / s.cluster, 1};
    s.second = {static_cast<int>(p[1].n) / s.cluster, 1};
  }
  return s;
}

// S8 or G7 by clusters that share M tiles, each with a range of N.
inline Schedule SampleRanges(const ProductSequence& p) {
  Schedule s;
  s.dataflow = Dataflow::kClusterExchange;
  s.block_m = 64;
  s.warpgroups_m = 1;
  s.block_k = 64;
  s.stages = 3;
  s.cluster = p[0].pair ? 8 : 4;
  s.first = {p[0].pair ? 56 : 48, 1};
  s.clusters_n = p[0].pair ? 7 : 4;
  s.second = {static_cast<int>(p[1].n) / s.cluster, 1};
  s.grid = 2 * s.clusters_n * s.cluster;
  return s;
}

// S8 or G7 by clusters whose slab holds half of C.
inline Schedule SampleSlab(const ProductSequence& p) {
  Schedule s = SampleSchedule(p, Dataflow::kClusterExchange);
  s.stages = 3;
  s.slab_columns = static_cast<int>(p[0].n) / 2;
  return s;
}

// S8 by clusters with gate and up in ranks of their own.
inline Schedule SampleSpatialGate(const ProductSequence& p) {
  Schedule s = SampleSchedule(p, Dataflow::kClusterExchange);
  s.stages = 2;
  s.block_m = 8;
  s.grid = 16 * s.cluster;
  s.first = {2 * static_cast<int>(p[0].n) / s.cluster, 1};
  s.spatial_gate = true;
  return s;
}

// The problem that a kernel of `dataflow` takes when the chain is `p`.
inline ProductSequence SampleProblem(const ProductSequence& p, Dataflow dataflow) {
  return dataflow == Dataflow::kProduct ? FirstOf(p) : p;
}

inline KernelSpec SampleSpec(const ProductSequence& p, Dataflow dataflow) {
  return SampleSpec(SampleProblem(p, dataflow), SampleSchedule(p, dataflow));
}

constexpr Dataflow kDataflows[] = {Dataflow::kProduct, Dataflow::kGridExchange,
                                   Dataflow::kClusterExchange, Dataflow::kTaskList};

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_PLAN_SAMPLE_KERNELS_H_
