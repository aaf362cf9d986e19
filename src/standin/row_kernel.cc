#include "src/standin/row_kernel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/base/refusal.h"
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
    return FailedPrecondition("no stand-in keeps ", steps.slots, " values of ", program.columns,
                              " columns: ", slot_bytes, " bytes of shared memory, of ",
                              kMostSlotBytes);
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

namespace {

// Row-major steps of the axes. M may only be the first extent, so no step depends on it.
std::vector<int64_t> StepsOf(const std::vector<Dim>& dims) {
  std::vector<int64_t> steps(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) steps[i - 1] = steps[i] * dims[i].value;
  return steps;
}

constexpr int64_t kMostColumns = 16384;

absl::StatusOr<RowDomain> MakeDomain(const Chain& body, ValueId v, std::vector<Dim> dims,
                                     bool may_cut) {
  int64_t columns = dims.back().value;
  if (columns > kMostColumns && may_cut) {
    int64_t part = kMostColumns / 2;
    while (columns % part != 0) --part;
    dims.back() = Dim::Constant(columns / part);
    dims.push_back(Dim::Constant(part));
    columns = part;
  }
  if (columns > kMostColumns)
    return RefuseRows(body, v, absl::StrCat("rows of ", columns, " elements"));
  if (dims.size() > kRowDims)
    return RefuseRows(body, v, absl::StrCat("rows of ", dims.size(), " dims"));
  RowDomain domain;
  for (Dim dim : dims) domain.dims.push_back(dim.symbolic ? 1 : dim.value);
  domain.of_m = dims.front().symbolic;
  return domain;
}

absl::StatusOr<RowDomain> DomainOf(const Chain& body, const Op& op) {
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  std::vector<Dim> domain;
  int64_t columns = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::count(op.axes.begin(), op.axes.end(), static_cast<int>(i)) > 0;
    if (!reduced) domain.push_back(dims[i]);
    if (reduced && dims[i].symbolic)
      return RefuseRows(body, op.operands[0], "a reduction over rows");
    if (reduced) columns *= dims[i].value;
  }
  domain.push_back(Dim::Constant(columns));
  return MakeDomain(body, op.operands[0], std::move(domain), false);
}

}  // namespace

RowPlace Times(RowPlace p, int64_t factor) {
  p.base *= factor;
  for (int64_t& step : p.steps) step *= factor;
  return p;
}
RowPlace Sum(RowPlace a, const RowPlace& b) {
  a.base += b.base;
  for (size_t i = 0; i < a.steps.size(); ++i) a.steps[i] += b.steps[i];
  return a;
}

RowPlace Flattened(const std::vector<Dim>& dims, const RowPosition& at) {
  if (at.flat) return at.axes.front();
  const std::vector<int64_t> steps = StepsOf(dims);
  RowPlace sum;
  for (size_t i = 0; i < steps.size(); ++i) sum = Sum(sum, Times(at.axes[i], steps[i]));
  return sum;
}

RowPosition Unflattened(const RowDomain& domain, const std::vector<Dim>& dims,
                        const RowPlace& flat) {
  const std::vector<int64_t> steps = StepsOf(dims);
  RowPosition at;
  at.axes.resize(dims.size());
  std::vector<int64_t> most(dims.size(), 0);
  int64_t base = flat.base;
  for (size_t i = 0; i < dims.size(); ++i) {
    at.axes[i].base = base / steps[i];
    base %= steps[i];
    most[i] = at.axes[i].base;
  }
  bool apart = true;
  for (size_t d = 0; d < domain.dims.size(); ++d) {
    const int64_t step = flat.steps[d];
    size_t axis = 0;
    while (axis < dims.size() && steps[axis] > step) ++axis;
    if (step == 0) continue;
    if (axis == dims.size() || step % steps[axis] != 0) return {true, {flat}};
    at.axes[axis].steps[d] = step / steps[axis];
    most[axis] += (domain.dims[d] - 1) * (step / steps[axis]);
    apart &= !(d == 0 && domain.of_m) || axis == 0;
  }
  for (size_t i = 0; i < dims.size(); ++i) apart &= dims[i].symbolic || most[i] < dims[i].value;
  return apart ? at : RowPosition{true, {flat}};
}

absl::Status RefuseRows(const Chain& body, ValueId v, absl::string_view why) {
  return OpRefused(v, " (", NameOf(body.op(v)), "): no stand-in computes ", why);
}

absl::StatusOr<RowPosition> AxesOf(const Chain& body, ValueId v, const RowDomain& domain,
                                   bool* number) {
  RowPosition at;
  size_t next = 0;
  for (Dim dim : body.op(v).type.dims) {
    RowPlace place;
    int64_t extent = 1;
    if (dim.symbolic) {
      if (next != 0 || !domain.of_m) return RefuseRows(body, v, "rows that M does not count");
      place.steps[next++] = 1;
      at.axes.push_back(place);
      continue;
    }
    const size_t begin = next;
    while (extent < dim.value && next < domain.dims.size() && !(next == 0 && domain.of_m) &&
           dim.value % (extent * domain.dims[next]) == 0) {
      extent *= domain.dims[next++];
    }
    if (extent != dim.value) return RefuseRows(body, v, "a result of other extents than its rows");
    int64_t step = 1;
    for (size_t i = next; i-- > begin; step *= domain.dims[i]) place.steps[i] = step;
    at.axes.push_back(place);
  }
  while (next < domain.last() && domain.dims[next] == 1 && !(next == 0 && domain.of_m)) ++next;
  *number = next == domain.last() && domain.columns() > 1;
  if (next < domain.last()) return RefuseRows(body, v, "a result without its rows");
  return at;
}

absl::StatusOr<RowPlace> InMemory(const Chain& body, ValueId v, const RowPosition& at,
                                  const std::vector<Stride>& strides) {
  const std::vector<Dim>& dims = body.op(v).type.dims;
  if (at.flat) {
    if (strides != ContiguousStrides(dims))
      return RefuseRows(body, v, "a reshape of a strided input");
    return at.axes.front();
  }
  RowPlace sum;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i].m_power != 0) return RefuseRows(body, v, "strides that M changes");
    sum = Sum(sum, Times(at.axes[i], strides[i].value));
  }
  return sum;
}

absl::StatusOr<RowDomain> RowDomainOf(const Chain& body) {
  for (size_t v = 0; v < body.ops().size(); ++v) {
    const Op& op = body.op(static_cast<ValueId>(v));
    if (op.kind == OpKind::kReduce) return DomainOf(body, op);
  }
  ValueId first = body.outputs().front().value;
  if (body.op(first).kind == OpKind::kConcat) first = body.op(first).operands.front();
  std::vector<Dim> dims = body.op(first).type.dims;
  if (dims.empty() || dims.back().symbolic) dims.push_back(Dim::Constant(1));
  return MakeDomain(body, first, std::move(dims), true);
}

}  // namespace sinter
