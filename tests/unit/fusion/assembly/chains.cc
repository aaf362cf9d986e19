#include "tests/unit/fusion/assembly/chains.h"

#include "tests/support/files.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/read_ffn.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter::testing {
namespace {

constexpr char kProblems[] = "tests/bench/problems";

// The line, and the same with its weights stored the other way.
void AddLine(absl::string_view line, std::vector<NamedChain>* list) {
  const absl::StatusOr<Problem> problem = ParseProblem(line);
  if (!problem.ok()) return;
  list->push_back({absl::StrCat(problem->id, " ", problem->kind), problem->chain});
  const bool oi = absl::StrContains(line, "layout=oi");
  const absl::StatusOr<Problem> other = ParseProblem(absl::StrReplaceAll(
      line, {{oi ? "layout=oi" : "layout=io", oi ? "layout=io" : "layout=oi"}}));
  if (!other.ok() || other->chain == problem->chain) return;
  list->push_back({absl::StrCat(other->id, " ", other->kind, " turned"), other->chain});
}

// rmsnorm, gated FFN, residual. The result takes the place of x, or not. Folded: the norm has no
// weight and is not rounded.
Chain Layer(const char* rows, bool in_place, bool folded = false) {
  return ReadChain(
      "x: bf16[$0,128]; $1; gate, up: const bf16[256,128]; down: const bf16[128,256];"
      "c = linear(a, gate, none, silu) * linear(a, up, none);"
      "out bf16(linear(c, down, none) + f32(x)) $2",
      rows,
      folded ? "a = rmsnorm(x, 1e-6)"
             : "gamma: const bf16[128]; a = bf16(rmsnorm(x, 1e-6, f32(gamma)))",
      in_place ? "over x" : "");
}

// Two products with factors of their rows and a scale; then their result's softmax.
Chain Scaled(bool softmax) {
  return ReadChain(
      "x: f16[M,128]; factor: f32[M,1]; w1: const f16[192,128]; b1: const f16[192];"
      "w2: const f16[64,192]; y = x @ w1.T; y = y * spread(factor, y);"
      "y = y + spread(f32(b1), y); c = f16(relu(y)); e = (c @ w2.T) * 0.125; out f16($0)",
      softmax ? "softmax(e, 1)" : "e");
}

}  // namespace

std::vector<NamedChain> ListedChains() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kProblems)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<NamedChain> list;
  for (const std::filesystem::path& file : files) {
    const std::string text = FileText(file);
    if (file.extension() == ".json") {
      absl::StatusOr<Chain> chain = ChainFromJson(text);
      if (chain.ok()) list.push_back({file.stem().string(), *std::move(chain)});
      continue;
    }
    for (const absl::string_view line : absl::StrSplit(text, '\n')) AddLine(line, &list);
  }
  return list;
}

std::vector<NamedChain> ChainsOfEveryKind() {
  std::vector<NamedChain> list = {
      {"layer", Layer("M", false)},
      {"layer in place", Layer("M", true)},
      {"layer of 48 rows", Layer("48", false)},
      {"layer with its norm in the matrices", Layer("M", false, true)},
      {"layer in place with its norm in the matrices", Layer("M", true, true)},
      {"scaled", Scaled(false)},
      {"scaled softmax", Scaled(true)},
      {"adam", AdamOver({300, 77})},
      {"glue", TransformerGlue(1, 32, 64)},
      {"pooled attention", GraphOf("pooled_attention(2, 24, 32)")},
      {"pooled attention by a product", GraphOf("pooled_product(2, 24, 32)")},
      {"norm and rope", GraphOf("norm_rope(M, 4, 2, 16)")},
      {"batch norm", GraphOf("batch_norm(M, 64, x)")},
      {"norm of everything", GraphOf("whole_norm(M, 64)")},
      {"batch norm of 96 rows", GraphOf("batch_norm(96, 64, x)")},
      {"packed rows", IndependentRows({{0, 96}, {40, 256}}, 5000)},
      {"packed updates", IndependentUpdates({1000, 64, 4096})},
  };
  for (const std::string& line : LinesOf("tests/unit/fusion/assembly/lines.txt")) {
    AddLine(line, &list);
  }
  list.push_back({"scales of columns",
                  *MakeFfnChain(ReadFfn("gated n128 k128 l64 silu bias1 scale_w1 scale_w2"))});
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    list.push_back(
        {absl::StrCat("random ", seed), MakeRandomStitchGraph(seed, {.max_elements = 1 << 10})});
  }
  return list;
}

std::vector<Plan> PlansOf(const Chain& chain, int64_t bucket, bool for_tuning) {
  const absl::StatusOr<FusionResult> result =
      PlanChain(chain, bucket, H200(), {.for_tuning = for_tuning});
  if (!result.ok()) return {};
  std::vector<Plan> plans = {result->chosen};
  plans.insert(plans.end(), result->alternatives.begin(), result->alternatives.end());
  return plans;
}

}  // namespace sinter::testing
