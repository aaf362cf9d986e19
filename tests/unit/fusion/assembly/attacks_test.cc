#include "tests/unit/fusion/assembly/bound_addresses.h"
#include "tests/unit/fusion/assembly/decision_mutator.h"
#include "tests/unit/fusion/assembly/sample.h"
#include "tests/unit/fusion/fusion_tests.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

// Decisions that lie, each in one way. Every field that is not changed is what planning made.

constexpr char kChainLine[] = "gemm_chain m=64 n=512 k=256 l=128 act=relu layout=oi dtype=bf16";
constexpr int64_t kBucket = 64;

Chain ProductChain() { return ParseProblem(kChainLine)->chain; }

// Normalised rows between two chains of products: kernels of both families.
Chain MixedChain() {
  return ReadChain(
      "x: bf16[M,256]; w: const bf16[256,256]; first = bf16(x @ w.T); wide = f32(first); "
      "centred = wide - spread(mean(wide, 1, keep), wide); rows = bf16(centred); "
      "out bf16(rows @ w.T)");
}

// The decisions of the first plan for which `is` holds.
Decisions DecisionsWith(const Chain& chain, const std::function<bool(const Plan&)>& is) {
  for (const Plan& plan : testing::PlansOf(chain, kBucket, true)) {
    if (is(plan)) return DecisionsOf(plan);
  }
  ADD_FAILURE() << "no such plan";
  return Decisions();
}
Decisions Unfused(const Chain& chain) {
  return DecisionsWith(chain, [](const Plan& plan) { return !plan.fused; });
}

// Why the decisions are refused once `change` is made; they are taken before.
std::string WhyNot(const Chain& chain, Decisions decisions,
                   const std::function<void(Decisions&)>& change,
                   const AssemblyRequest& request = {}) {
  const DeviceModel model = H200();
  Assembly assembly(chain, kBucket, model, request);
  const absl::Status sound = assembly.Assemble(decisions).status();
  EXPECT_TRUE(sound.ok() || !request.allow_cooperative) << sound;
  change(decisions);
  const absl::Status status = assembly.Assemble(decisions).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(AssemblyAttacks, AnotherBucketAndOtherWishes) {
  const Chain chain = ProductChain();
  EXPECT_THAT(WhyNot(chain, Unfused(chain), [](Decisions& d) { d.bucket = 128; }),
              HasSubstr("it is for bucket 128, asked for is 64"));
  EXPECT_THAT(WhyNot(chain, Unfused(chain), [](Decisions& d) { d.batch_invariant = true; }),
              HasSubstr("batch_invariant 1, asked for is 0"));
  AssemblyRequest apart{.allow_cooperative = false};
  const Chain large =
      ParseProblem("gemm_chain m=64 n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16")->chain;
  const Decisions waiting = DecisionsWith(large, [](const Plan& plan) {
    return IsCooperative(ProductOf(plan.kernels[0].spec).schedule);
  });
  EXPECT_THAT(WhyNot(
                  large, waiting, [](Decisions&) {}, apart),
              HasSubstr("waits across blocks"));
}

TEST(AssemblyAttacks, KernelsInAnotherOrderTwiceOrNotAtAll) {
  const Chain chain = ProductChain();
  const Decisions sound = Unfused(chain);
  ASSERT_EQ(sound.kernels.size(), 2u);
  EXPECT_THAT(WhyNot(chain, sound, [](Decisions& d) { std::swap(d.kernels[0], d.kernels[1]); }),
              HasSubstr("product 1 of a run is not the next one"));
  EXPECT_THAT(WhyNot(chain, sound, [](Decisions& d) { d.kernels.pop_back(); }),
              HasSubstr("has no kernel after the one before it"));
  EXPECT_THAT(WhyNot(chain, sound, [](Decisions& d) { d.kernels.push_back(d.kernels[1]); }),
              HasSubstr("is not the next one"));
  EXPECT_THAT(WhyNot(chain, sound, [](Decisions& d) { d.kernels.clear(); }),
              HasSubstr("0 kernels for"));

  const Chain mixed = MixedChain();
  const Decisions kernels = Unfused(mixed);
  const size_t last = kernels.kernels.size() - 1;
  ASSERT_GT(last, 1u);
  EXPECT_THAT(
      WhyNot(mixed, kernels, [&](Decisions& d) { std::swap(d.kernels[0], d.kernels[last]); }),
      HasSubstr("comes before op"));
  EXPECT_THAT(WhyNot(mixed, kernels, [](Decisions& d) { d.kernels.erase(d.kernels.begin() + 1); }),
              AnyOf(HasSubstr("comes before op"), HasSubstr("no kernel computes op")));
  EXPECT_THAT(WhyNot(mixed, kernels, [](Decisions& d) { d.kernels.push_back(d.kernels[1]); }),
              HasSubstr("is computed twice"));
}

TEST(AssemblyAttacks, OpsThatAreNoKernels) {
  const Chain mixed = MixedChain();
  const Decisions sound = Unfused(mixed);
  const auto stitched = static_cast<size_t>(
      std::find_if(sound.kernels.begin(), sound.kernels.end(),
                   [](const KernelDecision& kernel) { return kernel.products == 0; }) -
      sound.kernels.begin());
  ASSERT_LT(stitched, sound.kernels.size());
  EXPECT_THAT(WhyNot(mixed, sound, [&](Decisions& d) { d.kernels[stitched].ops.values = {0}; }),
              HasSubstr("op 0 is no op that a kernel is made of"));
  EXPECT_THAT(
      WhyNot(mixed, sound, [&](Decisions& d) { d.kernels[stitched].ops.values = {1 << 30}; }),
      HasSubstr("is no op that a kernel is made of"));
  EXPECT_THAT(
      WhyNot(mixed, sound,
             [&](Decisions& d) { d.kernels[stitched].ops.values = d.kernels[0].ops.values; }),
      HasSubstr("is of a run of products"));
  EXPECT_THAT(WhyNot(mixed, sound, [](Decisions& d) { d.kernels[0].ops.values = {0}; }),
              HasSubstr("op 0 is not a result of a run of products"));
  EXPECT_THAT(WhyNot(mixed, sound, [](Decisions& d) { d.kernels[0].ops.first = 1; }),
              HasSubstr("product 1 of a run of 1"));
}

TEST(AssemblyAttacks, SchedulesOfOthersAndMoreThanTheChipHas) {
  const Chain chain = ProductChain();
  const Decisions sound = Unfused(chain);
  EXPECT_THAT(WhyNot(chain, sound, [](Decisions& d) { d.kernels[0].schedule.stages = 60; }),
              HasSubstr("stages 60 is not in"));
  EXPECT_THAT(
      WhyNot(chain, sound,
             [](Decisions& d) { d.kernels[0].schedule.dataflow = Dataflow::kGridExchange; }),
      HasSubstr("kernel 0: "));
  const Chain rows = ParseProblem("softmax rows=M cols=1024")->chain;
  const Decisions softmax = DecisionsWith(rows, [](const Plan&) { return true; });
  EXPECT_THAT(WhyNot(rows, softmax, [](Decisions& d) { d.kernels[0].stitch.owner = 0; }),
              HasSubstr("kernel 0: "));
  EXPECT_THAT(WhyNot(rows, softmax, [](Decisions& d) { d.kernels[0].stitch.grid = 1 << 20; }),
              HasSubstr("grid"));
}

// Whatever a record says: a plan that is assembled computes the chain and touches nothing but its
// buffers.

constexpr int kMutations = 100000;
constexpr size_t kPlansOfAChain = 12;

// A chain at a bucket, and well-formed plans of it, few of each kind.
struct Subject {
  testing::NamedChain of;
  int64_t bucket = 1;
  std::vector<Plan> plans;
  std::vector<Decisions> decisions;  // of the plans
  std::unique_ptr<Assembly> assembly;
};

std::string KindOf(const Plan& plan) {
  std::string kind;
  for (const PlannedKernel& kernel : plan.kernels) {
    const StitchSpec* stitch = StitchOf(kernel.spec);
    if (stitch == nullptr) {
      const Schedule& s = ProductOf(kernel.spec).schedule;
      absl::StrAppend(&kind, NameOf(s.dataflow), s.first.split_k > 1, s.swapped, ";");
    } else {
      absl::StrAppend(&kind, "stitch", stitch->parts.size(), stitch->schedule.cluster > 1,
                      stitch->scratch_offset > 0, ";");
    }
  }
  return kind;
}

class AssemblyMutations : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const testing::NamedChain& of : testing::ChainsOfEveryKind()) {
      for (const int64_t bucket : {1, 64, 300}) {
        if (bucket > 1 && !of.chain.UsesM()) break;
        Add(of, BucketOf(of.chain, bucket));
      }
    }
  }

  static void TearDownTestSuite() { subjects_.clear(); }

  static void Add(const testing::NamedChain& of, int64_t bucket) {
    auto subject = std::make_unique<Subject>();
    subject->of = of;
    subject->bucket = bucket;
    std::map<std::string, int> kinds;
    for (Plan& plan : testing::PlansOf(of.chain, bucket, true)) {
      if (++kinds[KindOf(plan)] > 2 || subject->plans.size() == kPlansOfAChain) continue;
      plan.runners_up.clear();
      subject->decisions.push_back(DecisionsOf(plan));
      subject->plans.push_back(std::move(plan));
    }
    ASSERT_FALSE(subject->plans.empty()) << of.name;
    subject->assembly = std::make_unique<Assembly>(subject->of.chain, bucket, model_);
    subjects_.push_back(std::move(subject));
  }

  static const DeviceModel model_;
  static std::vector<std::unique_ptr<Subject>> subjects_;
};

const DeviceModel AssemblyMutations::model_ = H200();
std::vector<std::unique_ptr<Subject>> AssemblyMutations::subjects_;

TEST_F(AssemblyMutations, WhatPlanningMakesStaysInside) {
  for (const auto& subject : subjects_) {
    for (const Plan& plan : subject->plans) {
      EXPECT_EQ(testing::FindEscape(subject->of.chain, plan, model_), "") << subject->of.name;
    }
  }
}

TEST_F(AssemblyMutations, AHundredThousandOfThemAreRefusedOrComputeTheChain) {
  std::mt19937_64 random(20240607);
  int decoded = 0, accepted = 0, changed = 0, computed = 0;
  for (int i = 0; i < kMutations; ++i) {
    const Subject& subject = *subjects_[random() % subjects_.size()];
    const size_t at = random() % subject.plans.size();
    const std::string bytes =
        random() % 4 > 0 ? testing::MutateFields(subject.decisions[at], subject.decisions, &random)
                         : testing::MutateBytes(EncodeDecisions(subject.decisions[at]), &random);
    const absl::StatusOr<Decisions> decisions = DecodeDecisions(bytes);
    if (!decisions.ok()) continue;
    ++decoded;
    const absl::StatusOr<AssembledPlan> assembled = subject.assembly->Assemble(*decisions);
    if (!assembled.ok()) continue;
    ++accepted;
    const Plan& plan = assembled->plan;
    const Chain& chain = subject.of.chain;
    if (plan.PlanDigest() == subject.plans[at].PlanDigest()) continue;
    const std::string where =
        absl::StrCat(subject.of.name, " at ", subject.bucket, ", mutation ", i);
    ASSERT_EQ(testing::FindEscape(chain, plan, model_), "") << where << "\n" << plan.ToText();
    if (++changed % 16 != 0) continue;
    ++computed;
    const int64_t m = chain.UsesM() ? std::min<int64_t>(subject.bucket, 3) : 1;
    ASSERT_LT(testing::WorstError(chain, plan, m, 1), 0.05) << where << "\n" << plan.ToText();
  }
  std::cout << kMutations << " mutations of decisions: " << decoded << " decode, " << accepted
            << " are assembled, " << changed
            << " of them run something else than before; outside: 0; " << computed
            << " of those computed on the CPU, wrong: 0\n";
  EXPECT_GT(changed, 1000);
}

// Plans as planning makes them are made again from their decisions, kernel by kernel the same.

using testing::NamedChain;

std::vector<int64_t> Buckets() {
  if (testing::IsLongRun()) return {1, 8, 64, 128, 640, 4096, 8192};
  return {1, 128};
}

// Makes every plan of the chain again from its decisions; returns how many there are.
size_t ExpectMadeAgain(const NamedChain& of, int64_t bucket, bool for_tuning) {
  const std::vector<Plan> plans = testing::PlansOf(of.chain, bucket, for_tuning);
  const DeviceModel model = H200();
  Assembly assembly(of.chain, bucket, model);
  int told = 0;
  for (const Plan& plan : plans) {
    const absl::StatusOr<Plan> again = testing::Reassembled(plan, &assembly);
    const bool same = again.ok() && again->PlanDigest() == plan.PlanDigest() &&
                      again->fused == plan.fused && again->note == plan.note &&
                      again->PredictedUs() == plan.PredictedUs();
    if (same || told++ > 0) continue;
    ADD_FAILURE() << of.name << " at " << bucket << ": " << again.status() << "\n"
                  << plan.ToText() << (again.ok() ? again->ToText() : "");
  }
  return plans.size();
}

TEST(AssemblyAccepts, EveryListedProblemAndGraph) {
  size_t plans = 0;
  for (const NamedChain& of : testing::SampleOf(testing::ListedChains())) {
    for (const int64_t bucket : Buckets()) {
      plans += ExpectMadeAgain(of, of.chain.UsesM() ? BucketOf(of.chain, bucket) : 1,
                               testing::IsLongRun());
      if (!of.chain.UsesM()) break;
    }
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of listed chains\n";
}

// The quantiser of groups is in the first product's kernel, or stitched: its scales too are written
// before they are read, inside the workspace.
TEST(AssemblyAccepts, FfnsOfCodesWithTheirQuantiserApartAndNot) {
  const Chain chain = ParseProblem(
                          "scaled_gated_ffn m=M n=256 k=256 l=256 act=silu scales=group "
                          "quantize=group")
                          ->chain;
  const DeviceModel model = H200();
  for (const int64_t bucket : {1, 64, 320}) {
    Assembly assembly(chain, bucket, model);
    std::set<size_t> kernels;
    for (const Plan& plan : testing::PlansOf(chain, bucket, true)) {
      EXPECT_EQ(testing::Reassembled(plan, &assembly)->PlanDigest(), plan.PlanDigest());
      EXPECT_EQ(testing::FindEscape(chain, plan, H200()), "") << plan.ToText();
      kernels.insert(plan.kernels.size());
    }
    EXPECT_EQ(kernels, (std::set<size_t>{2, 3})) << bucket;
  }
}

TEST(AssemblyAccepts, RandomGraphs) {
  std::vector<NamedChain> graphs;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    graphs.push_back({absl::StrCat("seed ", seed), testing::MakeRandomStitchGraph(seed)});
  }
  size_t plans = 0;
  for (const NamedChain& of : testing::SampleOf(std::move(graphs))) {
    plans += ExpectMadeAgain(of, 1, false);
    if (of.chain.UsesM()) plans += ExpectMadeAgain(of, 128, false);
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of random graphs\n";
}

TEST(AssemblyAccepts, ChainsOfEveryKind) {
  size_t plans = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    for (const int64_t bucket : {1, 48, 300, 2000}) {
      if (of.chain.UsesM() || bucket == 1)
        plans += ExpectMadeAgain(of, BucketOf(of.chain, bucket), testing::IsLongRun());
    }
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of chains of every kind\n";
}

}  // namespace
}  // namespace sinter
