// Problems and kernel specs that the tests of codegen share: operands bound as fusion binds them.
#ifndef SINTER_TESTS_UNIT_CODEGEN_SAMPLE_KERNELS_H_
#define SINTER_TESTS_UNIT_CODEGEN_SAMPLE_KERNELS_H_

#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"

namespace sinter {

// S8: the smallest gated FFN of the problem lists.
inline FfnProblem SampleS8() {
  FfnProblem p;
  p.gated = true;
  p.activation = Activation::kSilu;
  p.n = 3072;
  p.k = 1024;
  p.l = 1024;
  p.bucket = 128;
  return p;
}

// G7: a square plain chain that a cluster can hold.
inline FfnProblem SampleG7() {
  FfnProblem p;
  p.activation = Activation::kRelu;
  p.n = 768;
  p.k = 768;
  p.l = 768;
  p.bucket = 128;
  return p;
}

// Operands of a spec numbered 0, 1, .. in role order, the output last, C behind the flags of the
// workspace. Rows are contiguous.
inline KernelSpec SampleSpec(const FfnProblem& p, const Schedule& s) {
  KernelSpec spec;
  spec.family = p.products == 2 ? KernelFamily::kChain : KernelFamily::kGemm;
  spec.problem = p;
  spec.schedule = s;
  const bool io = p.layout == Layout::kIO;
  const auto bind = [&spec](Role role, int64_t row_stride) {
    spec.operands.push_back({role, static_cast<int>(spec.operands.size()), 0, row_stride});
  };
  bind(Role::kA, p.k);
  bind(Role::kW1, io ? p.n : p.k);
  if (p.gated) bind(Role::kWUp, io ? p.n : p.k);
  if (p.bias1) bind(Role::kB1, 0);
  if (p.bias1 && p.gated) bind(Role::kBUp, 0);
  if (p.products == 2) bind(Role::kW2, io ? p.l : p.n);
  if (p.bias2) bind(Role::kB2, 0);
  if (p.residual != Residual::kNone) bind(Role::kResidual, p.products == 2 ? p.l : p.n);
  if (p.scaling1.rows != RowFactor::kNone) bind(Role::kFactor1, 1);
  if (p.scaling2.rows != RowFactor::kNone) bind(Role::kFactor2, 1);
  bind(Role::kOut, p.products == 2 ? p.l : p.n);
  if (WritesC(s)) {
    spec.operands.push_back({Role::kC, kWorkspaceBuffer, kWorkspaceFlagBytes, p.n});
  }
  if (s.clusters_n > 1) {
    spec.operands.push_back({Role::kParts, kWorkspaceBuffer, kWorkspaceFlagBytes, 0});
  }
  return spec;
}

// A fixed schedule of S8 or G7 in each dataflow; kProduct is for FirstProductOf(problem).
inline Schedule SampleSchedule(const FfnProblem& p, Dataflow dataflow) {
  Schedule s;
  s.dataflow = dataflow;
  s.block_k = 128;
  s.stages = 3;
  if (dataflow == Dataflow::kProduct) {
    s.cluster = 2;
    s.first = {p.gated ? 48 : 24, 2};
    s.grid = static_cast<int>((p.n + s.first.block_n - 1) / s.first.block_n) * 2;
  } else if (dataflow == Dataflow::kGridExchange) {
    s.cluster = 4;
    s.grid = 120;
    s.first = {p.gated ? 32 : 8, 1};
    s.second = {32, 4};
  } else if (dataflow == Dataflow::kTaskList) {
    s.cluster = 2;
    s.grid = 48;
    s.share = Share::kRows;
    s.first = {p.gated ? 48 : 24, 1};
    s.second = {32, 2};
  } else {
    s.block_m = 16;
    s.warpgroups_m = 1;
    s.warpgroups_n = p.gated ? 2 : 1;
    s.stages = p.gated ? 2 : 4;
    s.block_k = 64;
    s.cluster = p.gated ? 16 : 8;
    s.grid = 8 * s.cluster;
    s.first = {static_cast<int>(p.n) / s.cluster, 1};
    s.second = {static_cast<int>(p.l) / s.cluster, 1};
  }
  return s;
}

// S8 or G7 by clusters that share M tiles, each with a range of N.
inline Schedule SampleRanges(const FfnProblem& p) {
  Schedule s;
  s.dataflow = Dataflow::kClusterExchange;
  s.block_m = 64;
  s.warpgroups_m = 1;
  s.block_k = 64;
  s.stages = 3;
  s.cluster = p.gated ? 8 : 4;
  s.first = {p.gated ? 56 : 48, 1};
  s.clusters_n = p.gated ? 7 : 4;
  s.second = {static_cast<int>(p.l) / s.cluster, 1};
  s.grid = 2 * s.clusters_n * s.cluster;
  return s;
}

// S8 or G7 by clusters whose slab holds half of C.
inline Schedule SampleSlab(const FfnProblem& p) {
  Schedule s = SampleSchedule(p, Dataflow::kClusterExchange);
  s.stages = 3;
  s.slab_columns = static_cast<int>(p.n) / 2;
  return s;
}

// S8 by clusters with gate and up in ranks of their own.
inline Schedule SampleSpatialGate(const FfnProblem& p) {
  Schedule s = SampleSchedule(p, Dataflow::kClusterExchange);
  s.stages = 2;
  s.block_m = 8;
  s.grid = 16 * s.cluster;
  s.first = {2 * static_cast<int>(p.n) / s.cluster, 1};
  s.spatial_gate = true;
  return s;
}

// The problem that a kernel of `dataflow` takes when the chain is `p`.
inline FfnProblem SampleProblem(const FfnProblem& p, Dataflow dataflow) {
  return dataflow == Dataflow::kProduct ? FirstProductOf(p) : p;
}

inline KernelSpec SampleSpec(const FfnProblem& p, Dataflow dataflow) {
  return SampleSpec(SampleProblem(p, dataflow), SampleSchedule(p, dataflow));
}

constexpr Dataflow kDataflows[] = {Dataflow::kProduct, Dataflow::kGridExchange,
                                   Dataflow::kClusterExchange, Dataflow::kTaskList};

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_CODEGEN_SAMPLE_KERNELS_H_
