#include "src/engine/trial_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/reference/rows.h"
#include "src/reference/tensor.h"

namespace sinter {
namespace {

constexpr int64_t kPeriod = 1048573;  // the largest prime below 2^20

float Symmetric(SplitMix64& random) {  // in [-1, 1)
  return static_cast<float>(static_cast<int64_t>(random.Next()) >> 39) * 0x1p-24f;
}

// Floats are uniform in [offset - scale, offset + scale], integers are in [0, below).
struct Range {
  float offset = 0, scale = 1;
  int64_t below = 16;
};

double DrawValue(DType dtype, Range range, SplitMix64& random) {
  if (dtype == DType::kS32 || dtype == DType::kS64) {
    return static_cast<double>(random.Next() % static_cast<uint64_t>(range.below));
  }
  if (dtype == DType::kPred) return static_cast<double>(random.Next() & 1);
  if (dtype == DType::kS8) return Symmetric(random) * LargestOf(dtype);
  return range.offset + Symmetric(random) * range.scale;
}

// A sum of k products of uniform numbers has the scale of one factor when the other's variance is
// 1/k. Which dimension of a weight is summed over is unknown here; the geometric mean of both is
// close enough.
float ScaleOf(const Op& input, int64_t m) {
  if (!input.constant || input.type.rank() < 2) return 1.0f;
  const int rank = input.type.rank();
  double rows = static_cast<double>(input.type.dims[rank - 2].At(m));
  for (int i = 0; rank == 4 && i < 2; ++i) {  // a filter is treated as a matrix along its last axis
    rows *= static_cast<double>(input.type.dims[i].At(m));
  }
  const double columns = static_cast<double>(input.type.dims[rank - 1].At(m));
  return static_cast<float>(std::sqrt(3.0 / std::max(1.0, std::sqrt(rows * columns))));
}

// Whether products sum their operands unscaled. Codes have scales, which are positive.
bool SumsOperands(const Chain& chain) {
  return std::any_of(chain.ops().begin(), chain.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kMatmul || op.kind == OpKind::kConv2d ||
           (op.kind == OpKind::kGroupedMatmul && !IsScaledGrouped(op));
  });
}

// f32 in a chain without such products lies where roots and divisions are well behaved.
Range RangeOf(const Op& input, int64_t m, bool products) {
  if (!products && input.type.dtype == DType::kF32) return {0.625f, 0.375f};
  return {0, ScaleOf(input, m)};
}

// For each input that ops read as ids: the fewest places that one of them has; 0: none reads it so.
std::vector<int64_t> PlacesOfIds(const Chain& chain, int64_t m) {
  std::vector<int64_t> places(static_cast<size_t>(chain.num_inputs()));
  for (const Op& op : chain.ops()) {
    const bool grouped = op.kind == OpKind::kGroupedMatmul && !IsByEnds(op);
    if (op.kind != OpKind::kGather && op.kind != OpKind::kScatter && !grouped) continue;
    ValueId ids = op.operands[grouped ? 2 : 1];
    while (IsView(chain.op(ids))) ids = chain.op(ids).operands[0];
    if (chain.op(ids).kind != OpKind::kInput) continue;
    const TensorType& x = chain.op(op.operands[grouped ? 1 : 0]).type;
    const int64_t all =
        std::max<int64_t>(1, x.dims[static_cast<size_t>(std::max(op.axis, 0))].At(m));
    int64_t& fewest = places[static_cast<size_t>(chain.op(ids).input)];
    fewest = fewest == 0 ? all : std::min(fewest, all);
  }
  return places;
}

// For each input that says where groups end: the rows that are grouped; 0: none does.
std::vector<int64_t> RowsOfEnds(const Chain& chain, int64_t m) {
  std::vector<int64_t> rows(static_cast<size_t>(chain.num_inputs()));
  for (const Op& op : chain.ops()) {
    if (!IsByEnds(op)) continue;
    ValueId ends = op.operands[2];
    while (IsView(chain.op(ends))) ends = chain.op(ends).operands[0];
    if (chain.op(ends).kind != OpKind::kInput) continue;
    rows[static_cast<size_t>(chain.op(ends).input)] = op.type.dims[0].At(m);
  }
  return rows;
}

// Ends of equal groups, as a router that spreads rows evenly gives them.
std::string FillEnds(int64_t rows, int64_t bytes) {
  const int64_t count = bytes / SizeOf(DType::kS32);
  std::string out(static_cast<size_t>(bytes), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const auto end = static_cast<int32_t>(rows * (i + 1) / count);
    std::memcpy(&out[static_cast<size_t>(i) * sizeof(end)], &end, sizeof(end));
  }
  return out;
}

std::string Fill(DType dtype, Range range, int64_t bytes, SplitMix64& random) {
  const int64_t elements = bytes / SizeOf(dtype);
  std::vector<double> values(static_cast<size_t>(std::min(elements, kPeriod)));
  for (double& value : values) value = DrawValue(dtype, range, random);
  std::string out;
  out.reserve(static_cast<size_t>(bytes));
  out.resize(values.size() * static_cast<size_t>(SizeOf(dtype)));
  reference::StoreRun(values.data(), static_cast<int64_t>(values.size()), out.data(),
                      reference::StorageOf(dtype), 0, 1);
  const size_t period = out.size();
  while (static_cast<int64_t>(out.size()) < bytes) {
    out.append(out, 0, std::min(period, static_cast<size_t>(bytes) - out.size()));
  }
  return out;
}

constexpr int64_t kPiece = int64_t{1} << 18;  // elements that one thread reads at a time

// A strided tensor's elements in row-major order.
struct OutputWalk {
  const TensorType& type;
  const std::vector<Stride>& strides;
  const int64_t m;

  // Reads elements [begin, end) into the same places of `values`.
  void Read(const char* bytes, int64_t begin, int64_t end, double* values) const {
    std::vector<int64_t> index(type.dims.size(), 0);
    int64_t offset = 0, rest = begin;
    for (int axis = type.rank() - 1; axis >= 0; --axis) {
      const int64_t extent = type.dims[axis].At(m);
      index[axis] = rest % extent;
      offset += index[axis] * strides[axis].At(m);
      rest /= extent;
    }
    const reference::View view{bytes, reference::StorageOf(type.dtype), {}, {}};
    for (int64_t i = begin; i < end; ++i) {
      reference::ReadRun(view, offset, 0, 1, &values[i]);
      for (int axis = type.rank() - 1; axis >= 0; --axis) {
        const int64_t stride = strides[axis].At(m);
        offset += stride;
        if (++index[axis] < type.dims[axis].At(m)) break;
        offset -= stride * type.dims[axis].At(m);
        index[axis] = 0;
      }
    }
  }
};

}  // namespace

absl::StatusOr<int64_t> InputBytes(const Chain& chain, int i, int64_t m) {
  const Op& input = chain.input_op(i);
  return BufferBytes(input.type, input.strides, m);
}

absl::StatusOr<int64_t> OutputBytes(const Chain& chain, int i, int64_t m) {
  return BufferBytes(chain.output_type(i), chain.outputs()[i].strides, m);
}

absl::StatusOr<std::vector<std::string>> RandomInputs(const Chain& chain, int64_t m,
                                                      uint64_t seed) {
  const bool products = SumsOperands(chain);
  const std::vector<int64_t> places = PlacesOfIds(chain, m), ends = RowsOfEnds(chain, m);
  std::vector<std::string> inputs;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, InputBytes(chain, i, m));
    const Op& input = chain.input_op(i);
    if (ends[static_cast<size_t>(i)] > 0 && input.type.dtype == DType::kS32) {
      inputs.push_back(FillEnds(ends[static_cast<size_t>(i)], bytes));
      continue;
    }
    SplitMix64 random(seed + static_cast<uint64_t>(i) * 0x100000001b3u);
    Range range = RangeOf(input, m, products);
    if (places[static_cast<size_t>(i)] > 0) range.below = places[static_cast<size_t>(i)];
    inputs.push_back(Fill(input.type.dtype, range, bytes, random));
  }
  return inputs;
}

absl::StatusOr<std::vector<double>> OutputValues(const Chain& chain, int i, int64_t m,
                                                 const std::string& bytes) {
  const TensorType& type = chain.output_type(i);
  const std::vector<Stride>& strides = chain.outputs()[i].strides;
  SINTER_ASSIGN_OR_RETURN(const int64_t count, ElementCount(type.dims, m));
  SINTER_ASSIGN_OR_RETURN(const int64_t need, BufferBytes(type, strides, m));
  if (need > static_cast<int64_t>(bytes.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", i, " has ", bytes.size(), " bytes, needs ", need));
  }
  std::vector<double> values(static_cast<size_t>(count));
  const OutputWalk walk{type, strides, m};
  reference::ParallelFor(
      reference::HardwareThreads(), count, kPiece,
      [&](int64_t begin, int64_t end) { walk.Read(bytes.data(), begin, end, values.data()); });
  return values;
}

}  // namespace sinter
