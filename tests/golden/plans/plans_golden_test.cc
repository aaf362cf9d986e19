// The chosen plan of every problem list and graph, so that a change of plans is always seen.
// plans.txt holds a line for each problem, layout and bucket; other_chips.txt some of other chips.
#include "src/fusion/fusion.h"
#include "src/reference/rows.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/recipes/recipe_check.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

constexpr char kProblems[] = "tests/bench/problems";
constexpr int64_t kRows[] = {1, 8, 64, 128, 300, 1024, 4096};

// One line of plans.txt to be: what is planned, or why nothing can be.
struct Case {
  std::string name;
  absl::StatusOr<Chain> chain = absl::UnknownError("");
  int64_t bucket = 1;
  std::string line;
  std::string misbinding;  // of any plan that was made
};

std::vector<fs::path> FilesOf(const fs::path& folder, absl::string_view extension) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == std::string(extension)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class CaseList {
 public:
  // The chain at every bucket of kRows, or once when it has no M.
  void Add(const std::string& name, const absl::StatusOr<Chain>& chain) {
    if (!chain.ok() || !chain->UsesM()) {
      AddBucket(name, chain, 1);
      return;
    }
    for (int64_t rows : kRows) {
      AddBucket(absl::StrCat(name, " m=", rows), chain, BucketOf(*chain, rows));
    }
  }

  std::vector<Case> Take() { return std::move(cases_); }

 private:
  // Equal chains of several lists are planned once.
  void AddBucket(const std::string& name, const absl::StatusOr<Chain>& chain, int64_t bucket) {
    if (chain.ok() && !planned_.emplace(chain->CanonicalDigest().Hex(), bucket).second) return;
    cases_.push_back({name, chain, bucket, "", ""});
  }

  std::vector<Case> cases_;
  std::set<std::pair<std::string, int64_t>> planned_;
};

void AddLine(const std::string& list, absl::string_view line, CaseList* cases) {
  const absl::StatusOr<Problem> problem = ParseProblem(line);
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  const std::string name = absl::StrCat(list, " ", words.front());
  if (!problem.ok()) {
    cases->Add(name, problem.status());
    return;
  }
  const std::string text = WriteProblem(*problem);
  if (!absl::StrContains(text, " layout=")) {
    cases->Add(name, problem->chain);
    return;
  }
  for (const char* layout : {"oi", "io"}) {
    const std::string other =
        absl::StrReplaceAll(text, {{" layout=oi", absl::StrCat(" layout=", layout)},
                                   {" layout=io", absl::StrCat(" layout=", layout)}});
    cases->Add(absl::StrCat(name, " ", layout), ParseProblem(other)->chain);
  }
}

std::vector<Case> AllCases() {
  CaseList cases;
  for (const fs::path& list : FilesOf(kProblems, ".txt")) {
    if (list.stem() == "stitch_graphs") continue;  // formulas for people: the graphs are JSON files
    for (const std::string& line : LinesOf(list)) AddLine(list.stem(), line, &cases);
  }
  for (const fs::path& graph : FilesOf(fs::path(kProblems) / "stitch", ".json")) {
    cases.Add(absl::StrCat("graph ", graph.stem().string()), ChainFromJson(FileText(graph)));
  }
  for (int seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    cases.Add(absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed));
  }
  return cases.Take();
}

std::string PlanText(const Plan& plan) {
  return absl::StrFormat(
      "%s, %d kernel%s, %.3f us: %s", plan.name(), plan.kernels.size(),
      plan.kernels.size() == 1 ? "" : "s", plan.PredictedUs(),
      absl::StrJoin(plan.kernels, "; ", [](std::string* text, const PlannedKernel& kernel) {
        absl::StrAppend(text, NameOf(kernel.spec.family), " ", ScheduleText(kernel.spec));
      }));
}

// What the launches of all plans bind, as the chain says it (tests/support/recipes).
std::string FindMisbinding(const NormalForm& form, const FusionResult& planned) {
  std::string wrong = testing::FindMisplacedInput(form);
  if (wrong.empty()) wrong = testing::FindMisbinding(*form.chain, planned.chosen);
  for (const Plan& plan : planned.alternatives) {
    if (wrong.empty()) wrong = testing::FindMisbinding(*form.chain, plan);
  }
  return wrong;
}

std::string ResultText(const DeviceModel& model, Case* one) {
  if (!one->chain.ok()) return absl::StrCat("refused: ", one->chain.status().message());
  const auto form = NormalFormOf(std::make_shared<const Chain>(*one->chain));
  if (!form.ok()) return absl::StrCat("no normal form: ", form.status().message());
  const absl::StatusOr<FusionResult> planned = PlanChain(*(*form)->chain, one->bucket, model, {});
  if (!planned.ok()) return absl::StrCat("refused: ", planned.status().message());
  one->misbinding = FindMisbinding(**form, *planned);
  return PlanText(planned->chosen);
}

TEST(PlansGolden, EveryProblemListAndGraph) {
  const DeviceModel model = *BuiltinModel("h200");
  std::vector<Case> cases = AllCases();
  ASSERT_GT(cases.size(), 500u);
  reference::ForEachIndex(static_cast<int>(cases.size()),
                          [&](int i) { cases[i].line = ResultText(model, &cases[i]); });
  std::string text;
  for (const Case& one : cases) {
    absl::StrAppend(&text, one.name, ": ", one.line, "\n");
    EXPECT_EQ(one.misbinding, "") << one.name;
  }
  testing::ExpectGoldenFile("tests/golden/plans/plans.txt", text);
}

TEST(PlansGolden, ProductsOfChipsWithoutWgmma) {
  std::string text;
  for (const char* chip : {"a100", "rtx-4090"}) {
    const DeviceModel model = *BuiltinModel(chip);
    for (const char* line : {"gated_ffn m=M n=14336 k=4096 l=4096 act=silu",
                             "scaled_matmul m=M n=4096 k=4096 codes=s8 bias1=1 act=gelu_tanh"}) {
      for (const int64_t rows : {8, 64, 512}) {
        Case one{absl::StrCat(chip, " ", line, " m=", rows), ParseProblem(line)->chain, rows};
        absl::StrAppend(&text, one.name, ": ", ResultText(model, &one), "\n");
        EXPECT_EQ(one.misbinding, "") << one.name;
      }
    }
  }
  testing::ExpectGoldenFile("tests/golden/plans/other_chips.txt", text);
}

}  // namespace
}  // namespace sinter
