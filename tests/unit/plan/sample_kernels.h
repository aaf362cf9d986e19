// Problems and kernel specs that the tests of codegen share: operands bound as fusion binds them.
#pragma once

#include "src/base/launch_recipe.h"
#include "src/plan/stitch_family.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/search/search.h"
#include "src/product/search/space.h"
#include "tests/support/product_in.h"
#include "tests/support/read_schedule.h"
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

// C6 of FlashFuser's convolutions for one image: 3 x 3 taps over 28 x 28 pixels, then 1 x 1. Or
// with other channels.
inline ProductSequence SampleC6(int64_t channels = 128) {
  PixelWindow window{.height = 28, .width = 28, .channels = channels, .taps = {3, 3}};
  window.conv.pads = {1, 1, 1, 1};
  ProductSequence p = MakeSequence(1, MakeProduct(128, window.Columns(), Activation::kRelu), 512);
  p.rows_per_m = window.RowsPerM();
  p[0].rows.source = Source::kWindow;
  p[0].rows.window = window;
  return p;
}

// The distance between neighbouring rows of the first GEMM's rows, or pixels under its windows.
inline int64_t RowStride(const Operand& rows, int64_t k) {
  return rows.source == Source::kWindow ? rows.window.channels : k;
}

// Operands of a spec are numbered 0, 1, .. in role order, the output last, C after the flags of the
// workspace. Rows are contiguous.
inline KernelSpec SampleSpec(const ProductSequence& p, const Schedule& s) {
  ProductBody body{.sequence = p, .schedule = s};
  const bool io = p.layout() == Layout::kIO, two = p.size() == 2;
  const auto bind = [&body](Role role, int64_t row_stride) {
    body.operands.push_back({role, static_cast<int>(body.operands.size()), 0, row_stride});
  };
  body.constant_rows = p[0].HasTransposedRows();
  bind(Role::kA, p[0].HasTransposedRows() ? p.rows() : RowStride(p[0].rows, p[0].k));
  bind(Role::kW, io ? p[0].n : p[0].k);
  if (p[0].pair) bind(Role::kWUp, io ? p[0].n : p[0].k);
  const auto bind_leaf = [&](Role role, int64_t row_stride) {
    for (const Leaf& leaf : p[role.product].Leaves(role.product)) {
      if (leaf.role == role) bind(role, row_stride);
    }
  };
  bind_leaf(Role::kBias, 0);
  bind_leaf(Role::kBiasUp, 0);
  if (two) bind(Role(Role::kW, 1), io ? p[1].n : p[0].n);
  if (two) bind_leaf(Role(Role::kBias, 1), 0);
  if (p.back().epilogue.has_residual()) bind(Role::kResidual, p.back().n);
  bind_leaf(Role::kFactor, 1);
  if (two) bind_leaf(Role(Role::kFactor, 1), 1);
  const auto scaled = [](const Operand& o) { return o.scales.kind != ScaleKind::kNone; };
  const auto bind_scale = [&](Role role) { bind(role, ScaleRowStride(p, role)); };
  if (scaled(p[0].rows)) bind_scale(Role::kScaleA);
  if (scaled(p[0].weights)) bind_scale(Role::kScaleW);
  if (scaled(p[0].weights) && p[0].pair) bind_scale(Role::kScaleUp);
  if (two && scaled(p[1].weights)) bind_scale(Role(Role::kScaleW, 1));
  for (int product = 0; product < p.size(); ++product) {
    for (const Leaf& leaf : p[product].Leaves(product)) {
      if (leaf.role.kind == Role::kLeaf) bind(leaf.role, 0);
    }
  }
  const ProductEpilogue& last = p.back().epilogue;
  if (last.quantize.has_value() && !last.has_groups()) bind_scale(Role::kGivenScale);
  bind(Role::kOut, p.back().n);
  if (last.has_groups()) bind_scale(Role::kScaleOut);
  for (int i = 0; i < p.back().AuxResults(); ++i) bind({Role::kAux, 0, i}, p.back().n);
  if (WritesC(s)) {
    body.operands.push_back({Role::kC, kWorkspaceBuffer, kWorkspaceFlagBytes, p[0].n});
  }
  if (RangesOf(s) > 1) {
    body.operands.push_back({Role::kPartialOut, kWorkspaceBuffer, kWorkspaceFlagBytes, 0});
  }
  return KernelSpec{.body = MakeBody(std::move(body))};
}

inline Schedule SampleCluster(const ProductSequence& p) {
  Schedule s = ReadSchedule("cluster-exchange bm16 wg1x1 bk64");
  s.warpgroups_n = p[0].pair ? 2 : 1;
  s.stages = p[0].pair ? 2 : 4;
  s.cluster = p[0].pair ? 16 : 8;
  s.grid = 8 * s.cluster;
  s.first = {static_cast<int>(p[0].n) / s.cluster, 1};
  s.second = {static_cast<int>(p[1].n) / s.cluster, 1};
  return s;
}

// A schedule of C6: of its first GEMM only, or of both in a cluster exchange.
inline Schedule SampleC6Schedule(Dataflow dataflow) {
  Schedule s = ReadSchedule("product bm32 wg1x1 bk128 st6 cl4 grid100 first 32/1");
  s.dataflow = dataflow;
  if (dataflow == Dataflow::kProduct) {
    s.first.split_k = 4;
    return s;
  }
  s.second = {128, 1};
  return s;
}

// For a dataflow without a fixed schedule: the schedule of its space that is predicted best.
inline Schedule BestOfSpace(const ProductSequence& p, Dataflow dataflow) {
  const DeviceModel model = *BuiltinModel("h200");
  Schedule best;
  double best_us = 0;
  RowOf(dataflow).enumerate(SpaceWalk(p, model, [&](const Schedule& s) {
    if (!CheckSchedule(p, s, model).ok()) return;
    const double us = Predict(p, s, model).total_us;
    if (best_us == 0 || us < best_us) best = s, best_us = us;
  }));
  return best;
}

// A schedule of S8 or G7 in each dataflow that takes it; kProduct is for FirstOf(problem).
inline Schedule SampleSchedule(const ProductSequence& p, Dataflow dataflow) {
  Schedule s{.dataflow = dataflow, .block_k = 128, .stages = 3};
  switch (dataflow) {
    case Dataflow::kProduct:
      s.cluster = 2;
      s.first = {p[0].pair ? 48 : 24, 2};
      s.grid = static_cast<int>((p[0].n + s.first.block_n - 1) / s.first.block_n) * 2;
      return s;
    case Dataflow::kGridExchange:
      s.cluster = 4;
      s.grid = 120;
      s.first = {p[0].pair ? 32 : 8, 1};
      s.second = {32, 4};
      return s;
    case Dataflow::kClusterExchange:
      return SampleCluster(p);
    case Dataflow::kClusterRanges:
      s.block_m = 64;
      s.warpgroups_m = 1;
      s.block_k = 64;
      s.cluster = p[0].pair ? 8 : 4;
      s.first = {p[0].pair ? 56 : 48, 1};
      s.cut = p[0].pair ? 7 : 4;
      s.second = {static_cast<int>(p[1].n) / s.cluster, 1};
      s.grid = 2 * s.cut * s.cluster;
      return s;
    case Dataflow::kClusterSlab:  // half of C
      s = SampleCluster(p);
      s.dataflow = dataflow;
      s.stages = 3;
      s.cut = static_cast<int>(p[0].n) / 2;
      return s;
    case Dataflow::kSpatialGate:
      s = SampleCluster(p);
      s.dataflow = dataflow;
      s.stages = 2;
      s.block_m = 8;
      s.grid = 16 * s.cluster;
      s.first = {2 * static_cast<int>(p[0].n) / s.cluster, 1};
      return s;
    default:
      return BestOfSpace(p, dataflow);
  }
}

// The problem that a kernel of `dataflow` takes when the chain is `p`.
inline ProductSequence SampleProblem(const ProductSequence& p, Dataflow dataflow) {
  return RowOf(dataflow).products == 1 ? FirstOf(p) : p;
}

inline KernelSpec SampleSpec(const ProductSequence& p, Dataflow dataflow) {
  return SampleSpec(SampleProblem(p, dataflow), SampleSchedule(p, dataflow));
}

// A stitched kernel of the whole problem of a line.
inline KernelSpec StitchedSpec(const char* line, StitchSchedule schedule) {
  StitchSpec stitch{.body = ParseProblem(line)->chain, .schedule = std::move(schedule)};
  for (int i = 0; i < stitch.body.num_inputs() + stitch.body.num_outputs(); ++i) {
    stitch.operands.push_back({i, 0});
  }
  return KernelSpec{.family = &StitchFamily(), .body = MakeBody(std::move(stitch))};
}

// All that take a chain as wide and as large as `p`.
inline std::vector<Dataflow> DataflowsOf(const ProductSequence& p) {
  std::vector<Dataflow> list;
  for (const DataflowRow* row : AllDataflows()) {
    const bool fits = SampleSchedule(p, row->dataflow).grid > 0;
    if (row->gate_ranks <= p[0].Width() && fits) list.push_back(row->dataflow);
  }
  return list;
}

}  // namespace sinter
