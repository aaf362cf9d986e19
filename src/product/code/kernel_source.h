// The text of one kernel: its Config struct, the asserts that tie it to the plan's sizes, and the
// entry point.
#ifndef SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/product/operand.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"
#include "src/stitch/precision.h"

namespace sinter {

// ProductCode: what is compiled for a kernel of products. ProductBinding: where a plan's kernel
// finds its buffers, and how it is launched.

// A matrix that a kernel reaches through a pointer, not through a tensor map. The source holds
// these values as literals.
struct RowLayout {
  int64_t stride = 0;    // elements between rows; 0 without such a matrix
  bool aligned = false;  // 16-byte groups of columns lie on 16 bytes, from a buffer that does
  SINTER_FIELDS(RowLayout, stride, aligned);
};

// Generated source is a function of this struct only.
struct ProductCode {
  ProductSequence sequence;  // without a row count: m is 0, rows_per_m is 1
  Schedule schedule;         // without a grid: grid is 0
  bool constant_weights = true;
  RowLayout out, residual;
  std::vector<RowLayout> aux;  // of each auxiliary result
};

// What the launch needs besides the code.
struct ProductBinding {
  std::vector<OperandBinding> operands;
  int64_t rows = 0;            // most rows of a launch
  int64_t rows_per_m = 1;      // rows of a launch = its m * rows_per_m, unless constant_rows
  bool constant_rows = false;  // every launch has `rows` rows, whatever its m
  int grid = 1;                // blocks
  uint64_t flags_offset = 0;   // of the ready flags in the workspace
};

// The names of the dataflow's kernel: "sinter_grid_exchange", and the device library's header,
// "kernels/grid_exchange.cuh".
std::string EntryName(const Schedule& schedule);
std::string KernelHeader(const Schedule& schedule);

// The header of kernels that push their result to other ranks (Schedule::pushes).
inline constexpr char kPushHeader[] = "kernels/push.cuh";

// Threads of a block: the producer warpgroup and the consumers.
int ThreadsOf(const Schedule& schedule);

// The kernel's parameters, in order. The recipe fills the same list.
struct KernelParameters {
  std::vector<Role> maps;      // tensor maps
  std::vector<Role> pointers;  // kC and kPartialOut lie in the workspace, written by plain stores
  bool push = false;           // the group's room and the word of the plan follow the pointers
  bool workspace = false;      // then the workspace header
  bool k = false;              // K of the launch follows its rows
};
KernelParameters ParametersOf(const ProductCode& code);

// INVALID_ARGUMENT naming an element type that no kernel multiplies.
absl::StatusOr<std::string> ProductSource(const ProductCode& code);

// The launch recipe of a kernel of products: tensor maps, arguments, grid, attributes.

// INVALID_ARGUMENT naming the operand when its row stride or offset is not a multiple of 16 bytes,
// as tensor maps need.
absl::StatusOr<LaunchRecipe> ProductRecipe(const ProductCode& code, const ProductBinding& binding);

// The parts that a recipe of other arguments is made of (src/standin): all but entry, shared memory
// and the arguments after the tensor maps; a pointer to an operand; a number; the launch's rows.
absl::StatusOr<LaunchRecipe> ProductLaunch(const ProductCode& code, const ProductBinding& binding);
absl::StatusOr<ArgSlot> ProductPointer(const ProductCode& code, const ProductBinding& binding,
                                       Role role);
ArgSlot ConstantSlot(int64_t value);
ArgSlot RowsSlot(const ProductBinding& binding);

// The text of an epilogue's program in a kernel.

// The text of wgmma wrappers. The instruction names every accumulator register, so each N needs a
// wrapper of its own.

// `template <> struct Wgmma<n, Element, a_transposed, b_transposed>` of the device library. n: a
// multiple of 8 in 8..256; transposed: the operand is contiguous along M or N instead of K.
std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed);

// `template <> struct RegisterWgmma<n, Element, b_transposed>`, of 16-bit elements.
std::string RegisterWgmmaSource(int n, const ElementRow& element, bool b_transposed);

// The parts of a kernel that say what its products' programs compute.
struct ProgramSource {
  struct Part {
    std::string name;        // of its struct: "Program1"
    std::string activation;  // in Config; empty without a program
    bool leaves = false;     // it is whole, or reads gate and up, or vectors: the struct has Leaves
  };
  std::string text;  // of its structs; empty without programs
  Part parts[2];     // by product
};

ProgramSource ProgramSourceOf(const ProductSequence& sequence);
// Statements that return what `program` makes of y, of up in a pair, and of its other inputs, which
// are called by `names`; y if it is absent. Stores round the result. `precisions`: of its ops;
// null: PrecisionsOf. `y`: a value of the body that the text calls y.
std::string BodyText(const EpilogueProgram& program, const std::map<int, std::string>& names,
                     const std::vector<Precision>* precisions = nullptr, ValueId y = -1);
// In the device library. `f32`: of a result that is stored in f32.
const char* ActivationName(Activation activation, bool f32);
// The header that a source with programs includes besides the dataflow's.
inline constexpr char kProgramHeader[] = "kernels/program.cuh";

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_
