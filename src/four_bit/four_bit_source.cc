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

const char* Flag(bool x) { return x ? "true" : "false"; }

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
  std::vector<std::string> names(program.leaves.size(), "y");
  for (size_t i = 0; i < names.size(); ++i) {
    if (program.leaves[i] == LeafKind::kUp) names[i] = "up";
  }
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    const char* const type = DeviceTypeOf(program.TypeOf(input));
    absl::StrAppend(&pointers, "  const ", type, "::Stored* leaf", input, ";\n");
    names[static_cast<size_t>(input)] =
        absl::StrCat(type, "::unpack(leaf", input, "[",
                     PlaceOfLeaf(p, program.leaves[static_cast<size_t>(input)]), "])");
  }
  return absl::StrCat("struct End {\n", pointers,
                      "  SINTER_DEVICE float at(int row, int column, float y, float up) const {\n",
                      program.present() ? ReturnText(program, names) : "    return y;\n",
                      "  }\n};\n");
}

std::string ConfigText(const FourBitProduct& p, const FourBitSchedule& s) {
  return absl::StrCat(
      absl::Substitute("struct Config {\n  using Element = $0;\n  using Result = $1;\n",
                       DeviceTypeOf(p.product.rows.element), DeviceTypeOf(p.product.result)),
      ConfigText(p.weights, p.product.weights.element, p.product.k),
      "  static constexpr int kN = ", p.product.n, ", kK = ", p.product.k,
      ";\n  static constexpr int kTiles = ", s.tiles, ", kSlices = ", s.slices,
      ", kSplit = ", s.split, ", kBlockM = ", s.block_m, ", kStages = ", s.stages,
      ", kRowWarps = ", s.RowWarps(), ";\n  static constexpr bool kPair = ", Flag(p.product.pair),
      ", kConstantWeights = ", Flag(p.weights.constant),
      ";\n  static constexpr long long kRowStride = ", p.row_stride,
      ", kOutStride = ", p.out_stride, ";\n};\n");
}

}  // namespace

std::vector<std::string> HeadersOf(const FourBitProduct& p, const FourBitSchedule&) {
  std::vector<std::string> headers = {"kernels/four_bit_product.cuh"};
  if (p.product.epilogue.program.present()) headers.emplace_back(kProgramHeader);
  return headers;
}

std::string SourceOf(const FourBitProduct& p, const FourBitSchedule& s) {
  std::string text = absl::StrCat("// ", p.ToString(), "\n// ", s.ToString(false), "\n");
  for (const std::string& header : HeadersOf(p, s)) {
    absl::StrAppend(&text, "#include \"", header, "\"\n");
  }
  absl::StrAppend(&text, "\nnamespace sinter {\n\n", EndText(p), "\n", ConfigText(p, s),
                  "using Kernel = FourBitProduct<Config>;\nstatic_assert(Kernel::kSharedBytes == ",
                  SharedMemoryBytes(p, s), " && Kernel::kThreads == ", s.Threads(p),
                  ", \"the plan and the device library agree on sizes\");\n\n");
  const bool pair = p.product.pair;
  std::string parameters = "const Config::Element::Stored* rows";
  std::string members[3];  // of FourBitOperands: weights, scales, zeros
  const auto add = [&](int member, const char* type, const char* name, const char* as) {
    for (const char* half : {"", "_up"}) {
      const bool there = *half == '\0' || pair;
      if (there) absl::StrAppend(&parameters, ", ", type, " ", name, half);
      absl::StrAppend(&members[member], *half == '\0' ? "" : ", ", there ? as : "nullptr",
                      there ? name : "", there ? half : "");
    }
  };
  add(0, "const __grid_constant__ TensorMap", "weights", "&");
  add(1, "const Config::Scale::Stored*", "scales", "");
  if (p.weights.HasZeros()) {
    add(2, "const Config::Zero::Stored*", "zeros", "");
  } else {
    members[2] = "nullptr, nullptr";
  }
  std::string leaves;
  for (const int input : p.product.epilogue.program.OperandInputs()) {
    const char* const type = DeviceTypeOf(p.product.epilogue.program.TypeOf(input));
    absl::StrAppend(&parameters, ", const ", type, "::Stored* leaf", input);
    absl::StrAppend(&leaves, leaves.empty() ? "" : ", ", "leaf", input);
  }
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", s.Threads(p), ", 1)\n",
                  kFourBitEntry, "(", parameters,
                  ", Config::Result::Stored* out, int m) {\n"
                  "  const FourBitOperands<Config> operands = {rows, {",
                  members[0], "}, {", members[1], "}, {", members[2], "}, out};\n",
                  "  Kernel::run(operands, End{", leaves, "}, m);\n}\n\n}  // namespace sinter\n");
  return text;
}

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
  size_t next = 0;
  point(next++, p.row_stride * SizeOf(p.product.rows.element));
  constexpr uint32_t kSpan = 128;  // bytes of a row of a box
  for (int matrix = 0; matrix < width; ++matrix) {
    TensorMapTemplate map;
    map.buffer = places[next].buffer;
    map.offset_bytes = places[next++].offset_bytes;
    map.dtype = DType::kS8;
    map.dims = {Dim::Constant(p.product.k / 2), Dim::Constant(p.product.n)};
    map.stride_bytes = {static_cast<uint64_t>(p.weights.byte_stride)};
    map.box = {kSpan, static_cast<uint32_t>(16 * s.tiles)};
    map.swizzle = Swizzle::k128B;
    recipe.tensor_maps.push_back(std::move(map));
    recipe.args.push_back({ArgKind::kTensorMap, matrix});
  }
  while (next < 1 + of_weights) point(next++, 0);
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
