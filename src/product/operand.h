// Operand: a matrix that a product multiplies: its element type, the window of pixels that its rows
// may be taken from. Role: what a kernel's argument is; OperandBinding: where it lies.
#ifndef SINTER_SRC_PRODUCT_OPERAND_H_
#define SINTER_SRC_PRODUCT_OPERAND_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/base/numbers.h"
#include "src/chain/choices.h"
#include "src/chain/infer.h"

namespace sinter {

// ElementRow: an element type of a product's operands. The host's one table of element properties:
// cost model, sizes, legality, launch recipes and source text read it.

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

// Its type in the device library; the table has no f32, which no tensor core takes here.
constexpr const char* DeviceTypeOf(DType dtype) {
  return dtype == DType::kF32 ? "Float32" : ElementOf(dtype).device_type;
}

// Whether wgmma has this N, a multiple of 8 up to 256. For integers it has fewer.
constexpr bool HasColumns(const ElementRow& element, int64_t n) {
  return !element.exact || n <= 32 || n % 16 == 0;
}

// PixelWindow: rows that a convolution takes from an image, one for each pixel of its result: the
// pixels under the taps of its filter, side by side. What TMA loads in its im2col mode.

constexpr int64_t kSubtileChannels = 64;  // of 16 bits: 128-byte rows of a stage

struct PixelWindow {
  int64_t height = 0, width = 0, channels = 0;  // of an image
  std::array<int64_t, 2> taps{0, 0};            // height, width
  Conv2d conv;  // strides, dilations and pads; the filter's layout is the weights'

  int64_t Pixels(int axis) const {  // of the result
    return conv.ResultPixels(axis, axis == 0 ? height : width, taps[axis]);
  }
  int64_t RowsPerM() const { return Pixels(0) * Pixels(1); }
  bool grouped() const { return conv.groups > 1; }
  int64_t GroupChannels() const { return channels / conv.groups; }
  // Groups beside each other whose channels share a row of a stage, and whose columns share tiles:
  // the filters of a bundle are a matrix with blocks along its diagonal. A group of more channels
  // than a row of a stage has is a bundle by itself.
  int64_t Bundle() const {
    return std::clamp<int64_t>(kSubtileChannels / GroupChannels(), 1, conv.groups);
  }
  int64_t BundleChannels() const { return Bundle() * GroupChannels(); }
  int64_t Columns() const { return taps[0] * taps[1] * GroupChannels(); }
  // Stages have whole 128-byte rows of one tap: the channels of a bundle, then zeros, or of rows
  // the next bundle's channels, whose weights are zeros.
  int64_t StagedTap() const { return RoundUp(BundleChannels(), kSubtileChannels); }
  // Whether the tensor map of the filter has an axis of taps, so that channels that a tap lacks are
  // read as zeros.
  bool CountsTaps() const { return grouped() || StagedTap() != channels; }
  int64_t StagedColumns() const { return taps[0] * taps[1] * StagedTap(); }
  // Corners of the box that the first taps of results lie in: height, width.
  int64_t LowerCorner(int axis) const { return -conv.pads[2 * axis]; }
  int64_t UpperCorner(int axis) const {
    return conv.pads[2 * axis + 1] - conv.dilations[axis] * (taps[axis] - 1);
  }
  SINTER_FIELDS(PixelWindow, height, width, channels, taps, conv);
};

// Checks the bounds of im2col maps and loads. The error names the field, the value and the bound.
absl::Status CheckWindow(const PixelWindow& window);

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
  SINTER_FIELDS(Scales, kind, block_rows, block_columns, element, row_stride, group_stride, of_m);
};

// "none", "tensor", "vector of bf16", "block 128x128"; strided "vector[4]", "block 1x128[1,M]"
std::string ToString(const Scales& scales);

struct Operand {
  DType element = DType::kBF16;
  // kOI: contiguous along K. kIO: contiguous along the columns of weights, or along rows that are
  // transposed.
  Layout layout = Layout::kOI;
  Scales scales;
  Source source = Source::kBuffer;
  PixelWindow window;  // of kWindow

  int64_t bytes() const { return ElementOf(element).bytes; }  // of an element
  SINTER_FIELDS(Operand, element, layout, scales, source, window);
};

// Role: what a kernel argument is, and its one name in texts, JSON, drawings and source.
// OperandBinding: where it lies.

// An operand or a leaf of one of a kernel's products, or a result.
struct Role {
  enum Kind : uint8_t {
    // Each product has its own.
    kW,
    kWUp,  // of a gate-up pair
    kBias,
    kBiasUp,
    kFactor,  // a number of each row
    kScaleW,  // of the weights
    kScaleUp,
    kLeaf,  // a vector of columns or a number that its program reads
    // The kernel has one.
    kA,
    kScaleA,
    kResidual,  // a matrix of the result's extents
    kOut,
    kScaleOut,    // of 128 columns of a row of out, which is codes
    kGivenScale,  // the same of all of out
    kC,
    kPartialOut,  // f32 partial sums of out, where several clusters share a row tile
    kAux,         // an auxiliary result of the last product's program
  };

  constexpr Role() = default;
  constexpr Role(Kind kind, int product = 0, int leaf = 0)  // NOLINT: a kind is a role
      : kind(kind), product(static_cast<uint8_t>(product)), leaf(static_cast<uint8_t>(leaf)) {}

  Kind kind = kA;
  uint8_t product = 0;  // of the kernel; 0 for what the kernel has one of
  uint8_t leaf = 0;     // of kLeaf and kAux: its number among the program's

  SINTER_FIELDS(Role, kind, product, leaf);
  // One number for each role, for keys in memory and digests of plans: a new kind goes last.
  uint32_t Number() const { return kind | uint32_t{product} << 8 | uint32_t{leaf} << 16; }
};

// "a", "c", "w2", "leaf1": what each of `products` has is numbered where they are several.
std::string NameOf(Role role, int products);
// As generated source and the device library's Arguments name it: numbered in every kernel, but
// what up has and the first product's leaves.
std::string FieldOf(Role role);

// Where a kernel finds an argument: a plan buffer (inputs then outputs in canonical order,
// kWorkspaceBuffer for c and partial_out) and an offset.
struct OperandBinding {
  Role role = Role::kA;
  int buffer = 0;
  uint64_t offset_bytes = 0;
  int64_t row_stride = 0;  // elements between rows (dimension 0); 0 for vectors of columns
  SINTER_FIELDS(OperandBinding, role, buffer, offset_bytes, row_stride);
};

// The operand with this role; null: none.
const OperandBinding* FindOperand(const std::vector<OperandBinding>& operands, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_OPERAND_H_
