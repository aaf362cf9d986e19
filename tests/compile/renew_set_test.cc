#include "tests/compile/renew_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/chain/builder.h"
#include "src/engine/measured_choice.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"

namespace sinter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RenewSetTest : public ::testing::Test {
 protected:
  RenewSetTest() {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(256)}});
    const ValueId w = *b.Input({DType::kBF16, {Dim::Constant(128), Dim::Constant(256)}});
    EXPECT_TRUE(b.Output(*b.Cast(*b.Matmul(a, w, false, true), DType::kBF16)).ok());
    chain_ = *b.Finish();
    plan_ = PlanChain(chain_, 64, model_, {})->chosen;
    spec_ = plan_.kernels[0].spec;
    now_ = *Generate(spec_, model_);
    old_ = now_;
    for (auto& [name, bytes] : old_.request.headers) {
      if (name == "tile/product.cuh") bytes += "constexpr int kNobodyReads = 1;\n";
    }
  }

  // One choice whose kernel has `identity`.
  TuningSet SetOf(const Digest& identity) const {
    TuningEntry entry;
    entry.key.chain = chain_.CanonicalDigest();
    entry.key.bucket = plan_.bucket;
    entry.key.chip = ChipDigest(model_);
    entry.kernels = {identity};
    entry.bytes = EncodeDecisions(DecisionsOf(plan_));
    TuningSet set;
    set.Add(entry);
    return set;
  }

  RenewedSet Renew(const Digest& identity, const MachineCodeOf& code) const {
    return RenewSet(
        SetOf(identity), model_, [this](const Digest&) { return &chain_; }, old_.request.headers,
        code);
  }

  static absl::StatusOr<std::string> SameCode(const CompileRequest&) { return std::string("code"); }
  static absl::StatusOr<std::string> HeadersAreCode(const CompileRequest& request) {
    std::string code;
    for (const auto& [name, bytes] : request.headers) code += bytes;
    return code;
  }

  const DeviceModel model_ = *BuiltinModel("h200");
  Chain chain_;
  Plan plan_;
  KernelSpec spec_;
  GeneratedKernel now_, old_;
};

TEST_F(RenewSetTest, TakesWhatHasTheSameMachineCode) {
  const Digest measured = KernelIdentity(spec_, old_), now = KernelIdentity(spec_, now_);
  ASSERT_NE(measured, now);
  const RenewedSet renewed = Renew(measured, SameCode);
  EXPECT_EQ(renewed.set.ToText(), SetOf(now).ToText());
  EXPECT_TRUE(renewed.left_out.empty());
}

TEST_F(RenewSetTest, LeavesOutWhatHasOtherMachineCode) {
  const RenewedSet renewed = Renew(KernelIdentity(spec_, old_), HeadersAreCode);
  EXPECT_TRUE(renewed.set.entries().empty());
  EXPECT_THAT(renewed.left_out, ElementsAre(HasSubstr("kernel 0 has other machine code")));
}

TEST_F(RenewSetTest, LeavesOutWhatWasAnotherKernelBefore) {
  const RenewedSet renewed = Renew(Sha256("another"), SameCode);
  EXPECT_TRUE(renewed.set.entries().empty());
  EXPECT_THAT(renewed.left_out, ElementsAre(HasSubstr("is not as measured under the old headers")));
}

TEST_F(RenewSetTest, KeepsWhatStillServes) {
  const Digest now = KernelIdentity(spec_, now_);
  EXPECT_EQ(Renew(now, HeadersAreCode).set.ToText(), SetOf(now).ToText());
}

}  // namespace
}  // namespace sinter
