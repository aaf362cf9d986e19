// Chains as frameworks give them, and in how many kernels they plan.
#include "src/normal/normal_form.h"
#include "tests/support/files.h"
#include "tests/support/read_chain.h"
#include "tests/support/rough_chain.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"

namespace sinter {
namespace {

std::shared_ptr<const Chain> Read(const std::string& name) {
  const std::string text = FileText(absl::StrCat("tests/unit/normal/chains/", name, ".json"));
  return std::make_shared<const Chain>(Got(ChainFromJson(text), name));
}

absl::StatusOr<FusionResult> PlanAt(const Chain& chain, int64_t m) {
  return PlanChain(chain, BucketOf(chain, m), *BuiltinModel("h200"), {});
}

TEST(NormalPlans, OfChainsAsFrameworksGiveThem) {
  for (const std::string& line : LinesOf("tests/unit/normal/plans.txt")) {
    std::istringstream words(line);
    std::string name, verdict;
    int64_t m = 0;
    int most = 0;
    ASSERT_TRUE(words >> name >> m >> most >> verdict) << line;
    const auto chain = Read(name);
    const auto form = Got(NormalFormOf(chain), name);
    const absl::StatusOr<FusionResult> planned = PlanAt(*form->chain, m);
    if (!planned.ok()) {
      ADD_FAILURE() << name << ": " << planned.status() << "\n" << form->chain->ToString();
      continue;
    }
    EXPECT_LE(static_cast<int>(planned->chosen.kernels.size()), most)
        << name << "\n"
        << planned->chosen.ToText() << form->chain->ToString();
    const absl::StatusOr<FusionResult> plain = PlanAt(*chain, m);
    EXPECT_EQ(!plain.ok(), verdict == "refused") << name;
    if (plain.ok()) {
      EXPECT_LE(planned->chosen.PredictedUs(), plain->chosen.PredictedUs() * 1.0001) << name;
    }
  }
}

// x W' of x[M, k] and W[n, k], with rows so many elements apart.
Chain OfProduct(int64_t k, int64_t n, int64_t x_stride, int64_t w_stride, bool transpose_b) {
  return ReadChain(
      "x: bf16[M,$0] strides($1, 1); w: const bf16[$2,$3] strides($4, 1); out bf16(x @ w$5)", k,
      x_stride, transpose_b ? n : k, transpose_b ? k : n, w_stride, transpose_b ? ".T" : "");
}

// What a tensor map cannot say is copied by a kernel, which the plan notes and predicts.
TEST(NormalPlans, OfAnyExtentsAndStridesCopyWhatNoTensorMapSays) {
  const auto expect = [](Chain made, size_t most, bool copied) {
    const auto chain = std::make_shared<const Chain>(std::move(made));
    SCOPED_TRACE(chain->ToString());
    const auto form = Got(NormalFormOf(chain));
    const FusionResult planned = Got(PlanAt(*form->chain, 32));
    const std::vector<PlannedKernel>& kernels = planned.chosen.kernels;
    EXPECT_LE(kernels.size(), most) << planned.chosen.ToText();
    const std::string notes = absl::StrJoin(form->notes, "; ");
    EXPECT_EQ(absl::StrContains(notes, "copied"), copied && kernels.size() > 1) << notes;
    for (const PlannedKernel& kernel : kernels) EXPECT_GT(kernel.prediction.total_us, 0.5);
  };
  for (const bool oi : {true, false}) {
    for (const int64_t k : {1, 2, 3, 9, 30, 36, 44, 60, 769}) {
      expect(OfProduct(k, 128, k, oi ? k : 128, oi), 2, true);
    }
    // Results may have any number of columns; so may weights whose rows lie along K.
    for (const int64_t n : {1, 2, 3, 30, 36, 769}) {
      expect(OfProduct(64, n, 64, oi ? 64 : n, oi), oi ? 1 : 2, !oi);
    }
  }
  for (const int64_t stride : {65, 66, 68, 70, 72}) {
    const bool odd = stride % 8 != 0;
    expect(OfProduct(64, 128, stride, 64, true), odd ? 2 : 1, odd);
    expect(OfProduct(64, 128, 64, stride, true), odd ? 2 : 1, odd);
  }
}

// Few long rows: the form is never predicted slower, and much faster where they are fewest.
TEST(NormalPlans, OfLongRowsKeepAllSmsBusy) {
  struct LongRows {
    int64_t rows, length;
    double most;  // of the time of one reduction
  };
  for (const LongRows& at :
       {LongRows{1, 1 << 20, 0.7}, LongRows{4, 1 << 20, 0.7}, LongRows{4, 1 << 16, 0.8},
        LongRows{2, 1 << 22, 0.5}, LongRows{8, 100000, 1}, LongRows{16, 1 << 16, 1}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto chain = std::make_shared<const Chain>(
          ReadChain("x: $0[$1,$2]; out sum(square(f32(x)), 1)", NameOf(dtype), at.rows, at.length));
      const absl::StatusOr<FusionResult> whole = PlanAt(*chain, 1);
      const absl::StatusOr<FusionResult> parts = PlanAt(*(*NormalFormOf(chain))->chain, 1);
      ASSERT_TRUE(whole.ok() && parts.ok()) << whole.status() << parts.status();
      EXPECT_LE(parts->chosen.PredictedUs(), whole->chosen.PredictedUs() * at.most)
          << NameOf(dtype) << " [" << at.rows << "," << at.length << "]";
      EXPECT_EQ(parts->chosen.kernels.size(), 2u);
    }
  }
}

// Softplus by a logarithm, as the only op and after a GEMM: finite
// beyond 88, and at most 4 % slower.
TEST(NormalPlans, OfSoftplusCostLittle) {
  for (const bool product : {false, true}) {
    const auto chain = std::make_shared<const Chain>(
        ReadChain("x: bf16[M,1024]; $0; out bf16(log(exp(y) + 1))",
                  product ? "w: bf16[1024,1024]; y = x @ w.T" : "y = f32(x)"));
    const auto form = *NormalFormOf(chain);
    EXPECT_TRUE(form->changed());
    for (const int64_t m : {1, 128, 4096}) {
      const absl::StatusOr<FusionResult> plain = PlanAt(*chain, m),
                                         planned = PlanAt(*form->chain, m);
      ASSERT_TRUE(plain.ok() && planned.ok()) << plain.status() << planned.status();
      EXPECT_LE(planned->chosen.PredictedUs(), plain->chosen.PredictedUs() * 1.04) << m << product;
      EXPECT_EQ(planned->chosen.kernels.size(), 1u);
    }
  }
}

// Attention is one kernel; batched products without it are refused with what they are.
TEST(NormalPlans, OfAttentionAreOneKernel) {
  for (const char* name : {"attention_128", "attention_197"}) {
    const auto form = Got(NormalFormOf(Read(name)), name);
    const FusionResult planned = Got(PlanAt(*form->chain, 1), name);
    EXPECT_EQ(planned.chosen.kernels.size(), 1u) << planned.chosen.ToText();
    EXPECT_THAT(planned.chosen.note, HasSubstr("attention"));
  }
  const auto form = Got(NormalFormOf(
      std::make_shared<const Chain>(ReadChain("x, y: bf16[8,256,256]; out bf16(x @ y)"))));
  EXPECT_TRUE(
      Says(PlanAt(*form->chain, 1), "it is a batch of products that are too large for threads"));
}

// softmax(0.125 q k') v of `batch` heads.
Chain Attention(int64_t batch, int64_t length, int64_t width) {
  return ReadChain("q, k, v: bf16[$0,$1,$2]; p = bf16(softmax(q @ k.T * 0.125)); out bf16(p @ v)",
                   batch, length, width);
}

// Whatever its size, it is planned, by a few microseconds and a multiple of its bytes; by threads
// alone where that is faster.
TEST(NormalPlans, OfAttentionOfAnySizeTakeWhatTheyMust) {
  constexpr double kLeastUs = 12, kTimesBytes = 8;
  const DeviceModel model = *BuiltinModel("h200");
  int kernels = 0, stitched = 0;
  for (const int64_t batch : {2, 12, 96, 1024}) {
    for (const int64_t length : {8, 16, 32, 49, 64, 77, 128, 160, 197, 512}) {
      for (const int64_t width : {32, 64, 128}) {
        SCOPED_TRACE(absl::StrCat(batch, " of ", length, " x ", width));
        const auto form =
            *NormalFormOf(std::make_shared<const Chain>(Attention(batch, length, width)));
        const FusionResult result = Got(PlanChain(*form->chain, 1, model, {}));
        const Plan& plan = result.chosen;
        const bool one =
            plan.kernels.size() == 1 &&
            plan.note == absl::StrCat("op ", form->chain->outputs()[0].value, ": attention");
        (one ? kernels : stitched) += 1;
        const double bytes = static_cast<double>(4 * batch * length * width * 2);
        EXPECT_LE(plan.PredictedUs(), kLeastUs + kTimesBytes * bytes / model.hbm_bytes_per_us)
            << plan.ToText();
      }
    }
  }
  EXPECT_GT(kernels, 90);
  EXPECT_GT(stitched, 0);
}

// A record of such a plan is believed when it is read back.
TEST(NormalPlans, OfRoughChainsFitThem) {
  const DeviceModel model = *BuiltinModel("h200");
  int planned = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto chain = std::make_shared<const Chain>(testing::MakeRoughChain(seed));
    const auto form = Got(NormalFormOf(chain), seed);
    const Chain& normal = *form->chain;
    const int64_t bucket = BucketOf(normal, normal.UsesM() ? 40 : 1);
    const absl::StatusOr<FusionResult> plans = PlanChain(normal, bucket, model, {});
    if (!plans.ok()) {
      ++refused;
      EXPECT_EQ(StatusNumber(plans.status()), static_cast<int32_t>(ErrorCode::kNoLegalPlan))
          << seed << ": " << plans.status();
      continue;
    }
    ++planned;
    const absl::StatusOr<Plan> read = testing::Reassembled(plans->chosen, normal, model);
    EXPECT_TRUE(read.ok()) << seed << ": " << read.status() << "\n"
                           << plans->chosen.ToText() << normal.ToString();
    for (const Plan& other : plans->alternatives) {
      if (other.fused) continue;
      EXPECT_TRUE(testing::Reassembled(other, normal, model).ok()) << seed;
    }
  }
  EXPECT_GT(planned, 280);
  EXPECT_LT(refused, 15);
}

}  // namespace
}  // namespace sinter
