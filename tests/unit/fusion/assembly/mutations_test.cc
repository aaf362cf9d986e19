// Whatever a record says: a plan that is assembled computes the chain and touches nothing but its
// buffers.
#include "tests/unit/fusion/assembly/bound_addresses.h"
#include "tests/unit/fusion/assembly/chains.h"
#include "tests/unit/fusion/assembly/decision_mutator.h"
#include "tests/unit/fusion/fusion_tests.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

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
      absl::StrAppend(&kind, "stitch", stitch->parts.size(), stitch->schedule.LaunchCluster() > 1,
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

}  // namespace
}  // namespace sinter
