// ElementRow: an element type of a product's operands. The host's one table of element properties:
// cost model, sizes, legality, launch recipes and source text read it.
#ifndef SINTER_SRC_PRODUCT_ELEMENT_H_
#define SINTER_SRC_PRODUCT_ELEMENT_H_

#include <cstdint>

#include "src/base/dtype.h"

namespace sinter {

struct ElementRow {
  DType element = DType::kF32;
  int bytes = 0;
  int wgmma_k = 0;               // K of one wgmma: 32 bytes
  int swizzle_span = 1;          // elements in a row of the 128-byte swizzle
  int vector = 1;                // elements in 16 bytes
  const char* device_type = "";  // in the device library (src/device/ptx/element.cuh)
  const char* stored_type = "";  // in the device library: of elements in memory
  const char* wgmma_type = "";   // in PTX
  bool planned = false;          // whether products of it are planned; others are refused by name
  bool promoted = false;         // 8-bit floats: sums of a row of the swizzle are added in f32
  const char* fast_type = "";    // in the device library, of products whose sums are not promoted
  bool exact = false;            // integers: sums are s32
};

constexpr ElementRow kElementRows[] = {
    {DType::kBF16, 2, 16, 64, 8, "BFloat16", "u16", "bf16", true},
    {DType::kF16, 2, 16, 64, 8, "Float16", "u16", "f16", true},
    {DType::kE4M3, 1, 32, 128, 16, "FloatE4M3", "unsigned char", "e4m3", true, true,
     "FastFloatE4M3"},
    {DType::kS8, 1, 32, 128, 16, "Signed8", "signed char", "s8", true, false, "", true},
};

// Null: wgmma does not take it.
constexpr const ElementRow* FindElement(DType element) {
  for (const ElementRow& row : kElementRows) {
    if (row.element == element) return &row;
  }
  return nullptr;
}

// An empty row where the table has none; CheckSequence refuses such an element.
constexpr ElementRow ElementOf(DType element) {
  const ElementRow* row = FindElement(element);
  return row == nullptr ? ElementRow{} : *row;
}

// Whether wgmma has this N, a multiple of 8 up to 256. Of integers it has fewer.
constexpr bool HasColumns(const ElementRow& element, int64_t n) {
  return !element.exact || n <= 32 || n % 16 == 0;
}

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ELEMENT_H_
