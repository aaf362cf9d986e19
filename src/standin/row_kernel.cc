#include "src/standin/row_kernel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/code/stitch_source.h"

namespace sinter {
namespace {

// Elements of a row that a thread holds, and the most threads of a block.
struct Size {
  int elements, threads;
};
constexpr Size kSizes[kRowKernels] = {{8, 256}, {16, 512}, {32, 512}};
constexpr int kBlockThreads = 256, kWarp = 32;
constexpr int64_t kMostSlotBytes = 200 * 1024;
constexpr int64_t kMostBlocks = 1 << 11;

constexpr char kRowSource[] = R"(#include "stitch/row_program.cuh"

namespace sinter {

$5
extern "C" __global__ void __launch_bounds__($0)
$1(const __grid_constant__ RowProgram program, $2, int m) {
  const RowBuffers buffers = {{$3}};
  run_rows<$4, RowOps>(program, buffers, m);
}

}  // namespace sinter
)";

std::vector<ArgSlot> PointersOf(const Chain& body, const std::vector<BufferPlace>& operands) {
  std::vector<ArgSlot> slots;
  const auto inputs = static_cast<size_t>(body.num_inputs());
  for (size_t i = 0; i < operands.size() && i < kRowBuffers; ++i) {
    if (i < inputs) {
      const Op& op = body.input_op(static_cast<int>(i));
      slots.push_back(PointerSlot(operands[i], RowBytesOf(op.type, op.strides)));
    } else {
      const int j = static_cast<int>(i - inputs);
      slots.push_back(PointerSlot(
          operands[i],
          RowBytesOf(body.output_type(j), body.outputs()[static_cast<size_t>(j)].strides)));
    }
  }
  slots.resize(kRowBuffers, slots.front());  // what the program does not name is not read
  return slots;
}

absl::StatusOr<RowSteps> StepsOf(const Chain& body) {
  SINTER_ASSIGN_OR_RETURN(const RowValues values, ReadRows(body));
  std::vector<DType> types;
  for (int i = 0; i < body.num_outputs(); ++i) types.push_back(body.output_type(i).dtype);
  return MakeRowSteps(values, body.num_inputs(), types);
}

int ThreadsOf(int columns, const Size& size) {
  int threads = kWarp;
  while (threads * size.elements < columns) threads *= 2;
  return threads;
}

}  // namespace

std::string RowKernelName(int index) { return absl::StrCat("rows_", kSizes[index].elements); }

std::string RowKernelSource(int index) {
  std::string parameters, names;
  for (int i = 0; i < kRowBuffers; ++i) {
    absl::StrAppend(&parameters, i == 0 ? "" : ", ", "void* b", i);
    absl::StrAppend(&names, i == 0 ? "" : ", ", "b", i);
  }
  const Size& size = kSizes[index];
  return absl::Substitute(kRowSource, size.threads, kRowKernelEntry, parameters, names,
                          size.elements, RowOpsSource());
}

absl::StatusOr<RowKernel> MakeRowKernel(const Chain& body,
                                        const std::vector<BufferPlace>& operands) {
  SINTER_ASSIGN_OR_RETURN(RowSteps steps, StepsOf(body));
  RowProgram& program = steps.program;
  RowKernel kernel;
  const auto takes = [&](const Size& size) {
    return size.elements * size.threads >= program.columns;
  };
  while (kernel.index + 1 < kRowKernels && !takes(kSizes[kernel.index])) ++kernel.index;
  const Size& size = kSizes[kernel.index];
  program.threads = ThreadsOf(program.columns, size);
  const int block = std::max(program.threads, kBlockThreads);
  const int64_t slot_bytes = int64_t{steps.slots} * block * size.elements * 4;
  if (slot_bytes > kMostSlotBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("no stand-in keeps ", steps.slots, " values of ", program.columns,
                     " columns: ", slot_bytes, " bytes of shared memory, of ", kMostSlotBytes));
  }
  kernel.rows_per_m = program.rows_per_m;
  kernel.side_by_side = block / program.threads;
  LaunchRecipe& recipe = kernel.recipe;
  recipe.entry = kRowKernelEntry;
  recipe.block = {static_cast<uint32_t>(block), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(slot_bytes);
  recipe.pdl = true;
  ArgSlot argument;
  argument.kind = ArgKind::kBytes;
  argument.bytes.assign(reinterpret_cast<const char*>(&program), sizeof(program));
  recipe.args = {argument};
  if (!operands.empty()) {
    for (ArgSlot& slot : PointersOf(body, operands)) recipe.args.push_back(std::move(slot));
  }
  ArgSlot rows;
  rows.kind = body.UsesM() ? ArgKind::kSymbolM : ArgKind::kInt32;
  rows.int_value = 1;
  recipe.args.push_back(rows);
  return kernel;
}

absl::Status CheckRowKernel(const Chain& body) { return MakeRowKernel(body, {}).status(); }

int RowBlocks(const RowKernel& kernel, int64_t m) {
  const int64_t blocks = CeilDiv(kernel.rows_per_m * m, kernel.side_by_side);
  return static_cast<int>(std::max<int64_t>(1, std::min(blocks, kMostBlocks)));
}

}  // namespace sinter
