#include <cmath>
#include <cstring>
#include <limits>

#include "src/reference/evaluator.h"

namespace sinter::reference {
namespace {

float WidenBF16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float result;
  std::memcpy(&result, &wide, sizeof(result));
  return result;
}

template <typename T, typename Convert>
void ReadAs(const void* data, int64_t offset, int64_t stride, int64_t count, double* out,
            Convert convert) {
  const T* from = static_cast<const T*>(data) + offset;
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = convert(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = convert(from[i * stride]);
  }
}

template <typename T, typename Convert>
void StoreAs(const double* in, int64_t count, void* data, int64_t offset, int64_t stride,
             Convert convert) {
  T* to = static_cast<T*>(data) + offset;
  for (int64_t i = 0; i < count; ++i) to[i * stride] = convert(in[i]);
}

// f32 by round-to-odd: a later rounding to a narrower format is then as if it were made from
// `value` directly.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  uint32_t bits;
  std::memcpy(&bits, &nearest, sizeof(bits));
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  bits |= 1;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

double ToS32(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kLow = std::numeric_limits<int32_t>::min();
  constexpr double kHigh = std::numeric_limits<int32_t>::max();
  if (value <= kLow) return kLow;
  if (value >= kHigh) return kHigh;
  return std::trunc(value);
}

double ToS8(double value) {
  if (std::isnan(value)) return 0;
  return std::nearbyint(std::fmin(std::fmax(value, -128.0), 127.0)) + 0.0;
}

}  // namespace

int64_t BytesOf(Storage storage) {
  return storage == Storage::kF64 ? 8 : SizeOf(static_cast<DType>(storage));
}

int64_t View::Count() const {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

bool View::IsContiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

View View::Moved(int64_t elements) const {
  View result = *this;
  if (data == nullptr) return result;  // of no elements
  result.data = static_cast<const char*>(data) + elements * BytesOf(storage);
  return result;
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t next = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = next;
    next *= dims[i];
  }
  return strides;
}

Tensor MakeTensor(const std::vector<int64_t>& dims) {
  Tensor tensor;
  tensor.view.dims = dims;
  tensor.view.strides = RowMajorStrides(dims);
  tensor.owned = std::make_shared<std::vector<double>>(tensor.view.Count());
  tensor.view.data = tensor.owned->data();
  return tensor;
}

void ReadRun(const View& view, int64_t offset, int64_t stride, int64_t count, double* out) {
  if (view.storage == Storage::kF64) {
    return ReadAs<double>(view.data, offset, stride, count, out, [](double v) { return v; });
  }
  switch (static_cast<DType>(view.storage)) {
    case DType::kF32:
      return ReadAs<float>(view.data, offset, stride, count, out, [](float v) { return v; });
    case DType::kF16:
      return ReadAs<uint16_t>(view.data, offset, stride, count, out, &F16ToF32);
    case DType::kBF16:
      return ReadAs<uint16_t>(view.data, offset, stride, count, out,
                              [](uint16_t v) { return WidenBF16(v); });
    case DType::kS32:
      return ReadAs<int32_t>(view.data, offset, stride, count, out, [](int32_t v) { return v; });
    case DType::kPred:
      return ReadAs<uint8_t>(view.data, offset, stride, count, out,
                             [](uint8_t v) { return v != 0 ? 1.0 : 0.0; });
    case DType::kE4M3:
      return ReadAs<uint8_t>(view.data, offset, stride, count, out, &E4M3ToF32);
    case DType::kS8:
      return ReadAs<int8_t>(view.data, offset, stride, count, out, [](int8_t v) { return v; });
    case DType::kS64:
      return ReadAs<int64_t>(view.data, offset, stride, count, out,
                             [](int64_t v) { return static_cast<double>(v); });
  }
}

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return F16ToF32(F32ToF16(RoundToOdd(value)));
    case DType::kBF16:
      return WidenBF16(F32ToBF16(RoundToOdd(value)));
    case DType::kS32:
      return ToS32(value);
    case DType::kPred:
      return value != 0 ? 1 : 0;
    case DType::kE4M3:
      return E4M3ToF32(F32ToE4M3(RoundToOdd(value)));
    case DType::kS8:
      return ToS8(value);
    case DType::kS64:  // no op computes it
      return std::trunc(value);
  }
  return value;
}

void StoreRun(const double* in, int64_t count, void* data, Storage storage, int64_t offset,
              int64_t stride) {
  if (storage == Storage::kF64) {
    return StoreAs<double>(in, count, data, offset, stride, [](double v) { return v; });
  }
  switch (static_cast<DType>(storage)) {
    case DType::kF32:
      return StoreAs<float>(in, count, data, offset, stride,
                            [](double v) { return static_cast<float>(v); });
    case DType::kF16:
      return StoreAs<uint16_t>(in, count, data, offset, stride,
                               [](double v) { return F32ToF16(RoundToOdd(v)); });
    case DType::kBF16:
      return StoreAs<uint16_t>(in, count, data, offset, stride,
                               [](double v) { return F32ToBF16(RoundToOdd(v)); });
    case DType::kS32:
      return StoreAs<int32_t>(in, count, data, offset, stride,
                              [](double v) { return static_cast<int32_t>(ToS32(v)); });
    case DType::kPred:
      return StoreAs<uint8_t>(in, count, data, offset, stride,
                              [](double v) { return static_cast<uint8_t>(v != 0); });
    case DType::kE4M3:
      return StoreAs<uint8_t>(in, count, data, offset, stride,
                              [](double v) { return F32ToE4M3(RoundToOdd(v)); });
    case DType::kS8:
      return StoreAs<int8_t>(in, count, data, offset, stride,
                             [](double v) { return static_cast<int8_t>(ToS8(v)); });
    case DType::kS64:
      return StoreAs<int64_t>(in, count, data, offset, stride,
                              [](double v) { return static_cast<int64_t>(v); });
  }
}

}  // namespace sinter::reference
