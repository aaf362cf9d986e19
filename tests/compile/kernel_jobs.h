// Which kernels the compile tests compile: the best schedules of the problem lists and a random
// sweep of the shipping space.
#pragma once

#include "src/base/device_model.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"
#include "tests/support/common.h"

namespace sinter {

struct KernelJob {
  KernelSpec spec;
  CodegenOptions options;
  std::string Name() const;  // problem and schedule, one line
};

// gated_ffn.txt and gemm_chains.txt in layout oi and io: for each the best fused schedule, the best
// one without a cooperative launch, and the two products of the unfused plan. No duplicates. Unless
// `all`, the layouts in turn, one a problem.
std::vector<KernelJob> BestKernels(const DeviceModel& model, bool all);

// Clusters that share row tiles by ranges of N, for the same problems in layout oi: the best
// schedule of each and the one whose parts of E are the largest.
std::vector<KernelJob> RangesKernels(const DeviceModel& model, size_t count);

// Kernels whose weights stay, of small plain, gated and 3 x 3 chains in both layouts and types,
// with everything that an epilogue has: the best schedules and those with the most sums, `count`
// evenly.
std::vector<KernelJob> ResidentKernels(const DeviceModel& model, size_t count);

// products.txt in layout oi and io: every kernel of the best fused and of the unfused plan, as
// planned: operands that lie in the workspace among them. No duplicates.
std::vector<KernelJob> ProductsKernels(const DeviceModel& model);

// Kernels that add a residual: gated FFNs and products, layout oi and io, bf16 and f16, ragged
// columns, the sum rounded once and twice; of each a grid exchange and a cluster exchange where
// there are, and products whose K is whole, split and of pairs. The best schedules of each kind and
// the ones with the most accumulators; at most `count`, evenly of all.
std::vector<KernelJob> ResidualKernels(const DeviceModel& model, size_t count);
// The same of epilogues that are programs.
std::vector<KernelJob> ProgramKernels(const DeviceModel& model, size_t count);
// And of those that read a matrix of another element than the result, or of f32.
std::vector<KernelJob> MatrixKernels(const DeviceModel& model, size_t count);
// And of those that store auxiliary results.
std::vector<KernelJob> AuxKernels(const DeviceModel& model, size_t count);

// The same with products that are scaled by constants and factors of rows, with residuals and
// without.
std::vector<KernelJob> ScaledKernels(const DeviceModel& model, size_t count);

// The same with a scale of each column of either GEMM or both. The scale is the only term, or comes
// together with a factor of rows and with everything else that an epilogue has. Convolutions of
// 3 x 3 taps with a scale are included.
std::vector<KernelJob> ColumnScaleKernels(const DeviceModel& model, size_t count);

// Wide tiles, of two GEMMs and of each by itself, of 8 and 16 bits, whose columns have a bias or a
// scale. One for each dataflow, tile and way to share; at most `count`, evenly of all.
std::vector<KernelJob> WideTileKernels(const DeviceModel& model, size_t count);
// Products and gated pairs of transposed rows, of a known K and of one that is M, with weights of
// both layouts and everything else that an epilogue has; of every kind as above.
std::vector<KernelJob> TransposedKernels(const DeviceModel& model, size_t count);
// Products that compute the norm of their rows; of every kind as above.
std::vector<KernelJob> NormKernels(const DeviceModel& model, size_t count);
// Products and gated pairs of e4m3 and s8 operands: every scale, promoted and fast sums, bf16, f16
// and f32 results, with bias, activations and residual, ragged columns, from 1 to 512 rows; of
// every kind as above.
std::vector<KernelJob> CodesKernels(const DeviceModel& model, size_t count);

// Products and gated pairs of bf16 and f16 in both layouts, and convolutions, whose result is f32:
// with bias, constants, factors of rows and scales of columns; of every kind as above.
std::vector<KernelJob> WideResultKernels(const DeviceModel& model, size_t count);

// The same of scales that are strided: rows M or 8192 apart and padded ones, vectors of every
// second element.
std::vector<KernelJob> StridedScaleKernels(const DeviceModel& model, size_t count);

// Convolutions of 3 x 3 taps whose channels end inside a subtile, in both layouts. Some have a
// 1 x 1 convolution after them. Every kind is present as above: at most `count`, evenly of all.
std::vector<KernelJob> WindowKernels(const DeviceModel& model, size_t count);

// `count` legal schedules, drawn evenly from the spaces of random problems: every layout, dtype,
// activation, bias, scaling and residual, ragged sizes, buckets from 1 to 512. Depends only on
// `seed`. About every other one, by chance, has an epilogue program of random ops.
std::vector<KernelJob> RandomKernels(const DeviceModel& model, uint64_t seed, int count);

// `count` kernels, each with the schedule that planning offers first: three of four of such
// problems, the fourth a product or a pair of codes with every scale, sum and result.
std::vector<KernelJob> FirstKernels(const DeviceModel& model, uint64_t seed, int count);

}  // namespace sinter
