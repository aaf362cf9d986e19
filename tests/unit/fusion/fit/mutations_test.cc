// Whatever a record says: a plan that fits touches nothing but its buffers.
#include <algorithm>
#include <iostream>
#include <map>

#include "gtest/gtest.h"
#include "src/chain/buckets.h"
#include "src/fusion/fit/plan_fit.h"
#include "tests/unit/fusion/fit/bound_addresses.h"
#include "tests/unit/fusion/fit/chains.h"
#include "tests/unit/fusion/fit/plan_mutator.h"
#include "tests/unit/fusion/stitch/graphs.h"
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
  std::vector<std::string> bytes;
  std::unique_ptr<PlanFit> fit;
};

std::string KindOf(const Plan& plan) {
  std::string kind;
  for (const PlannedKernel& kernel : plan.kernels) {
    const StitchSpec* stitch = kernel.spec.stitch.get();
    if (stitch == nullptr) {
      const Schedule& s = kernel.spec.schedule;
      absl::StrAppend(&kind, NameOf(s.dataflow), s.first.split_k > 1, s.swapped, ";");
    } else {
      absl::StrAppend(&kind, "stitch", stitch->parts.size(), stitch->schedule.LaunchCluster() > 1,
                      stitch->scratch_offset > 0, ";");
    }
  }
  return kind;
}

class PlanFitMutations : public ::testing::Test {
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
      subject->bytes.push_back(plan.Encode());
      subject->plans.push_back(std::move(plan));
    }
    ASSERT_FALSE(subject->plans.empty()) << of.name;
    subject->fit = std::make_unique<PlanFit>(subject->of.chain, bucket, model_);
    subjects_.push_back(std::move(subject));
  }

  static const DeviceModel model_;
  static std::vector<std::unique_ptr<Subject>> subjects_;
};

const DeviceModel PlanFitMutations::model_ = testing::H200();
std::vector<std::unique_ptr<Subject>> PlanFitMutations::subjects_;

TEST_F(PlanFitMutations, WhatPlanningMakesFitsAndStaysInside) {
  for (const auto& subject : subjects_) {
    for (const Plan& plan : subject->plans) {
      EXPECT_TRUE(subject->fit->Check(plan).ok())
          << subject->of.name << ": " << subject->fit->Check(plan);
      EXPECT_EQ(testing::FindEscape(subject->of.chain, plan, model_), "") << subject->of.name;
    }
  }
}

TEST_F(PlanFitMutations, AHundredThousandOfThemAreRefusedOrStayInside) {
  std::mt19937_64 random(20240607);
  int decoded = 0, accepted = 0, changed = 0, computed = 0, seen = 0;
  for (int i = 0; i < kMutations; ++i) {
    const Subject& subject = *subjects_[random() % subjects_.size()];
    const size_t at = random() % subject.plans.size();
    const std::string bytes = random() % 4 > 0
                                  ? testing::MutateFields(subject.plans[at], subject.plans, &random)
                                  : testing::MutateBytes(subject.bytes[at], &random);
    const absl::StatusOr<Plan> plan = Plan::Decode(bytes);
    if (!plan.ok()) continue;
    const Chain& chain = subject.of.chain;
    const bool fits = subject.fit->Check(*plan).ok();
    if (!fits && ++decoded % 16 == 0) seen += !testing::FindEscape(chain, *plan, model_).empty();
    if (!fits) continue;
    ++accepted;
    if (plan->PlanDigest() == subject.plans[at].PlanDigest()) continue;
    const std::string where =
        absl::StrCat(subject.of.name, " at ", subject.bucket, ", mutation ", i);
    ASSERT_EQ(testing::FindEscape(chain, *plan, model_), "") << where << "\n" << plan->ToText();
    if (++changed % 16 != 0) continue;
    ++computed;
    const int64_t m = chain.UsesM() ? std::min<int64_t>(subject.bucket, 3) : 1;
    ASSERT_LT(testing::WorstError(chain, *plan, m, 1), 0.05) << where << "\n" << plan->ToText();
  }
  std::cout << kMutations << " mutations of plans: " << decoded + accepted << " decode, "
            << accepted << " fit, " << changed
            << " of them run something else than before; outside: 0; " << computed
            << " of those computed on the CPU, wrong: 0\n";
  EXPECT_GT(changed, 1000);
  // The interpreter sees what it is to see: of what was refused, a good part leaves its buffers.
  EXPECT_GT(seen, decoded / 16 / 5);
}

}  // namespace
}  // namespace sinter
