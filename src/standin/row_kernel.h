// RowKernel: a body as the argument of a kernel that comes with the library, and its launch. Such
// kernels stand in for stitched ones until those are compiled.
#ifndef SINTER_SRC_STANDIN_ROW_KERNEL_H_
#define SINTER_SRC_STANDIN_ROW_KERNEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/chain/op.h"
#include "src/device/stitch/row_format.cuh"
#include "src/stitch/spec.h"

namespace sinter {

// The rows and columns that a kernel of rows walks, and where elements of values lie: places that
// move with the dims of a domain of rows and columns.

constexpr int kRowDims = 5;  // of a domain: rows, then columns

// A place that moves with the domain's dims.
struct RowPlace {
  int64_t base = 0;
  std::array<int64_t, kRowDims> steps{};
  bool operator<(const RowPlace& o) const {
    return base != o.base ? base < o.base : steps < o.steps;
  }
  SINTER_FIELDS(RowPlace, base, steps);
};

struct RowDomain {
  std::vector<int64_t> dims;  // the last are the columns; the first is 1 where it is M
  bool of_m = false;          // whether the first is M
  int64_t columns() const { return dims.back(); }
  size_t last() const { return dims.size() - 1; }
};

// Rows of the body's first reduction, or of its first output, cut where they are too long.
// FAILED_PRECONDITION naming the op that is not of rows.
absl::StatusOr<RowDomain> RowDomainOf(const Chain& body);

// Where an element of a value is: a place on each of its axes, or one among all its elements.
struct RowPosition {
  bool flat = false;
  std::vector<RowPlace> axes;
};

RowPlace Times(RowPlace p, int64_t factor);
RowPlace Sum(RowPlace a, const RowPlace& b);

// The place among all elements of a value of `dims`.
RowPlace Flattened(const std::vector<Dim>& dims, const RowPosition& at);
// Axes where each of the domain's dims moves along one of them; else flat.
RowPosition Unflattened(const RowDomain& domain, const std::vector<Dim>& dims,
                        const RowPlace& flat);

// FAILED_PRECONDITION: op `v` of `body` is not of rows.
absl::Status RefuseRows(const Chain& body, ValueId v, absl::string_view why);
// The domain's dims, one after the other, as the axes of value `v`. `number`: without the columns.
absl::StatusOr<RowPosition> AxesOf(const Chain& body, ValueId v, const RowDomain& domain,
                                   bool* number);
// The place in memory of an element of value `v`, stored with these strides.
absl::StatusOr<RowPlace> InMemory(const Chain& body, ValueId v, const RowPosition& at,
                                  const std::vector<Stride>& strides);

// RowValues: a body as values of rows, for the kernels that come with the library. A domain of rows
// and columns is walked once; each value is a number for each element of it, or for each row.

struct RowValue {
  enum class Kind { kInput, kConstant, kOp, kReduce } kind = Kind::kOp;
  RowOp op = kRowLoad;
  int operands[3] = {-1, -1, -1};
  bool number = false;  // the same for all columns
  int input = -1;
  RowPlace place;  // of an input, in elements
  DType type = DType::kF32;
  float constant = 0;
};

// Where a value is stored.
struct RowResult {
  int value = -1, output = -1;
  RowPlace place;
  bool number = false;  // one element a row
  // In an input's buffer, whose elements are read only where they are stored. It is stored after
  // all other results.
  bool in_place = false;
};

struct RowValues {
  RowDomain domain;
  std::vector<RowValue> values;  // operands before their users
  std::vector<RowResult> results;
};

// FAILED_PRECONDITION naming the op that is not of rows.
absl::StatusOr<RowValues> ReadRows(const Chain& body);

// What the row program calls a chain's element-wise ops, and their functions as its kernels have
// them.

constexpr RowOp RowOpOf(UnaryKind kind) {
  return static_cast<RowOp>(kRowUnary + static_cast<int>(kind));
}
constexpr RowOp RowOpOf(BinaryKind kind) {
  return static_cast<RowOp>(kRowBinary + static_cast<int>(kind));
}
bool RowsHave(const Op& op);

// The struct RowOps of stitch/row_program.cuh, of all ops that rows have.
std::string RowOpsSource();

// RowSteps: values of rows as steps of an accumulator machine (src/device/stitch/row_program.cuh).

struct RowSteps {
  RowProgram program{};  // all but threads
  int slots = 0;         // in shared memory
};

// FAILED_PRECONDITION naming what there is too much of. Input i of the body is buffer i, output j
// is buffer `inputs` + j.
absl::StatusOr<RowSteps> MakeRowSteps(const RowValues& values, int inputs,
                                      const std::vector<DType>& output_types);

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
                                        const std::vector<BufferPlace>& operands);
// OK, or that error.
absl::Status CheckRowKernel(const Chain& body);

// Blocks that m rows keep busy.
int RowBlocks(const RowKernel& kernel, int64_t m);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_ROW_KERNEL_H_
