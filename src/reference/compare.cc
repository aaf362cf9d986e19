#include "src/reference/compare.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "src/reference/tensor.h"

namespace sinter {
namespace {

// Position of a value among those of e4m3, in steps from zero.
int E4M3Step(double value) {
  const int bits = F32ToE4M3(static_cast<float>(value));
  return (bits & 0x80) != 0 ? -(bits & 0x7f) : bits;
}

// Adds up one comparison element by element.
class Measurer {
 public:
  explicit Measurer(DType dtype) : count_steps_(dtype == DType::kE4M3) {}

  void Add(double out, double ref) {
    const int64_t index = count_++;
    if (out == ref && std::isinf(ref)) return;
    const double difference = std::fabs(out - ref);
    if (!std::isfinite(difference)) {
      if (nans_++ == 0) first_nan_ = index;
      return;
    }
    if (count_steps_ && difference != 0) {
      ++(std::abs(E4M3Step(out) - E4M3Step(ref)) <= 1 ? neighbours_ : apart_);
    }
    square_error_ += difference * difference;
    square_ref_ += ref * ref;
    if (difference > max_ || worst_ < 0) {
      max_ = difference;
      worst_ = index;
    }
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
    measure.max_over_rms = Ratio(max_, rms);
    return measure;
  }

 private:
  static double Ratio(double error, double size) {
    if (error == 0) return 0;
    return size == 0 ? std::numeric_limits<double>::infinity() : error / size;
  }

  double square_error_ = 0, square_ref_ = 0, max_ = 0;
  int64_t count_ = 0, nans_ = 0, neighbours_ = 0, apart_ = 0, worst_ = -1, first_nan_ = -1;
  bool count_steps_;
};

}  // namespace

Bounds BoundsFor(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return {5e-3, 0.05};
    case DType::kF16:
      return {1e-3, 0.008};
    case DType::kF32:
      return {1e-5, 1e-4};
    case DType::kS32:
    case DType::kPred:
      return {0, 0};
    case DType::kE4M3:
      return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
              1e-3};
  }
  return {0, 0};
}

bool ErrorMeasure::Within(const Bounds& bounds) const {
  return nans == 0 && apart == 0 && relative <= bounds.relative && max_over_rms <= bounds.max &&
         static_cast<double>(neighbours) <= bounds.neighbours * static_cast<double>(count);
}

std::string ErrorMeasure::ToString() const {
  std::string text = absl::StrFormat("rel %.3g max/rms %.3g worst at %d of %d", relative,
                                     max_over_rms, worst_index, count);
  if (neighbours > 0) absl::StrAppendFormat(&text, ", %d one step off", neighbours);
  if (apart > 0) absl::StrAppendFormat(&text, ", %d several steps off", apart);
  if (nans > 0) absl::StrAppendFormat(&text, ", %d not finite or mismatched", nans);
  return text;
}

ErrorMeasure Compare(absl::Span<const double> out, absl::Span<const double> ref, DType dtype) {
  Measurer measurer(dtype);
  for (size_t i = 0; i < ref.size(); ++i) {
    measurer.Add(i < out.size() ? out[i] : std::numeric_limits<double>::quiet_NaN(), ref[i]);
  }
  return measurer.Result();
}

ErrorMeasure CompareBuffer(const void* out, DType dtype, absl::Span<const double> ref) {
  constexpr size_t kStep = 4096;
  reference::View view;
  view.data = out;
  view.storage = reference::StorageOf(dtype);
  std::vector<double> values(kStep);
  Measurer measurer(dtype);
  for (size_t first = 0; first < ref.size(); first += kStep) {
    const size_t count = std::min(kStep, ref.size() - first);
    reference::ReadRun(view, static_cast<int64_t>(first), 1, static_cast<int64_t>(count),
                       values.data());
    for (size_t i = 0; i < count; ++i) measurer.Add(values[i], ref[first + i]);
  }
  return measurer.Result();
}

}  // namespace sinter
