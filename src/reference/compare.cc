#include "src/reference/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "src/product/matcher.h"
#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter {
namespace {

// Position of a value among those of an 8-bit type, in steps from zero.
int StepOf(DType dtype, double value) {
  char stored[sizeof(double)] = {};  // of which a code takes one byte
  reference::StoreRun(&value, 1, stored, reference::StorageOf(dtype), 0, 1);
  const auto code = static_cast<int8_t>(stored[0]);
  if (!HoldsFloats(dtype) || code >= 0) return code;
  return -(code & 0x7f);  // floats have a sign bit
}

constexpr int64_t kFew = 64;  // numbers of which one may be a step off

// From a value to its neighbour, at most, over the value.
double NeighbourStep(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-7 : dtype == DType::kF16 ? 0x1p-10 : 0;
}

// Adds up one comparison element by element. `first` is the index of the first one.
class Measurer {
 public:
  explicit Measurer(DType dtype, int64_t first = 0)
      : first_(first), step_(NeighbourStep(dtype)), dtype_(dtype) {}

  void Add(double out, double ref) {
    const int64_t index = first_ + count_++;
    if (out == ref && std::isinf(ref)) return;
    const double difference = std::fabs(out - ref);
    if (!std::isfinite(difference)) {
      if (nans_++ == 0) first_nan_ = index;
      return;
    }
    if (IsCode(dtype_) && difference != 0) {
      ++(std::abs(StepOf(dtype_, out) - StepOf(dtype_, ref)) <= 1 ? neighbours_ : apart_);
    }
    square_error_ += difference * difference;
    square_ref_ += ref * ref;
    max_ = std::max(max_, difference);
    const double beyond = std::max(0.0, difference - step_ * std::fabs(ref));
    one_step_ = std::max(one_step_, difference * difference - beyond * beyond);
    if (beyond > beyond_ || worst_ < 0) {
      beyond_ = beyond;
      worst_ = index;
    }
  }

  // Adds the elements that follow these.
  void Join(const Measurer& next) {
    count_ += next.count_;
    if (nans_ == 0) first_nan_ = next.first_nan_;
    nans_ += next.nans_;
    neighbours_ += next.neighbours_;
    apart_ += next.apart_;
    square_error_ += next.square_error_;
    square_ref_ += next.square_ref_;
    max_ = std::max(max_, next.max_);
    one_step_ = std::max(one_step_, next.one_step_);
    if (next.worst_ < 0 || (worst_ >= 0 && next.beyond_ <= beyond_)) return;
    beyond_ = next.beyond_;
    worst_ = next.worst_;
  }

  ErrorMeasure Result() const {
    ErrorMeasure measure;
    measure.count = count_;
    measure.nans = nans_;
    measure.neighbours = neighbours_;
    measure.apart = apart_;
    measure.max_abs = max_;
    measure.worst_index = nans_ > 0 ? first_nan_ : worst_;
    const double rms = count_ > 0 ? std::sqrt(square_ref_ / static_cast<double>(count_)) : 0;
    measure.relative = Ratio(std::sqrt(square_error_), std::sqrt(square_ref_));
    const double spared = count_ <= kFew ? one_step_ : 0;
    measure.relative_but_one =
        Ratio(std::sqrt(std::max(0.0, square_error_ - spared)), std::sqrt(square_ref_));
    measure.max_over_rms = Ratio(max_, rms);
    measure.beyond_over_rms = Ratio(beyond_, rms);
    return measure;
  }

 private:
  static double Ratio(double error, double size) {
    if (error == 0) return 0;
    return size == 0 ? std::numeric_limits<double>::infinity() : error / size;
  }

  const int64_t first_;
  const double step_;
  double square_error_ = 0, square_ref_ = 0, max_ = 0, beyond_ = 0;
  double one_step_ = 0;  // what a step of one element may take from square_error_
  int64_t count_ = 0, nans_ = 0, neighbours_ = 0, apart_ = 0, worst_ = -1, first_nan_ = -1;
  const DType dtype_;
};

// Pieces of this size are added up side by side, so that sums do not depend on the threads.
constexpr size_t kComparedPiece = size_t{1} << 18;

// `add(measurer, begin, end)` on all elements.
template <typename Add>
ErrorMeasure MeasureInPieces(size_t count, DType dtype, Add&& add) {
  std::vector<Measurer> pieces;
  for (size_t first = 0; first == 0 || first < count; first += kComparedPiece) {
    pieces.emplace_back(dtype, static_cast<int64_t>(first));
  }
  reference::ParallelFor(reference::HardwareThreads(), static_cast<int64_t>(pieces.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const size_t first = static_cast<size_t>(i) * kComparedPiece;
                             add(pieces[static_cast<size_t>(i)], first,
                                 std::min(count, first + kComparedPiece));
                           }
                         });
  for (size_t i = 1; i < pieces.size(); ++i) pieces[0].Join(pieces[i]);
  return pieces[0].Result();
}

constexpr double kUnits = 2;           // that BoundsFor covers
constexpr double kCodesOverBF16 = 16;  // steps: e4m3 has three fraction bits, bf16 has seven
// For sums of e4m3 products: tensor cores keep 13 fraction bits of 128 terms, cut toward zero,
// which adds up where all terms have one sign.
constexpr Bounds kPromotedSums{1e-3, 5e-3, 0};
// The same of fast sums, over the root of k: all of k is one sum, whose terms have both signs.
constexpr Bounds kFastSums{4e-5, 5e-4, 0};

Bounds Looser(const Bounds& a, const Bounds& b) {
  return {std::max(a.relative, b.relative), std::max(a.max, b.max),
          std::max(a.neighbours, b.neighbours)};
}

// For a value that was rounded to `dtype` and is not stored as it.
Bounds BoundsBehind(DType dtype) {
  if (!IsCode(dtype)) return BoundsFor(dtype);
  const Bounds bf16 = BoundsFor(DType::kBF16);
  return {kCodesOverBF16 * bf16.relative, kCodesOverBF16 * bf16.max, 0};
}

bool Computes(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kReduce ||
         op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
         op.kind == OpKind::kConv2d || op.kind == OpKind::kGroupedMatmul ||
         op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
}

bool SumsOfE4M3(const Chain& chain, const Op& op) {
  const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
                       op.kind == OpKind::kGroupedMatmul;
  return product && chain.op(op.operands[0]).type.dtype == DType::kE4M3;
}

Bounds BoundsOfSums(const Chain& chain, const Op& op) {
  if (!SumsOfE4M3(chain, op)) return {};
  if (op.accumulate == Accumulate::kPromoted) return kPromotedSums;
  const double root = std::sqrt(static_cast<double>(chain.op(op.operands[0]).type.dims[1].value));
  return Looser(kPromotedSums, {kFastSums.relative * root, kFastSums.max * root, 0});
}

// The loosest bounds of what `output` was rounded to on its way, of values that f32 does not hold
// as float64 does; zeros where there is none.
Bounds BoundsOfRoundings(const Chain& chain, int output) {
  struct Way {
    bool computed = false;
    Bounds bounds;
  };
  std::vector<Way> ways(chain.ops().size());
  for (size_t id = 0; id < ways.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    Way& way = ways[id];
    way.computed = Computes(op) && HoldsFloats(op.type.dtype);
    for (const ValueId operand : op.operands) {
      const Way& before = ways[static_cast<size_t>(operand)];
      way.computed |= before.computed;
      way.bounds = Looser(way.bounds, before.bounds);
    }
    way.bounds = Looser(way.bounds, BoundsOfSums(chain, op));
    // A cast or gathered value is rounded. A value computed in 16 bits may be, where a kernel hands
    // it over.
    const bool narrows = HoldsFloats(op.type.dtype) || IsCode(op.type.dtype);
    const bool rounds = op.kind == OpKind::kCast || op.kind == OpKind::kAllGather
                            ? narrows
                            : Computes(op) && IsFloat(op.type.dtype);
    if (rounds && way.computed) way.bounds = Looser(way.bounds, BoundsBehind(op.type.dtype));
  }
  return ways[static_cast<size_t>(chain.outputs()[static_cast<size_t>(output)].value)].bounds;
}

}  // namespace

Bounds BoundsFor(DType dtype) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (IsCode(dtype)) return {kNone, kNone, 2e-2};
  if (dtype == DType::kBF16) return {5e-3, 0.05};
  if (dtype == DType::kF16) return {1e-3, 0.008};
  if (dtype == DType::kF32) return {1e-5, 1e-4};
  return {0, 0};
}

bool ErrorMeasure::Within(const Bounds& bounds) const {
  return nans == 0 && apart == 0 && relative_but_one <= bounds.relative &&
         beyond_over_rms <= bounds.max &&
         static_cast<double>(neighbours) <= bounds.neighbours * static_cast<double>(count);
}

std::string ErrorMeasure::ToString() const {
  std::string text = absl::StrFormat("rel %.3g max/rms %.3g", relative, max_over_rms);
  if (beyond_over_rms != max_over_rms) {
    absl::StrAppendFormat(&text, " (%.3g beyond a neighbour)", beyond_over_rms);
  }
  absl::StrAppendFormat(&text, " worst at %d of %d", worst_index, count);
  if (neighbours > 0) absl::StrAppendFormat(&text, ", %d one step off", neighbours);
  if (apart > 0) absl::StrAppendFormat(&text, ", %d several steps off", apart);
  if (nans > 0) absl::StrAppendFormat(&text, ", %d not finite or mismatched", nans);
  return text;
}

ErrorMeasure Compare(absl::Span<const double> out, absl::Span<const double> ref, DType dtype) {
  return MeasureInPieces(ref.size(), dtype, [&](Measurer& measurer, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      measurer.Add(i < out.size() ? out[i] : std::numeric_limits<double>::quiet_NaN(), ref[i]);
    }
  });
}

ErrorMeasure CompareBuffer(const void* out, DType dtype, absl::Span<const double> ref) {
  constexpr size_t kStep = 4096;
  reference::View view;
  view.data = out;
  view.storage = reference::StorageOf(dtype);
  return MeasureInPieces(ref.size(), dtype, [&](Measurer& measurer, size_t begin, size_t end) {
    std::vector<double> values(kStep);
    for (size_t first = begin; first < end; first += kStep) {
      const size_t count = std::min(kStep, end - first);
      reference::ReadRun(view, static_cast<int64_t>(first), 1, static_cast<int64_t>(count),
                         values.data());
      for (size_t i = 0; i < count; ++i) measurer.Add(values[i], ref[first + i]);
    }
  });
}

Bounds BoundsOf(const Chain& chain, int output) {
  const DType dtype = chain.output_type(output).dtype;
  Bounds bounds = BoundsFor(dtype);
  if (IsFloat(dtype)) bounds = Looser(bounds, BoundsOfRoundings(chain, output));
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
  if (!matched.ok()) return bounds;
  double units = 0;
  for (const MatrixProduct& p : matched->sequence.products) units = units * p.Width() + 1;
  const double growth = std::sqrt(std::max(1.0, units / kUnits));
  bounds.relative *= growth;
  bounds.max *= growth;
  return bounds;
}

}  // namespace sinter
