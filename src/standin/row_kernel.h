// RowKernel: a body as the argument of a kernel that comes with the library, and its launch. Such
// kernels stand in for stitched ones until those are compiled.
#ifndef SINTER_SRC_STANDIN_ROW_KERNEL_H_
#define SINTER_SRC_STANDIN_ROW_KERNEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/stitch/spec.h"

namespace sinter {

struct RowProgram;

// How many there are; they differ in the elements of a row that a thread holds.
constexpr int kRowKernels = 3;
std::string RowKernelName(int index);    // "rows_8": unique among stand-ins
std::string RowKernelSource(int index);  // what NVRTC compiles, with the device library
constexpr char kRowKernelEntry[] = "sinter_rows";

struct RowKernel {
  int index = 0;
  int64_t rows_per_m = 1;  // all rows, where the body has no M
  int side_by_side = 1;    // rows of a block
  LaunchRecipe recipe;     // of one block
};

// FAILED_PRECONDITION naming the op that it cannot compute, or what there is too much of.
// `operands`: of the body's inputs, then of its outputs.
absl::StatusOr<RowKernel> MakeRowKernel(const Chain& body,
                                        const std::vector<StitchOperand>& operands);
// OK, or that error.
absl::Status CheckRowKernel(const Chain& body);

// Blocks that m rows keep busy.
int RowBlocks(const RowKernel& kernel, int64_t m);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_ROW_KERNEL_H_
