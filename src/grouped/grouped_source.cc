#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/grouped/grouped.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr uint64_t kPlaceAlignment = 16;  // bytes of the widest access

constexpr int kSwappedSlots = 16;  // a swapped tile has a multiple of these

// The program as a struct: the operands that it reads, the terms that it has of a column of an
// expert, and the numbers of a slot and of an element of the matrix, if it reads any.
std::string ProgramStruct(const GroupedProduct& p) {
  std::string leaves, terms, loads, types;
  std::map<int, std::string> names;
  std::map<LeafKind, std::string> one = {{LeafKind::kRow, "NoLeaf"}, {LeafKind::kMatrix, "NoLeaf"}};
  for (const int input : p.OperandInputs()) {
    absl::StrAppend(&leaves, "    const ", DeviceTypeOf(p.program.TypeOf(input)), "::Stored* p",
                    p.LeafOf(input).operand, ";\n");
  }
  for (const int input : p.LeafInputs()) {
    const GroupedLeaf& leaf = p.LeafOf(input);
    const LeafKind kind = p.program.leaves[static_cast<size_t>(input)];
    const std::string type =
        absl::StrCat("LeafAt<", DeviceTypeOf(p.program.TypeOf(input)), ", ", leaf.row, ", ",
                     leaf.slot, ", ", leaf.expert, ", ", leaf.column, ", ", leaf.offset, ">");
    if (one.count(kind) > 0) {
      one[kind] = type;
      names[input] = kind == LeafKind::kRow ? "row" : "element";
      absl::StrAppend(&types, "  static SINTER_DEVICE auto ", names[input],
                      "_of(const Leaves& leaves) { return leaves.p", leaf.operand, "; }\n");
      continue;
    }
    names[input] = absl::StrCat("terms.c", input);
    absl::StrAppend(&terms, "    float c", input, ";\n");
    absl::StrAppend(&loads, "    terms.c", input, " = ", type, "::of_column<Config>(leaves.p",
                    leaf.operand, ", group, column);\n");
  }
  return absl::StrCat(
      "struct Program {\n  struct Leaves {\n", leaves, "  };\n  struct Terms {\n", terms, "  };\n",
      "  using Row = ", one[LeafKind::kRow], ";\n  using Matrix = ", one[LeafKind::kMatrix], ";\n",
      types, "  template <class Config>\n",
      "  static SINTER_DEVICE Terms terms(const Leaves& leaves, int group, int column) {\n",
      "    Terms terms;\n", loads, "    return terms;\n  }\n",
      "  static SINTER_DEVICE float apply(float y, float up, const Terms& terms, float row, float "
      "element) {\n",
      BodyText(p.program, names), "  }\n};\n");
}

std::string ConfigText(const GroupedProduct& p, const GroupedSchedule& s) {
  std::string text = absl::Substitute(
      "struct Config {\n"
      "  using Rows = $0;\n  using Weights = $1;\n  using Result = $2;\n"
      "  using Program = sinter::Program;\n",
      DeviceTypeOf(p.rows), DeviceTypeOf(p.weights), DeviceTypeOf(p.result));
  absl::StrAppend(&text, "  static constexpr int kExperts = ", p.experts, ", kSlots = ", p.slots,
                  ", kN = ", p.n, ", kK = ", p.k, ", kPair = ", static_cast<int>(p.pair), ";\n");
  absl::StrAppend(&text, "  static constexpr bool kByEnds = ", p.by_ends ? "true" : "false",
                  ", kInputMajor = ", p.input_major ? "true" : "false",
                  ", kMapped = ", s.block_m > 0 && MapsWeights(p, s) ? "true" : "false",
                  ", kEarly = ", p.early ? "true" : "false", ";\n");
  absl::StrAppend(&text, "  static constexpr long long kRowStride = ", p.row_stride,
                  ", kRowSlotStride = ", p.row_slot_stride, ", kIdStride = ", p.id_stride,
                  ", kIdSlotStride = ", p.id_slot_stride, ";\n");
  absl::StrAppend(&text, "  static constexpr long long kExpertStride = ", p.expert_stride,
                  ", kWeightStride = ", p.weight_stride, ";\n");
  absl::StrAppend(&text, "  static constexpr int kRowScales = ", static_cast<int>(p.row_scales),
                  ", kWeightScales = ", static_cast<int>(p.weight_scales), ";\n");
  if (p.HasScales()) {
    absl::StrAppend(&text, "  static constexpr long long kRowScaleStride = ", p.row_scale_stride,
                    ", kRowScaleSlotStride = ", p.row_scale_slot_stride,
                    ", kRowScaleGroup = ", p.row_scale_group, ";\n");
    absl::StrAppend(&text,
                    "  static constexpr long long kWeightScaleExpert = ", p.weight_scale_expert,
                    ", kWeightScaleColumn = ", p.weight_scale_column,
                    ", kWeightScaleGroup = ", p.weight_scale_group, ";\n");
  }
  absl::StrAppend(&text, "  static constexpr long long kOutStride = ", p.out_stride,
                  ", kOutSlotStride = ", p.out_slot_stride, ";\n");
  absl::StrAppend(&text, "  static constexpr int kCodes = ",
                  !p.quantizer.present ? 0
                  : p.quantizer.ue8m0  ? 2
                                       : 1,
                  ";\n");
  if (p.quantizer.present) {
    const double bound = p.quantizer.upper_bound;
    absl::StrAppend(
        &text, "  static constexpr float kCodeEps = ", FloatText(p.quantizer.eps),
        ", kCodeBound = ", FloatText(bound > 0 ? bound : std::numeric_limits<float>::max()), ";\n");
  }
  if (p.HasCodes()) {
    absl::StrAppend(&text, sinter::ConfigText(p.codes, p.weights, p.k),
                    "  static constexpr int kSlices = ", s.slices, ", kRowWarps = ", s.RowWarps(),
                    ", kRowTurns = ", GroupedSchedule::kRowTurns,
                    ", kEndWarps = ", GroupedSchedule::kEndWarps, ";\n");
  }
  if (s.block_m > 0) {
    absl::StrAppend(&text, "  static constexpr int kBlockM = ", s.block_m,
                    ", kBlockN = ", s.block_n, ", kStages = ", s.stages,
                    ", kBlocks = ", s.ClusterBlocks(), ";\n");
  }
  return absl::StrCat(text, "};\n");
}

}  // namespace

std::vector<std::string> HeadersOf(const GroupedProduct& p, const GroupedSchedule& s) {
  std::vector<std::string> headers = {p.HasCodes()     ? "kernels/grouped_four_bit.cuh"
                                      : s.swapped > 0  ? "kernels/grouped_swapped.cuh"
                                      : s.block_m == 0 ? "kernels/grouped_dots.cuh"
                                                       : "kernels/grouped_product.cuh"};
  if (p.program.present()) headers.emplace_back(kProgramHeader);
  return headers;
}

std::string SourceOf(const GroupedProduct& p, const GroupedSchedule& s) {
  const bool tensor = s.block_m > 0, mapped = tensor && MapsWeights(p, s);
  const char* const kernel = p.HasCodes()     ? "GroupedFourBit"
                             : s.swapped > 0  ? "GroupedSwapped"
                             : tensor         ? "GroupedProduct"
                             : s.IsWarpDots() ? "GroupedWarpDots"
                                              : "GroupedDots";
  std::string text = absl::StrCat("// ", p.ToString(), "\n// ", s.ToString(false), "\n",
                                  IncludesText(HeadersOf(p, s)));
  absl::StrAppend(&text, "\nnamespace sinter {\n\n");
  absl::StrAppend(&text, ProgramStruct(p), "\n");
  if (p.HasCodes()) {
    // Its products are mma.sync's.
  } else if (s.swapped > 0) {
    for (int slots = kSwappedSlots; slots <= s.block_m; slots += kSwappedSlots) {
      absl::StrAppend(&text, WgmmaSource(slots, ElementOf(p.weights), false, false), "\n");
    }
  } else if (tensor) {
    // Sums of wide tiles are promoted in two parts.
    const int parts = ElementOf(p.weights).promoted && s.block_n > 64 ? 2 : 1;
    absl::StrAppend(
        &text, WgmmaSource(s.block_n / parts, ElementOf(p.weights), false, p.input_major), "\n");
  }
  absl::StrAppend(&text, ConfigText(p, s));
  if (tensor) {
    absl::StrAppend(&text, "static_assert(", kernel,
                    "<Config>::kSharedBytes == ", SharedMemoryBytes(p, s),
                    ", \"the plan and the device library agree on shared memory\");\n");
  }
  std::string parameters, names;
  for (const int input : p.OperandInputs()) {
    const std::string name = absl::StrCat("p", p.LeafOf(input).operand);
    absl::StrAppend(&parameters, " const ", DeviceTypeOf(p.program.TypeOf(input)), "::Stored* ",
                    name, ",");
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  absl::StrAppend(
      &text, "\nextern \"C\" __global__ void __launch_bounds__(", s.Threads(),
      tensor || s.IsWarpDots() ? absl::StrCat(", ", BlocksPerSm(p, s)) : "", ")\n", kGroupedEntry,
      "(const Config::Rows::Stored* rows, ",
      mapped ? "const __grid_constant__ TensorMap weights"
             : "const Config::Weights::Stored* weights",
      ",\n    const int* ids,",
      p.HasScales() ? " const float* row_scales, const float* weight_scales," : "",
      p.HasCodes() ? " const Config::Scale::Stored* scales," : "",
      p.codes.HasZeros() ? " const Config::Zero::Stored* zeros," : "", parameters,
      p.quantizer.present ? " float* code_scales," : "", " Config::Result::Stored* out, int m",
      p.by_ends ? ", int first_row" : "", ") {\n",
      p.HasCodes() ? "  const FourBitGroupedOperands<Config> operands = {{rows, "
                   : "  const GroupedOperands<Config> operands = {rows, ",
      mapped ? "nullptr" : "weights", ", ids, {", names, "}, out, ",
      mapped ? "&weights" : "nullptr",
      p.by_ends       ? ", first_row"
      : p.HasScales() ? ", 0, row_scales, weight_scales"
                      : "",
      p.quantizer.present ? ", code_scales" : "",
      !p.HasCodes()        ? ""
      : p.codes.HasZeros() ? "}, scales, zeros"
                           : "}, scales, nullptr",
      "};\n  ", kernel, "<Config>::run(operands, m);\n}\n\n", "}  // namespace sinter\n");
  return text;
}

namespace {

// The columns of all experts, one after the other.
TensorMapTemplate CodesMap(const GroupedProduct& p, const GroupedSchedule& s,
                           const BufferPlace& place) {
  constexpr uint32_t kSpan = 128;  // bytes of a row of a box
  TensorMapTemplate map;
  map.buffer = place.buffer;
  map.offset_bytes = place.offset_bytes;
  map.dtype = DType::kS8;
  map.dims = {Dim::Constant(p.k / 2), Dim::Constant(p.experts * p.WeightColumns())};
  map.stride_bytes = {static_cast<uint64_t>(p.codes.byte_stride)};
  map.box = {kSpan, static_cast<uint32_t>(p.HasHalves() ? s.block_n / 2 : s.block_n)};
  map.swizzle = Swizzle::k128B;
  return map;
}

// Row r of the weights, of all experts one after the other, is the sum of 32 b + 8 q + 2 g + i; a
// box has i first, then q, g and b, so that a thread has neighbouring columns (permuted_column).
// Swapped, row r of a matrix is the sum of 16 b + 2 j + i, and a box has j first, then i and b.
TensorMapTemplate WeightsMap(const GroupedProduct& p, const GroupedSchedule& s,
                             const BufferPlace& place) {
  if (p.HasCodes()) return CodesMap(p, s, place);
  const int64_t columns = p.HasHalves() ? s.block_n / 2 : s.block_n;
  const auto row = static_cast<uint64_t>(p.weight_stride * SizeOf(p.weights));
  const auto dim = [](int64_t extent) { return Dim::Constant(extent); };
  TensorMapTemplate map;
  map.buffer = place.buffer;
  map.offset_bytes = place.offset_bytes;
  map.dtype = p.weights;
  const int64_t set = s.MappedColumns();
  const auto span = static_cast<uint32_t>(ElementOf(p.weights).swizzle_span);
  if (s.swapped > 0) {
    // Gate and up, or each expert's columns, are matrices of their own: a box past the last columns
    // reads nothing.
    const int64_t beside = p.HasHalves() ? p.n : p.WeightColumns();
    map.dims = {dim(p.k), dim(8), dim(2), dim(beside / set),
                dim(p.experts * p.WeightColumns() / beside)};
    map.stride_bytes = {2 * row, row, static_cast<uint64_t>(set) * row,
                        static_cast<uint64_t>(beside) * row};
    map.box = {span, 8, 2, static_cast<uint32_t>(s.block_n / 2 / set), 1};  // half of a tile's
  } else {
    map.dims = {dim(p.k), dim(2), dim(4), dim(4), dim(p.experts * p.WeightColumns() / set)};
    map.stride_bytes = {row, 8 * row, 2 * row, static_cast<uint64_t>(set) * row};
    map.box = {span, 2, 4, 4, static_cast<uint32_t>(columns / set)};
  }
  map.swizzle = Swizzle::k128B;
  return map;
}

}  // namespace

absl::StatusOr<LaunchRecipe> RecipeOf(const GroupedProduct& p, const GroupedSchedule& s,
                                      const std::vector<BufferPlace>& places) {
  // Bytes from one index of M to the next, in the order of the places.
  std::vector<int64_t> row_bytes = {p.row_stride * SizeOf(p.rows), 0,
                                    p.by_ends ? 0 : p.id_stride * SizeOf(DType::kS32)};
  if (p.HasScales()) {
    row_bytes.push_back(p.row_scale_stride * SizeOf(DType::kF32));
    row_bytes.push_back(0);
  }
  if (p.HasCodes()) row_bytes.push_back(0);
  if (p.codes.HasZeros()) row_bytes.push_back(0);
  for (const int input : p.OperandInputs()) {
    row_bytes.push_back(p.LeafOf(input).row * SizeOf(p.program.TypeOf(input)));
  }
  if (p.quantizer.present) {
    row_bytes.push_back(p.slots * (p.n / kScaleBlock) * SizeOf(DType::kF32));
  }
  row_bytes.push_back(p.out_stride * SizeOf(p.result));
  if (places.size() != row_bytes.size()) {
    return Invalid("grouped product: ", places.size(), " operands, it has ", row_bytes.size());
  }
  LaunchRecipe recipe;
  recipe.entry = kGroupedEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.ClusterBlocks()), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.Threads()), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(SharedMemoryBytes(p, s));
  recipe.pdl = true;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].offset_bytes % kPlaceAlignment != 0) {
      return Invalid("grouped product: offset ", places[i].offset_bytes, " is not a multiple of ",
                     kPlaceAlignment);
    }
    if (i == 1 && s.block_m > 0 && MapsWeights(p, s)) {
      recipe.tensor_maps.push_back(WeightsMap(p, s, places[i]));
      recipe.args.push_back({ArgKind::kTensorMap});
    } else {
      recipe.args.push_back(PointerSlot(places[i], p.fixed_rows > 0 ? 0 : row_bytes[i]));
    }
  }
  recipe.args.push_back(
      {p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kSymbolM, 0, 0, p.fixed_rows});
  if (p.by_ends) {  // rows of a fixed number begin at 0 in each pass over M
    recipe.args.push_back({p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kFirstRow});
  }
  return recipe;
}

}  // namespace sinter
