#include "src/collective/all_reduce_source.h"

#include "absl/strings/str_cat.h"
#include "src/base/format.h"

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

}  // namespace

std::string AllReduceSource(const AllReduceProblem& p, const AllReduceSchedule& s) {
  std::string text = absl::StrCat("// ", p.ToString(), "\n#include \"", kAllReduceHeader,
                                  "\"\n\nnamespace sinter {\n\nstruct Config {\n");
  absl::StrAppend(&text, "  using Element = ", DeviceType(p.element),
                  ";\n  using Result = ", DeviceType(p.result), ";\n");
  absl::StrAppend(&text, "  static constexpr int kRanks = ", p.ranks, ", kThreads = ", s.threads,
                  ", kColumns = ", p.columns, ", kAhead = ", kAhead, ";\n");
  absl::StrAppend(&text, "  static constexpr bool kRounded = ", Word(p.rounded),
                  ", kResidual = ", Word(p.residual), ", kNorm = ", Word(p.norm),
                  ", kTwoShot = ", Word(s.two_shot), ";\n");
  if (p.norm) absl::StrAppend(&text, "  static constexpr float kEps = ", HexFloat(p.eps), ";\n");
  text += "};\n\n";
  absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", s.threads, ", ",
                  AllReduceResidents(p, s.threads), ")\n", kAllReduceEntry,
                  "(GroupControl* group, const void* x, ",
                  p.residual ? "const void* residual, " : "",
                  p.norm ? "const void* gamma, void* normed, " : "", p.keeps ? "void* out, " : "",
                  "u64 plan, int rows) {\n", "  all_reduce<Config>({group, x, ",
                  p.residual ? "residual" : "nullptr", ", ", p.norm ? "gamma" : "nullptr", ", ",
                  p.keeps ? "out" : "nullptr", ", ", p.norm ? "normed" : "nullptr",
                  ", rows, plan});\n}\n\n}  // namespace sinter\n");
  return text;
}

absl::StatusOr<LaunchRecipe> AllReduceRecipe(const AllReduceProblem& p, const AllReduceSchedule& s,
                                             const std::vector<BufferPlace>& places) {
  const int64_t x = p.columns * SizeOf(p.element), out = p.columns * SizeOf(p.result);
  std::vector<int64_t> row_bytes = {x};
  if (p.residual) row_bytes.push_back(out);
  if (p.norm) row_bytes.insert(row_bytes.end(), {0, out});  // gamma has no rows
  if (p.keeps) row_bytes.push_back(out);
  if (places.size() != row_bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("all_reduce: ", places.size(), " operands, it has ", row_bytes.size()));
  }
  LaunchRecipe recipe;
  recipe.entry = kAllReduceEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.threads), 1, 1};
  recipe.pdl = true;
  ArgSlot room, plan, rows;
  room.kind = ArgKind::kRoom;
  recipe.args.push_back(room);
  for (size_t i = 0; i < places.size(); ++i) {
    ArgSlot pointer;
    pointer.kind = ArgKind::kPointer;
    pointer.index = places[i].buffer;
    pointer.offset_bytes = places[i].offset_bytes;
    // A looped launch advances the caller's buffers; the workspace is reused.
    if (places[i].buffer != kWorkspaceBuffer && p.fixed_rows == 0) pointer.int_value = row_bytes[i];
    recipe.args.push_back(pointer);
  }
  plan.kind = ArgKind::kPlan;
  recipe.args.push_back(plan);
  rows.kind = p.fixed_rows > 0 ? ArgKind::kInt32 : ArgKind::kSymbolM;
  rows.int_value = p.fixed_rows;
  recipe.args.push_back(rows);
  return recipe;
}

}  // namespace sinter
