#include "tests/compile/renew_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/engine/kernel_identity.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RenewSetTest : public ::testing::Test {
 protected:
  RenewSetTest() {
    spec_ = SampleSpec(SampleG7(), Dataflow::kProduct);
    now_ = *Generate(spec_, model_);
    old_ = now_;
    for (auto& [name, bytes] : old_.request.headers) {
      if (name == "tile/product.cuh") bytes += "constexpr int kNobodyReads = 1;\n";
    }
  }

  // One choice whose kernel has `identity`.
  TuningSet SetOf(const Digest& identity) const {
    Plan plan;
    plan.bucket = spec_.sequence.rows();
    plan.kernels.emplace_back().spec = spec_;
    TuningEntry entry;
    entry.key.chain = Sha256("chain");
    entry.key.bucket = plan.bucket;
    entry.key.chip = ChipDigest(model_);
    entry.kernels = {identity};
    entry.bytes = plan.Encode();
    TuningSet set;
    set.Add(entry);
    return set;
  }

  RenewedSet Renew(const Digest& identity, const MachineCodeOf& code) const {
    return RenewSet(SetOf(identity), model_, old_.request.headers, code);
  }

  static absl::StatusOr<std::string> SameCode(const CompileRequest&) { return std::string("code"); }
  static absl::StatusOr<std::string> HeadersAreCode(const CompileRequest& request) {
    std::string code;
    for (const auto& [name, bytes] : request.headers) code += bytes;
    return code;
  }

  const DeviceModel model_ = *BuiltinModel("h200");
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
