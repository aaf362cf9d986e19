#include "src/reference/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "src/reference/parallel.h"
#include "src/reference/tensor.h"

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

  // The elements behind these.
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
constexpr size_t kPiece = size_t{1} << 18;

// `add(measurer, begin, end)` on all elements.
template <typename Add>
ErrorMeasure MeasureInPieces(size_t count, DType dtype, Add&& add) {
  std::vector<Measurer> pieces;
  for (size_t first = 0; first == 0 || first < count; first += kPiece) {
    pieces.emplace_back(dtype, static_cast<int64_t>(first));
  }
  reference::ParallelFor(reference::HardwareThreads(), static_cast<int64_t>(pieces.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const size_t first = static_cast<size_t>(i) * kPiece;
                             add(pieces[static_cast<size_t>(i)], first,
                                 std::min(count, first + kPiece));
                           }
                         });
  for (size_t i = 1; i < pieces.size(); ++i) pieces[0].Join(pieces[i]);
  return pieces[0].Result();
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

}  // namespace sinter
