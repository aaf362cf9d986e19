// Decisions that lie, each in one way. Every field that is not changed is what planning made.
#include "tests/unit/fusion/assembly/chains.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

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

}  // namespace
}  // namespace sinter
