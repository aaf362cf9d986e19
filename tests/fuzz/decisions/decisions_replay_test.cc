// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus: decisions of each kind of each chain.
// SINTER_TEST_INTENSITY=<mutations of a file> (1000).
#include "src/base/device_model.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"
#include "tests/fuzz/decisions/judged_chains.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::decisions_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/decisions/corpus";  // the test runs in the root of the tree
constexpr size_t kPlansOfAChain = 3;
constexpr int kMutations = 1000;  // of a file

void WriteCorpus() {
  const DeviceModel model = *BuiltinModel("h200");
  for (size_t i = 0; i < std::size(kJudgedChains); ++i) {
    const Chain chain = ChainOf(kJudgedChains[i]);
    FusionResult result = *PlanChain(chain, kJudgedChains[i].bucket, model, {});
    result.alternatives.insert(result.alternatives.begin(), result.chosen);
    std::map<std::string, Plan> kinds;
    for (Plan& plan : result.alternatives) {
      plan.runners_up.clear();
      plan.note.clear();
      const KernelSpec& first = plan.kernels[0].spec;
      const std::string kind =
          absl::StrCat(plan.kernels.size(),
                       HasProducts(first) ? NameOf(ProductOf(first).schedule.dataflow) : "");
      if (kinds.size() < kPlansOfAChain) kinds.emplace(kind, std::move(plan));
    }
    int number = 0;
    for (const auto& [kind, plan] : kinds) {
      std::ofstream(absl::StrCat(kCorpus, "/chain", i, "-", number++), std::ios::binary)
          << static_cast<char>(i) << EncodeDecisions(DecisionsOf(plan));
    }
  }
}

TEST(DecisionsFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  const DeviceModel model = *BuiltinModel("h200");
  std::mt19937_64 random(5);
  const char* intensity = std::getenv("SINTER_TEST_INTENSITY");
  const int mutations = intensity == nullptr ? kMutations : std::atoi(intensity);
  int files = 0, fit = 0, norms = 0, executions = 0;
  for (const auto& file : std::filesystem::directory_iterator(kCorpus)) {
    const std::string seed = ReadFile(file.path());
    Replay(Target, seed);
    ++files;
    const JudgedChain& of = kJudgedChains[static_cast<uint8_t>(seed[0]) % std::size(kJudgedChains)];
    const Chain chain = ChainOf(of);
    const Decisions decisions = Got(DecodeDecisions(seed.substr(1)), file.path().string());
    const absl::StatusOr<AssembledPlan> made =
        Assembly(chain, of.bucket, model).Assemble(decisions);
    fit += made.ok();
    norms += made.ok() && ProductOf(made->plan.kernels[0].spec).sequence.size() == 1 &&
             ProductOf(made->plan.kernels[0].spec).sequence[0].epilogue.norm.has_value();
    for (int i = 0; i < mutations; ++i, ++executions) Replay(Target, Mutate(seed, &random));
  }
  EXPECT_GE(files, 7);
  EXPECT_GE(fit, 7);  // so that what fits was followed
  EXPECT_GE(norms, 1);
  std::cout << "decisions fuzz: executions " << executions << ", " << fit << " of " << files
            << " files fit, deaths 0\n";
}

}  // namespace
}  // namespace sinter::decisions_fuzz
