#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/four_bit/four_bit.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr int64_t kPlaceAlignment = 16;  // bytes

// Where the element of a leaf for a result at `row` and `column` lies.
std::string PlaceOfLeaf(const FourBitProduct& p, LeafKind kind) {
  switch (kind) {
    case LeafKind::kColumn:
      return "column";
    case LeafKind::kMatrix:
      return absl::StrCat("row * ", p.residual_stride, "ll + column");
    case LeafKind::kRow:
      return "row";
    default:
      return "0";
  }
}

// The struct of a result's end: the program, which reads its leaves.
std::string EndText(const FourBitProduct& p) {
  const EpilogueProgram& program = p.product.epilogue.program;
  std::string pointers;
  std::map<int, std::string> names;
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    const char* const type = DeviceTypeOf(program.TypeOf(input));
    absl::StrAppend(&pointers, "  const ", type, "::Stored* leaf", input, ";\n");
    names[input] = absl::StrCat(type, "::unpack(leaf", input, "[",
                                PlaceOfLeaf(p, program.leaves[static_cast<size_t>(input)]), "])");
  }
  return absl::StrCat("struct End {\n", pointers,
                      "  SINTER_DEVICE float at(int row, int column, float y, float up) const {\n",
                      BodyText(program, names), "  }\n};\n");
}

std::string ConfigText(const FourBitProduct& p, const FourBitSchedule& s) {
  return absl::StrCat(
      absl::Substitute("struct Config {\n  using Element = $0;\n  using Result = $1;\n",
                       DeviceTypeOf(p.product.rows.element), DeviceTypeOf(p.product.result)),
      ConfigText(p.weights, p.product.weights.element, p.product.k),
      "  static constexpr int kN = ", p.product.n, ", kK = ", p.product.k,
      ";\n  static constexpr int kTiles = ", s.tiles, ", kSlices = ", s.slices,
      ", kSplit = ", s.split, ", kBlockM = ", s.block_m, ", kStages = ", s.stages,
      ", kRowWarps = ", s.LoadWarps(p),
      ";\n  static constexpr bool kPair = ", BoolText(p.product.pair),
      ", kConstantWeights = ", BoolText(p.weights.constant),
      ";\n  static constexpr long long kRowStride = ", p.row_stride,
      ", kOutStride = ", p.out_stride, ";\n};\n");
}

}  // namespace

std::vector<std::string> HeadersOf(const FourBitProduct& p, const FourBitSchedule&) {
  std::vector<std::string> headers = {p.weights.packed ? "kernels/packed_four_bit_product.cuh"
                                                       : "kernels/four_bit_product.cuh"};
  if (p.product.epilogue.program.present()) headers.emplace_back(kProgramHeader);
  return headers;
}

std::string SourceOf(const FourBitProduct& p, const FourBitSchedule& s) {
  std::string text = absl::StrCat("// ", p.ToString(), "\n// ", s.ToString(false), "\n",
                                  IncludesText(HeadersOf(p, s)));
  const bool pair = p.product.pair, packed = p.weights.packed;
  const char* const kMap = "const __grid_constant__ TensorMap";
  absl::StrAppend(&text, "\nnamespace sinter {\n\n", EndText(p), "\n", ConfigText(p, s),
                  "using Kernel = ", packed ? "PackedFourBitProduct" : "FourBitProduct",
                  "<Config>;\nstatic_assert(Kernel::kSharedBytes == ", SharedMemoryBytes(p, s),
                  " && Kernel::kThreads == ", s.Threads(p),
                  ", \"the plan and the device library agree on sizes\");\n\n");
  std::string parameters = absl::StrCat(packed ? kMap : "const Config::Element::Stored*", " rows");
  std::string members[3];  // of the operands: weights, scales, zeros
  const auto add = [&](int member, const char* type, const char* name) {
    for (const char* half : {"", "_up"}) {
      const bool there = *half == '\0' || pair;
      if (there) absl::StrAppend(&parameters, ", ", type, " ", name, half);
      absl::StrAppend(&members[member], *half == '\0' ? "" : ", ", there ? "" : "nullptr",
                      there && type == kMap ? "&" : "", there ? name : "", there ? half : "");
    }
  };
  add(0, kMap, "weights");
  add(1, packed ? kMap : "const Config::Scale::Stored*", "scales");
  if (p.weights.HasZeros()) {
    add(2, packed ? kMap : "const Config::Zero::Stored*", "zeros");
  } else {
    members[2] = "nullptr, nullptr";
  }
  std::string leaves;
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    const char* const type = DeviceTypeOf(p.product.epilogue.program.TypeOf(input));
    absl::StrAppend(&parameters, ", const ", type, "::Stored* leaf", input);
    absl::StrAppend(&leaves, leaves.empty() ? "" : ", ", "leaf", input);
  }
  absl::StrAppend(
      &text, "extern \"C\" __global__ void __launch_bounds__(", s.Threads(p), ", 1)\n",
      kFourBitEntry, "(", parameters, ", Config::Result::Stored* out, int m) {\n  const ",
      packed ? "PackedOperands" : "FourBitOperands", "<Config> operands = {", packed ? "&" : "",
      "rows, {", members[0], "}, {", members[1], "}, {", members[2], "}, out};\n",
      "  Kernel::run(operands, End{", leaves, "}, m);\n}\n\n}  // namespace sinter\n");
  return text;
}

namespace {

TensorMapTemplate MapOf(const BufferPlace& place, DType dtype, std::vector<Dim> dims,
                        std::vector<int64_t> strides, std::vector<int64_t> box, Swizzle swizzle) {
  TensorMapTemplate map;
  map.buffer = place.buffer;
  map.offset_bytes = place.offset_bytes;
  map.dtype = dtype;
  map.dims = std::move(dims);
  map.stride_bytes.assign(strides.begin(), strides.end());
  map.box.assign(box.begin(), box.end());
  map.swizzle = swizzle;
  return map;
}

// The boxes of a stage of packed weights (PackedOperands): of rows, and of one matrix.
TensorMapTemplate PackedRowsMap(const FourBitProduct& p, const FourBitSchedule& s,
                                const BufferPlace& place) {
  constexpr int64_t kBoxK = 64;
  const DType element = p.product.rows.element;
  const Dim rows = p.fixed_rows > 0 ? Dim::Constant(p.fixed_rows) : Dim::M();
  return MapOf(place, element, {Dim::Constant(kBoxK), rows, Dim::Constant(p.product.k / kBoxK)},
               {p.row_stride * SizeOf(element), kBoxK * SizeOf(element)},
               {kBoxK, s.block_m, s.slices * kSliceK / kBoxK}, Swizzle::k128B);
}
TensorMapTemplate PackedWeightsMap(const FourBitProduct& p, const FourBitSchedule& s,
                                   const BufferPlace& place) {
  constexpr int64_t kPieceK = 16, kPieceWords = 128;  // of 64 columns
  const int64_t columns = p.TileColumns();
  return MapOf(place, DType::kS32,
               {Dim::Constant(kPieceWords), Dim::Constant(p.product.n / columns),
                Dim::Constant(p.product.k / kPieceK)},
               {4 * kPieceWords, p.weights.byte_stride},
               {kPieceWords, s.tiles, s.slices * kSliceK / kPieceK}, Swizzle::kNone);
}
// The boxes of scales or zeros, whose rows are `stride` apart.
TensorMapTemplate PackedGroupsMap(const FourBitProduct& p, const FourBitSchedule& s, int64_t stride,
                                  const BufferPlace& place) {
  const DType dtype = p.weights.scale;
  return MapOf(place, dtype,
               {Dim::Constant(p.product.n), Dim::Constant(p.product.k / p.weights.group)},
               {stride * SizeOf(dtype)},
               {p.TileColumns() * s.tiles, s.slices * kSliceK / p.weights.group}, Swizzle::kNone);
}
// The boxes of weights by rows: a row has 256 of K of one column.
TensorMapTemplate WeightsMap(const FourBitProduct& p, const FourBitSchedule& s,
                             const BufferPlace& place) {
  constexpr int64_t kSpan = 128;  // bytes
  return MapOf(place, DType::kS8, {Dim::Constant(p.product.k / 2), Dim::Constant(p.product.n)},
               {p.weights.byte_stride}, {kSpan, p.TileColumns() * s.tiles}, Swizzle::k128B);
}

}  // namespace

absl::StatusOr<LaunchRecipe> RecipeOf(const FourBitProduct& p, const FourBitSchedule& s,
                                      const std::vector<BufferPlace>& places) {
  const int width = p.product.Width();
  const std::vector<int> leaves = p.product.epilogue.program.OperandInputs();
  const size_t of_weights = static_cast<size_t>(width) * (p.weights.HasZeros() ? 3 : 2);
  if (places.size() != 1 + of_weights + leaves.size() + 1) {
    return Invalid("product of four bits: ", places.size(), " operands, it has ",
                   of_weights + leaves.size() + 2);
  }
  LaunchRecipe recipe;
  recipe.entry = kFourBitEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.split), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.Threads(p)), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(SharedMemoryBytes(p, s));
  recipe.pdl = true;
  const auto point = [&](size_t place, int64_t row_bytes) {
    recipe.args.push_back(PointerSlot(places[place], p.fixed_rows > 0 ? 0 : row_bytes));
  };
  for (const BufferPlace& place : places) {
    if (place.offset_bytes % kPlaceAlignment == 0) continue;
    return Invalid("product of four bits: offset ", place.offset_bytes, " is not a multiple of ",
                   kPlaceAlignment);
  }
  const auto load = [&](TensorMapTemplate map) {
    recipe.args.push_back({ArgKind::kTensorMap, static_cast<int>(recipe.tensor_maps.size())});
    recipe.tensor_maps.push_back(std::move(map));
  };
  const bool packed = p.weights.packed;
  size_t next = 0;
  if (packed) {
    load(PackedRowsMap(p, s, places[next++]));
  } else {
    point(next++, p.row_stride * SizeOf(p.product.rows.element));
  }
  for (int matrix = 0; matrix < width; ++matrix, ++next) {
    load(packed ? PackedWeightsMap(p, s, places[next]) : WeightsMap(p, s, places[next]));
  }
  for (int i = 0; next < 1 + of_weights; ++i) {
    if (packed) {
      const int64_t stride = i < width ? p.weights.scale_stride : p.weights.zero_stride;
      load(PackedGroupsMap(p, s, stride, places[next++]));
    } else {
      point(next++, 0);
    }
  }
  for (const int input : leaves) {
    const EpilogueProgram& program = p.product.epilogue.program;
    const LeafKind kind = program.leaves[static_cast<size_t>(input)];
    const int64_t size = SizeOf(program.TypeOf(input));
    point(next++, kind == LeafKind::kMatrix ? p.residual_stride * size
                  : kind == LeafKind::kRow  ? size
                                            : 0);
  }
  point(next, p.out_stride * SizeOf(p.product.result));
  recipe.args.push_back(
      {p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kSymbolM, 0, 0, p.fixed_rows});
  return recipe;
}

}  // namespace sinter
