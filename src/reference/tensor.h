// View, Tensor: how the executor holds values. A view reads any dtype and strides as float64.
#ifndef SINTER_SRC_REFERENCE_TENSOR_H_
#define SINTER_SRC_REFERENCE_TENSOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/dtype.h"

namespace sinter::reference {

// How values lie in memory: as float64, or as the DType of this number.
enum class Storage : int32_t { kF64 = 0 };
constexpr Storage StorageOf(DType dtype) { return static_cast<Storage>(dtype); }
int64_t BytesOf(Storage storage);

// Strides in elements, 0 allowed. Does not own its data.
struct View {
  const void* data = nullptr;
  Storage storage = Storage::kF64;
  std::vector<int64_t> dims, strides;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t Count() const;
  bool IsContiguous() const;
  // The view whose first element is `elements` further on.
  View Moved(int64_t elements) const;
};

// A view and, for computed values, the buffer behind it, which views derived from it share.
struct Tensor {
  View view;
  std::shared_ptr<std::vector<double>> owned;
};

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& dims);
// A contiguous f64 tensor; its buffer is (*result.owned), zeros.
Tensor MakeTensor(const std::vector<int64_t>& dims);

// out[i] = element offset + i * stride of the view, as f64.
void ReadRun(const View& view, int64_t offset, int64_t stride, int64_t count, double* out);

// value rounded to dtype, once, to nearest even; s32: toward zero, saturating, NaN gives 0; pred:
// != 0; e4m3: saturating to +-448, NaN kept; s8: to nearest even, saturating, NaN gives 0.
double RoundTo(DType dtype, double value);

// Stores values already in range of `storage`, rounding once: data[offset + i * stride] = in[i].
void StoreRun(const double* in, int64_t count, void* data, Storage storage, int64_t offset,
              int64_t stride);

// The offset of the linear-th element of the row-major index space `dims`.
inline int64_t OffsetOf(int64_t linear, const int64_t* dims, const int64_t* strides, int rank) {
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    offset += linear % dims[i] * strides[i];
    linear /= dims[i];
  }
  return offset;
}

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_TENSOR_H_
