// Operand: a matrix that a product multiplies.
#ifndef SINTER_SRC_PRODUCT_OPERAND_H_
#define SINTER_SRC_PRODUCT_OPERAND_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "src/base/codec.h"
#include "src/base/dtype.h"
#include "src/chain/activation.h"  // Layout
#include "src/chain/infer.h"
#include "src/product/element.h"
#include "src/product/pixel_window.h"

namespace sinter {

// Values of the enumerators here are part of plan records: never reused.

// Where an operand comes from.
enum class Source : uint8_t {
  kBuffer = 0,   // a matrix in memory
  kProduct = 1,  // the result of the product before, inside the kernel
  kWindow = 2,   // pixels of images under a filter's taps: rows of a first product
};

// The factor of each element when it is read: of operands of 8 bits, and kVector of weights of 16.
enum class ScaleKind : uint8_t {
  kNone = 0,
  kTensor = 1,  // one number
  kVector = 2,  // one number for each row of the rows, or for each column of the weights
  kBlock = 3,   // one number for each block of block_rows x block_columns elements
};

struct Scales {
  ScaleKind kind = ScaleKind::kNone;
  int64_t block_rows = 0, block_columns = 0;  // of kBlock: 1 or 128 of the operand's rows, 128 of K
  DType element = DType::kF32;                // of weights of 16 bits maybe theirs
  // Elements between the values of neighbouring rows or blocks of rows, and of neighbouring blocks
  // of K; 0: row-major without gaps. of_m: groups lie group_stride * M elements apart.
  int64_t row_stride = 0, group_stride = 0;
  bool of_m = false;

  bool strided() const { return row_stride != 0; }
  bool operator==(const Scales& o) const {
    return std::tie(kind, block_rows, block_columns, element, row_stride, group_stride, of_m) ==
           std::tie(o.kind, o.block_rows, o.block_columns, o.element, o.row_stride, o.group_stride,
                    o.of_m);
  }
};

// "none", "tensor", "vector of bf16", "block 128x128"; strided "vector[4]", "block 1x128[1,M]"
std::string ToString(const Scales& scales);

// Canonical bytes, but for the element.
void WriteScales(const Scales& scales, ByteWriter& w);
Scales ReadScales(ByteReader& r);

struct Operand {
  DType element = DType::kBF16;
  // kOI: contiguous along K. kIO: contiguous along the columns of weights, or along rows that are
  // transposed.
  Layout layout = Layout::kOI;
  Scales scales;
  Source source = Source::kBuffer;
  PixelWindow window;  // of kWindow

  int64_t bytes() const { return ElementOf(element).bytes; }  // of an element
  bool operator==(const Operand& o) const {
    return std::tie(element, layout, scales, source, window) ==
           std::tie(o.element, o.layout, o.scales, o.source, o.window);
  }
  bool operator!=(const Operand& o) const { return !(*this == o); }
};

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_OPERAND_H_
