#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/collective/collective.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr int kAhead = 2;  // units that a block sends before it waits

// The program after sums, or after norms, as a struct called `name`. `first`: its first leaf.
std::string ProgramText(const EpilogueProgram& program, DType result, size_t first,
                        const char* name) {
  if (!program.present()) return absl::StrCat("  using ", name, " = NoProgram;\n");
  const std::vector<int> inputs = program.OperandInputs();
  std::map<int, std::string> names;
  int matrices = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names[inputs[i]] = absl::StrCat("leaf(", i, ")");
    if (program.leaves[static_cast<size_t>(inputs[i])] == LeafKind::kMatrix) matrices |= 1 << i;
  }
  const ValueId rounded = RoundedValue(program, result);
  return absl::StrCat("  struct ", name, " {\n    static constexpr int kFirst = ", first,
                      ", kLeaves = ", inputs.size(), ", kMatrices = ", matrices,
                      ";\n    static constexpr bool kApplies = true, kRounded = ",
                      BoolText(rounded >= 0), ";\n    template <class Leaf>\n",
                      "    static SINTER_DEVICE float apply(float y, const Leaf& leaf) {\n",
                      BodyText(program, names, nullptr, rounded), "    }\n  };\n");
}

std::string SumConfig(const CollectiveProblem& p, const CollectiveSchedule& s) {
  std::string text = absl::StrCat("  using Element = ", DeviceTypeOf(p.element),
                                  ";\n  using Result = ", DeviceTypeOf(p.result), ";\n");
  absl::StrAppend(&text, "  static constexpr int kColumns = ", p.columns, ";\n");
  absl::StrAppend(&text, "  static constexpr bool kScatter = ",
                  BoolText(p.kind == CollectiveKind::kReduceScatter),
                  ", kNorm = ", BoolText(p.norm), ", kTwoShot = ", BoolText(s.two_shot),
                  ";\n  static constexpr int kPushedColumns = ", s.PushedColumns(p),
                  ", kTogether = ", PartsTogether(p, s.threads), ";\n");
  if (p.norm) absl::StrAppend(&text, "  static constexpr float kEps = ", FloatText(p.eps), ";\n");
  return text + ProgramText(p.program, p.result, 0, "Program") +
         ProgramText(p.norm_program, p.result, p.program.OperandInputs().size(), "NormProgram");
}

}  // namespace

std::string CollectiveEntry(const CollectiveProblem& p) {
  return absl::StrCat("sinter_", NameOf(p.kind));
}

std::vector<std::string> HeadersOf(const CollectiveProblem& p, const CollectiveSchedule&) {
  if (p.kind == CollectiveKind::kAllGather) return {"kernels/all_gather.cuh"};
  if (!p.program.present() && !p.norm_program.present()) return {"kernels/all_reduce.cuh"};
  return {"kernels/all_reduce.cuh", kProgramHeader};
}

std::string SourceOf(const CollectiveProblem& p, const CollectiveSchedule& s) {
  const bool gathers = p.kind == CollectiveKind::kAllGather;
  std::string parameters, leaves;
  for (const CollectiveOperand& operand : OperandsOf(p)) {
    absl::StrAppend(&parameters, operand.stored ? "" : "const ", "void* ", operand.name, ", ");
    if (absl::StartsWith(operand.name, "leaf")) absl::StrAppend(&leaves, operand.name, ", ");
  }
  const std::string call = gathers ? "all_gather<Config>({group, x, out, rows, plan});"
                                   : absl::StrCat("all_reduce<Config>({group, x, {", leaves, "}, ",
                                                  p.keeps ? "out" : "nullptr", ", ",
                                                  p.norm ? "normed" : "nullptr", ", rows, plan});");
  return absl::StrCat(
      "// ", p.ToString(), "\n", IncludesText(HeadersOf(p, s)),
      "\nnamespace sinter {\n\nstruct Config {\n  static constexpr int kRanks = ", p.ranks,
      ", kThreads = ", s.threads, ", kAhead = ", kAhead,
      ";\n  static constexpr bool kByRows = ", BoolText(p.by_rows), ";\n",
      gathers ? absl::StrCat("  static constexpr int kRowVectors = ", p.columns / p.ChunkElements(),
                             ";\n")
              : SumConfig(p, s),
      "};\n\n", "extern \"C\" __global__ void __launch_bounds__(", s.threads, ", ",
      CollectiveResidents(p, s.threads), ")\n", CollectiveEntry(p), "(GroupControl* group, ",
      parameters, "u64 plan, int rows) {\n  ", call, "\n}\n\n}  // namespace sinter\n");
}

absl::StatusOr<LaunchRecipe> RecipeOf(const CollectiveProblem& p, const CollectiveSchedule& s,
                                      const std::vector<BufferPlace>& places) {
  const std::vector<CollectiveOperand> operands = OperandsOf(p);
  if (places.size() != operands.size()) {
    return Invalid(NameOf(p.kind), ": ", places.size(), " operands, it has ", operands.size());
  }
  LaunchRecipe recipe;
  recipe.entry = CollectiveEntry(p);
  recipe.rows_per_m = p.rows_per_m;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.threads), 1, 1};
  recipe.pdl = true;
  recipe.args.push_back({ArgKind::kRoom});
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t row_bytes = p.columns * SizeOf(operands[i].dtype) * operands[i].parts;
    recipe.args.push_back(PointerSlot(places[i], p.fixed_rows > 0 ? 0 : row_bytes));
  }
  recipe.args.push_back({ArgKind::kPlan});
  recipe.args.push_back(
      {p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kSymbolM, 0, 0, p.fixed_rows});
  return recipe;
}

}  // namespace sinter
