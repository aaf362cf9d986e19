// Elementwise ops, copies, gathers and iota over strided views.
#include <algorithm>
#include <cmath>
#include <functional>

#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter::reference {
namespace {

constexpr int64_t kSegment = 2048;     // elements that one call of a function gets
constexpr int64_t kPiece = 32 * 1024;  // elements per thread hand-out

// Computes out[0..n) from the operands' elements.
using Function = std::function<void(const double* const* in, int64_t n, double* out)>;

double WrapS32(int64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

template <typename F>
Function Map1(F f) {
  return [f](const double* const* in, int64_t n, double* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(in[0][i]);
  };
}

template <typename F>
Function Map2(F f) {
  return [f](const double* const* in, int64_t n, double* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(in[0][i], in[1][i]);
  };
}

template <typename F>
Function OfIntegers1(F f) {
  return Map1([f](double x) { return WrapS32(f(static_cast<int64_t>(x))); });
}

template <typename F>
Function OfIntegers2(F f) {
  return Map2([f](double x, double y) {
    return WrapS32(f(static_cast<int64_t>(x), static_cast<int64_t>(y)));
  });
}

// The functions of ops.def: on s32 of ops that take Numbers, else on float64.
#define SINTER_ON_INTEGERS_Numbers(of_integers) \
  if (integer) return of_integers
#define SINTER_ON_INTEGERS_Floats(of_integers)
#define SINTER_ON_INTEGERS_Preds(of_integers)

Function UnaryOf(UnaryKind kind, [[maybe_unused]] bool integer) {
  switch (kind) {
#define SINTER_UNARY(number, Name, name, operands, reference, ...)                              \
  case UnaryKind::k##Name:                                                                      \
    SINTER_ON_INTEGERS_##operands(OfIntegers1([](int64_t x) -> int64_t { return reference; })); \
    return Map1([](double x) -> double { return reference; });
#include "src/chain/ops.def"
  }
  return {};
}

Function BinaryOf(BinaryKind kind, [[maybe_unused]] bool integer) {
  switch (kind) {
#define SINTER_BINARY(number, Name, name, operands, reference, ...)              \
  case BinaryKind::k##Name:                                                      \
    SINTER_ON_INTEGERS_##operands(                                               \
        OfIntegers2([](int64_t x, int64_t y) -> int64_t { return reference; })); \
    return Map2([](double x, double y) -> double { return reference; });
#include "src/chain/ops.def"
  }
  return {};
}

Function CompareOf(CompareKind kind) {
  switch (kind) {
#define SINTER_COMPARE(number, Name, name, sign) \
  case CompareKind::k##Name:                     \
    return Map2([](double x, double y) { return x sign y ? 1.0 : 0.0; });
#include "src/chain/ops.def"
  }
  return {};
}

Function FunctionOf(const Op& op, DType operand) {
  const bool integer = operand == DType::kS32;
  switch (op.kind) {
    case OpKind::kUnary:
      return UnaryOf(op.unary, integer);
    case OpKind::kBinary:
      return BinaryOf(op.binary, integer);
    case OpKind::kCompare:
      return CompareOf(op.compare);
    case OpKind::kCast: {
      const DType dtype = op.type.dtype;
      return Map1([dtype](double x) { return RoundTo(dtype, x); });
    }
    default:  // select
      return [](const double* const* in, int64_t n, double* out) {
        for (int64_t i = 0; i < n; ++i) out[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
      };
  }
}

// The index space cut into runs of the last axis of at most kSegment elements.
struct Runs {
  explicit Runs(const std::vector<int64_t>& dims) {
    length = dims.empty() ? 1 : dims.back();
    outer_rank = dims.empty() ? 0 : static_cast<int>(dims.size()) - 1;
    outer = 1;
    for (int i = 0; i < outer_rank; ++i) outer *= dims[i];
    segments = (length + kSegment - 1) / kSegment;
  }
  int64_t items() const { return outer * segments; }
  int64_t grain() const {
    return std::max<int64_t>(1, kPiece / std::max<int64_t>(1, std::min(length, kSegment)));
  }
  int64_t length, outer, segments;
  int outer_rank;
};

int64_t LastStride(const View& view) { return view.rank() == 0 ? 0 : view.strides.back(); }

void SpreadScalars(const std::vector<int64_t>& dims, std::vector<View>* views) {
  for (View& view : *views) {
    if (view.rank() != 0) continue;
    view.dims = dims;
    view.strides.assign(dims.size(), 0);
  }
}

}  // namespace

Tensor Elementwise(const Op& op, const std::vector<DType>& dtypes, std::vector<View> operands,
                   const std::vector<int64_t>& dims, int threads) {
  Tensor result = MakeTensor(dims);
  SpreadScalars(dims, &operands);
  const Function function = FunctionOf(op, dtypes[0]);
  const Runs runs(dims);
  double* const out = result.owned->data();
  const int64_t longest = std::min(kSegment, runs.length);
  ParallelFor(threads, runs.items(), runs.grain(), [&](int64_t begin, int64_t end) {
    std::vector<double> scratch(operands.size() * longest);
    const double* in[3] = {};
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / runs.segments, first = item % runs.segments * kSegment;
      const int64_t count = std::min(kSegment, runs.length - first);
      for (size_t i = 0; i < operands.size(); ++i) {
        const View& view = operands[i];
        const int64_t offset =
            OffsetOf(row, view.dims.data(), view.strides.data(), runs.outer_rank);
        const int64_t stride = LastStride(view);
        double* const to = scratch.data() + i * longest;
        ReadRun(view, offset + first * stride, stride, count, to);
        in[i] = to;
      }
      function(in, count, out + row * runs.length + first);
    }
  });
  return result;
}

void CopyInto(const View& from, double* to, const std::vector<int64_t>& strides, int threads) {
  const Runs runs(from.dims);
  const int64_t out_stride = strides.empty() ? 0 : strides.back();
  ParallelFor(threads, runs.items(), runs.grain(), [&](int64_t begin, int64_t end) {
    std::vector<double> scratch(std::min(kSegment, runs.length));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / runs.segments, first = item % runs.segments * kSegment;
      const int64_t count = std::min(kSegment, runs.length - first);
      const int64_t in_offset =
          OffsetOf(row, from.dims.data(), from.strides.data(), runs.outer_rank);
      const int64_t out_offset = OffsetOf(row, from.dims.data(), strides.data(), runs.outer_rank);
      const int64_t stride = LastStride(from);
      ReadRun(from, in_offset + first * stride, stride, count, scratch.data());
      StoreRun(scratch.data(), count, to, Storage::kF64, out_offset + first * out_stride,
               out_stride);
    }
  });
}

Tensor Materialise(const View& view, int threads) {
  Tensor result = MakeTensor(view.dims);
  CopyInto(view, result.owned->data(), result.view.strides, threads);
  return result;
}

Tensor Iota(const std::vector<int64_t>& dims, int axis, const std::vector<int64_t>* index,
            int threads) {
  std::vector<double> values(dims[axis]);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(index == nullptr ? static_cast<int64_t>(i) : (*index)[i]);
  }
  View spread{values.data(), Storage::kF64, dims, std::vector<int64_t>(dims.size(), 0)};
  spread.strides[axis] = 1;
  return Materialise(spread, threads);
}

Tensor Gather(const View& x, const View& ids, int axis, int threads) {
  const Tensor given = Materialise(ids, threads);
  const std::vector<double>& numbers = *given.owned;
  std::vector<int64_t> dims = ids.dims;
  View part = x;  // what one id takes
  part.dims.assign(x.dims.begin() + axis + 1, x.dims.end());
  part.strides.assign(x.strides.begin() + axis + 1, x.strides.end());
  dims.insert(dims.end(), part.dims.begin(), part.dims.end());
  Tensor result = MakeTensor(dims);
  const std::vector<int64_t> strides = RowMajorStrides(part.dims);
  const int64_t elements = part.Count(), run = axis == 0 ? ids.Count() : ids.dims.back();
  const int64_t grain = std::max<int64_t>(1, kSegment / std::max<int64_t>(1, elements));
  ParallelFor(threads, ids.Count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double id = numbers[static_cast<size_t>(i)];
      if (!(id >= 0 && id < static_cast<double>(x.dims[axis]))) continue;
      const int64_t leading = OffsetOf(i / run, x.dims.data(), x.strides.data(), axis);
      CopyInto(part.Moved(leading + static_cast<int64_t>(id) * x.strides[axis]),
               result.owned->data() + i * elements, strides, 1);
    }
  });
  return result;
}

Tensor Scatter(const View& x, const View& ids, const View& rows, int threads) {
  const Tensor given = Materialise(ids, threads);
  Tensor result = Materialise(x, threads);
  View part = rows;  // what one id writes
  const auto lead = static_cast<std::ptrdiff_t>(ids.dims.size());
  part.dims.assign(rows.dims.begin() + lead, rows.dims.end());
  part.strides.assign(rows.strides.begin() + lead, rows.strides.end());
  const std::vector<int64_t> strides = RowMajorStrides(part.dims);
  for (int64_t i = 0; i < ids.Count(); ++i) {
    const double id = (*given.owned)[static_cast<size_t>(i)];
    if (!(id >= 0 && id < static_cast<double>(x.dims[0]))) continue;
    const int64_t from = OffsetOf(i, rows.dims.data(), rows.strides.data(), static_cast<int>(lead));
    CopyInto(part.Moved(from), result.owned->data() + static_cast<int64_t>(id) * part.Count(),
             strides, threads);
  }
  return result;
}

// Windows of pixels, as pooling and depthwise convolutions read them.

Tensor Windows(const View& x, const View& fill, const Conv2d& conv,
               const std::vector<int64_t>& dims, int threads) {
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  double outside = 0;
  ReadRun(fill, 0, 1, 1, &outside);
  const int64_t channels = dims[5], taps = dims[3] * dims[4];
  ParallelFor(threads, dims[0] * dims[1] * dims[2], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t q = i % dims[2], p = i / dims[2] % dims[1], image = i / dims[2] / dims[1];
      double* to = result.owned->data() + i * taps * channels;
      for (int64_t tap = 0; tap < taps; ++tap, to += channels) {
        const int64_t y = p * conv.strides[0] + tap / dims[4] * conv.dilations[0] - conv.pads[0];
        const int64_t at = q * conv.strides[1] + tap % dims[4] * conv.dilations[1] - conv.pads[2];
        if (y < 0 || y >= x.dims[1] || at < 0 || at >= x.dims[2]) {
          std::fill_n(to, channels, outside);
          continue;
        }
        const int64_t offset = image * x.strides[0] + y * x.strides[1] + at * x.strides[2];
        ReadRun(x, offset, x.strides[3], channels, to);
      }
    }
  });
  return result;
}

}  // namespace sinter::reference
