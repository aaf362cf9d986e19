#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/mma/mma.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr int64_t kPlaceAlignment = 16;  // bytes
constexpr int kBand = 8;                 // rows of tiles that are walked together

// The parameter's name, which is also that of what End has of it.
std::string NameOf(const MmaOperand& operand) {
  constexpr const char* kNames[] = {"rows", "weights", "row_scale", "scale", "leaf", "out"};
  return absl::StrCat(kNames[operand.kind], operand.kind == MmaOperand::kLeaf
                                                ? absl::StrCat(operand.number)
                                            : operand.number == 1 ? "_up"
                                                                  : "");
}

bool IsOfEnd(const MmaOperand& operand) {
  return operand.kind == MmaOperand::kRowScale || operand.kind == MmaOperand::kWeightScale ||
         operand.kind == MmaOperand::kLeaf;
}

// The struct that makes four neighbouring results of their sums: it scales them, and then computes
// the program, which reads its leaves.
std::string EndText(const MmaProduct& p, const std::vector<MmaOperand>& operands) {
  const EpilogueProgram& program = p.product.epilogue.program;
  std::string members, loads, scales, parameters = "float y, float up", arguments = "y[i], up[i]";
  std::map<int, std::string> names;
  for (const MmaOperand& operand : operands) {
    if (!IsOfEnd(operand)) continue;
    const char* const type = DeviceTypeOf(operand.element);
    const std::string name = NameOf(operand), value = absl::StrCat("of_", name);
    absl::StrAppend(&members, "  const ", type, "::Stored* ", name, ";\n");
    std::string at = name;  // of the first of four columns
    if (operand.rows == 0) absl::StrAppend(&at, " + row * ", operand.row_stride, "ll");
    const bool columns = operand.columns > 1;
    if (columns) {
      const bool vector = p.product.n % 4 == 0 && operand.row_stride % 4 == 0;
      absl::StrAppend(&loads, "    float ", value, "[4];\n    load_four<", type, ", ",
                      BoolText(vector), ", ", operand.column_stride, ">(", at, " + column * ",
                      operand.column_stride, "ll, ", p.product.n, " - column, ", value, ");\n");
    } else {
      absl::StrAppend(&loads, "    const float ", value, " = ", type, "::unpack(*(", at, "));\n");
    }
    const std::string element = columns ? value + "[i]" : value;
    if (operand.kind == MmaOperand::kLeaf) {
      absl::StrAppend(&parameters, ", float ", name);
      absl::StrAppend(&arguments, ", ", element);
      names[operand.number] = name;
      continue;
    }
    if (operand.number == 0) absl::StrAppend(&scales, "      y[i] *= ", element, ";\n");
    const bool of_up = operand.kind == MmaOperand::kRowScale || operand.number == 1;
    if (of_up && p.product.pair) absl::StrAppend(&scales, "      up[i] *= ", element, ";\n");
  }
  return absl::StrCat(
      "struct End {\n", members, "  static SINTER_DEVICE float of(", parameters, ") {\n",
      BodyText(program, names),
      "  }\n  SINTER_DEVICE void apply(int row, int column, float (&y)[4], float (&up)[4]) const "
      "{\n",
      loads, "#pragma unroll\n    for (int i = 0; i < 4; ++i) {\n", scales, "      y[i] = of(",
      arguments, ");\n    }\n  }\n};\n");
}

std::string ConfigText(const MmaProduct& p, const MmaSchedule& s) {
  const MatrixProduct& product = p.product;
  return absl::StrCat("struct Config {\n  using Element = ", DeviceTypeOf(product.rows.element),
                      ";\n  using Result = ", DeviceTypeOf(product.result),
                      ";\n  static constexpr int kN = ", product.n, ", kK = ", product.k,
                      ";\n  static constexpr int kBlockM = ", s.block_m, ", kBlockN = ", s.block_n,
                      ", kWarpM = ", s.warp_m, ", kWarpN = ", s.warp_n, ", kSlices = ", s.slices,
                      ", kStages = ", s.stages, ", kWalk = ", kBand,
                      ";\n  static constexpr bool kPair = ", BoolText(product.pair),
                      ", kAlongK = ", BoolText(p.along_k()),
                      ";\n  static constexpr long long kRowStride = ", p.row_stride,
                      ", kWeightStride = ", p.weight_stride, ", kOutStride = ", p.out_stride,
                      ";\n};\n");
}

}  // namespace

std::vector<std::string> HeadersOf(const MmaProduct& p, const MmaSchedule&) {
  std::vector<std::string> headers = {"kernels/mma_product.cuh"};
  if (p.product.epilogue.program.present()) headers.emplace_back(kProgramHeader);
  return headers;
}

std::string SourceOf(const MmaProduct& p, const MmaSchedule& s) {
  std::string text = absl::StrCat("// ", p.ToString(), "\n// ", s.ToString(false), "\n",
                                  IncludesText(HeadersOf(p, s)));
  const std::vector<MmaOperand> operands = OperandsOf(p);
  absl::StrAppend(&text, "\nnamespace sinter {\n\n", EndText(p, operands), "\n", ConfigText(p, s),
                  "using Kernel = MmaProduct<Config>;\nstatic_assert(Kernel::kSharedBytes == ",
                  SharedMemoryBytes(p, s), " && Kernel::kThreads == ", s.Threads(),
                  ", \"the plan and the device library agree on sizes\");\n\n");
  std::string parameters, end;
  for (const MmaOperand& operand : operands) {
    const bool result = operand.kind == MmaOperand::kResult;
    absl::StrAppend(&parameters, result ? "" : "const ", DeviceTypeOf(operand.element),
                    "::Stored* ", NameOf(operand), ", ");
    if (IsOfEnd(operand)) absl::StrAppend(&end, end.empty() ? "" : ", ", NameOf(operand));
  }
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", s.Threads(), ", 1)\n",
                  kMmaEntry, "(", parameters, "int m) {\n",
                  "  const MmaOperands<Config> operands = {rows, {weights, ",
                  p.product.pair ? "weights_up" : "nullptr", "}, out};\n  Kernel::run(operands, ",
                  "End{", end, "}, m);\n}\n\n}  // namespace sinter\n");
  return text;
}

absl::StatusOr<LaunchRecipe> RecipeOf(const MmaProduct& p, const MmaSchedule& s,
                                      const std::vector<BufferPlace>& places) {
  const std::vector<MmaOperand> operands = OperandsOf(p);
  if (places.size() != operands.size()) {
    return Invalid("product by mma.sync: ", places.size(), " operands, it has ", operands.size());
  }
  LaunchRecipe recipe;
  recipe.entry = kMmaEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.cluster = {1, 1, 1};
  recipe.block = {static_cast<uint32_t>(s.Threads()), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(SharedMemoryBytes(p, s));
  recipe.pdl = true;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].offset_bytes % kPlaceAlignment != 0) {
      return Invalid("product by mma.sync: offset ", places[i].offset_bytes,
                     " is not a multiple of ", kPlaceAlignment);
    }
    const bool passes = operands[i].rows == 0 && p.of_m;
    const int64_t bytes = operands[i].row_stride * SizeOf(operands[i].element);
    recipe.args.push_back(PointerSlot(places[i], passes ? bytes : 0));
  }
  recipe.args.push_back({p.of_m ? ArgKind::kSymbolM : ArgKind::kInt32, 0, 0, p.of_m ? 0 : p.rows});
  return recipe;
}

}  // namespace sinter
