#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/collective/collective.h"

namespace sinter {
namespace {

constexpr int kAhead = 2;  // units that a block sends before it waits

const char* DeviceType(DType dtype) {
  return dtype == DType::kBF16 ? "BFloat16" : dtype == DType::kF16 ? "Float16" : "Float32";
}
const char* Word(bool value) { return value ? "true" : "false"; }
// In hexadecimal, so that no bit is lost.
std::string HexFloat(double value) {
  return FormatText("%af", static_cast<double>(static_cast<float>(value)));
}

std::string SumConfig(const CollectiveProblem& p, const CollectiveSchedule& s) {
  std::string text = absl::StrCat("  using Element = ", DeviceType(p.element),
                                  ";\n  using Result = ", DeviceType(p.result), ";\n");
  absl::StrAppend(&text, "  static constexpr int kColumns = ", p.columns, ";\n");
  absl::StrAppend(
      &text, "  static constexpr bool kScatter = ", Word(p.kind == CollectiveKind::kReduceScatter),
      ", kRounded = ", Word(p.rounded), ", kResidual = ", Word(p.residual),
      ", kNorm = ", Word(p.norm), ", kTwoShot = ", Word(s.two_shot),
      ";\n  static constexpr int kPushedColumns = ", s.PushedColumns(p),
      ", kTogether = ", PartsTogether(p, s.threads), ";\n");
  if (p.norm) {
    absl::StrAppend(&text, "  static constexpr float kEps = ", HexFloat(p.eps),
                    ";\n  static constexpr bool kNormRounded = ", Word(p.norm_rounded), ";\n");
  }
  return text;
}

std::string GatherConfig(const CollectiveProblem& p) {
  return absl::StrCat("  static constexpr int kRowVectors = ", p.columns / p.ChunkElements(),
                      ";\n");
}

}  // namespace

std::string CollectiveEntry(const CollectiveProblem& p) {
  return absl::StrCat("sinter_", NameOf(p.kind));
}

std::vector<std::string> HeadersOf(const CollectiveProblem& p, const CollectiveSchedule&) {
  return {p.kind == CollectiveKind::kAllGather ? "kernels/all_gather.cuh"
                                               : "kernels/all_reduce.cuh"};
}

std::string SourceOf(const CollectiveProblem& p, const CollectiveSchedule& s) {
  const bool gathers = p.kind == CollectiveKind::kAllGather;
  std::string text = absl::StrCat("// ", p.ToString(), "\n#include \"", HeadersOf(p, s).front(),
                                  "\"\n\nnamespace sinter {\n\nstruct Config {\n");
  absl::StrAppend(&text, "  static constexpr int kRanks = ", p.ranks, ", kThreads = ", s.threads,
                  ", kAhead = ", kAhead, ";\n  static constexpr bool kByRows = ", Word(p.by_rows),
                  ";\n");
  absl::StrAppend(&text, gathers ? GatherConfig(p) : SumConfig(p, s), "};\n\n");
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", s.threads, ", ",
                  CollectiveResidents(p, s.threads), ")\n", CollectiveEntry(p),
                  "(GroupControl* group, const void* x, ",
                  p.residual ? "const void* residual, " : "",
                  p.norm ? "const void* gamma, void* normed, " : "", p.keeps ? "void* out, " : "",
                  "u64 plan, int rows) {\n");
  if (gathers) {
    text += "  all_gather<Config>({group, x, out, rows, plan});\n";
  } else {
    absl::StrAppend(&text, "  all_reduce<Config>({group, x, ", p.residual ? "residual" : "nullptr",
                    ", ", p.norm ? "gamma" : "nullptr", ", ", p.keeps ? "out" : "nullptr", ", ",
                    p.norm ? "normed" : "nullptr", ", rows, plan});\n");
  }
  text += "}\n\n}  // namespace sinter\n";
  return text;
}

absl::StatusOr<LaunchRecipe> RecipeOf(const CollectiveProblem& p, const CollectiveSchedule& s,
                                      const std::vector<BufferPlace>& places) {
  const int64_t x = p.columns * SizeOf(p.element), out = p.columns * SizeOf(p.result);
  std::vector<int64_t> row_bytes = {x * p.PartsOfX()};
  if (p.residual) row_bytes.push_back(out);
  if (p.norm) row_bytes.insert(row_bytes.end(), {0, out});  // gamma has no rows
  if (p.keeps) row_bytes.push_back(out * p.PartsOfOut());
  if (places.size() != row_bytes.size()) {
    return Invalid(NameOf(p.kind), ": ", places.size(), " operands, it has ", row_bytes.size());
  }
  LaunchRecipe recipe;
  recipe.entry = CollectiveEntry(p);
  recipe.rows_per_m = p.rows_per_m;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.threads), 1, 1};
  recipe.pdl = true;
  recipe.args.push_back({ArgKind::kRoom});
  for (size_t i = 0; i < places.size(); ++i) {
    recipe.args.push_back(PointerSlot(places[i], p.fixed_rows > 0 ? 0 : row_bytes[i]));
  }
  recipe.args.push_back({ArgKind::kPlan});
  recipe.args.push_back(
      {p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kSymbolM, 0, 0, p.fixed_rows});
  return recipe;
}

}  // namespace sinter
