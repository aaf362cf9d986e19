// Products that a constant, a number of each row and one of each column multiply, in every
// dataflow: schedules over the whole space, rows that end anywhere, with residuals and without,
// with and without pauses, and launches that are looped over rows.
#include "tests/gpu/sweep_test.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::row_factor {
namespace {

constexpr size_t kSchedules = 8, kPaused = 3;  // of each dataflow and chain

// Factors of either product or both, of either dtype; plain and gated, either layout, aligned and
// ragged columns, with bias, constant and residual.
std::vector<FfnSpec> Specs() {
  return ReadFfns({"n776 k328 l523 relu bias2 factor1 factor2",
                   "gated n520 k328 l264 silu f16 bias1 bias2 scale1=1.25 factor1 factors=f16",
                   "gated n520 k328 l264 silu io bias1 bias2 scale1=1.25 factor1 residual",
                   "n776 k328 l1024 relu bias2 scale2=-0.75 factor2 factors=bf16 residual rounded",
                   "gated n520 k328 l264 silu f16 bias1 bias2 scale1=1.25 scale2=3 factors=f16"});
}

class RowFactors : public SweepTest {
 protected:
  static void RunAll(Dataflow dataflow, bool jitter) {
    Sweep(Specs(), dataflow, jitter ? kPaused : kSchedules, jitter, 31, RunOne);
  }

  // Right at every number of rows, and the same bytes again.
  static void RunOne(DeviceChain& data, const LoadedPlanPtr& plan) {
    ExpectRows(data, plan, kSomeRows, 2);
  }
};

TEST_F(RowFactors, Products) { RunAll(Dataflow::kProduct, false); }
TEST_F(RowFactors, GridExchange) { RunAll(Dataflow::kGridExchange, false); }
TEST_F(RowFactors, ClusterExchange) { RunAll(Dataflow::kClusterExchange, false); }
TEST_F(RowFactors, ProductsWithPauses) { RunAll(Dataflow::kProduct, true); }
TEST_F(RowFactors, GridExchangeWithPauses) { RunAll(Dataflow::kGridExchange, true); }
TEST_F(RowFactors, ClusterExchangeWithPauses) { RunAll(Dataflow::kClusterExchange, true); }

// Scales of columns of either product or both, of either dtype, alone, with factors of rows, with
// bias and residual; columns that end anywhere.
class ColumnScales : public RowFactors {
 protected:
  static std::vector<FfnSpec> Scaled() {
    return ReadFfns(
        {"n776 k328 l523 relu bias1 bias2 scale_w1 scales=bf16",
         "gated n520 k328 l264 silu f16 bias1 bias2 scale1=1.25 factor1 factors=f16 scale_w2 "
         "scales=f16",
         "gated n520 k328 l264 silu io bias1 bias2 scale1=1.25 residual scale_w1 scale_w2",
         "n776 k328 l1024 relu bias1 bias2 scale2=-0.75 factor2 factors=bf16 residual rounded "
         "scale_w1 scale_w2",
         "gated n520 k328 l264 silu f16 bias1 bias2 scale1=1.25 scale2=3 factors=f16 scale_w1 "
         "scale_w2"});
  }
  // Whose weights and second columns are small enough to stay.
  static std::vector<FfnSpec> Small() {
    std::vector<FfnSpec> specs = Scaled();
    for (FfnSpec& spec : specs) {
      spec.n = 128;
      spec.k = 72;
      spec.l = 67;
      if (spec.layout == Layout::kIO) spec.l = 72;
    }
    return specs;
  }
  static void RunScaled(Dataflow dataflow, bool jitter = false) {
    const bool small = dataflow == Dataflow::kResidentWeights;
    Sweep(small ? Small() : Scaled(), dataflow, jitter ? kPaused : kSchedules, jitter, 43, RunOne);
  }
};

TEST_F(ColumnScales, Products) { RunScaled(Dataflow::kProduct); }
TEST_F(ColumnScales, GridExchange) { RunScaled(Dataflow::kGridExchange); }
TEST_F(ColumnScales, ClusterExchange) { RunScaled(Dataflow::kClusterExchange); }
TEST_F(ColumnScales, ClusterRanges) { RunScaled(Dataflow::kClusterRanges); }
TEST_F(ColumnScales, ClusterSlab) { RunScaled(Dataflow::kClusterSlab); }
TEST_F(ColumnScales, SpatialGate) { RunScaled(Dataflow::kSpatialGate); }
TEST_F(ColumnScales, ResidentWeights) { RunScaled(Dataflow::kResidentWeights); }
TEST_F(ColumnScales, ProductsWithPauses) { RunScaled(Dataflow::kProduct, true); }

// The factors of a launch that is looped over rows move with them; scales of columns stay.
TEST_F(RowFactors, ManyRows) {
  constexpr int64_t kMany = 9000;
  for (const char* dtype : {"f32", "bf16"}) {
    const Chain chain =
        MakeFfnChain(ReadFfn(absl::Substitute("gated n256 k128 l128 silu factor1 factor2 scale_w1 "
                                              "scale_w2 factors=$0 scales=$0",
                                              dtype)))
            .value();
    const auto data = Got(DeviceChain::Make(ports(), chain, kMany, 37));
    for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
      const auto plan = Got(engine()->Prepare(chain, kMany, {.choice = choice}));
      ExpectCorrect(*data, plan, kMany, 2);
      ExpectCorrect(*data, plan, 8193, 1);
    }
  }
}

// A product of normalised rows, which computes the norm itself.
Chain Normed(const char* dtype, int64_t n, int64_t k, const char* eps, absl::string_view end) {
  return ReadChain("x: $0[M,$2]; normal = rmsnorm(x, $3); out $0($4)", dtype, n, k, eps,
                   absl::Substitute(end, dtype, n, k));
}

class RowNorms : public SweepTest {
 protected:
  static constexpr int64_t kMost = 40;

  // Right at `numbers` of rows, over the space of legal schedules, and the same bytes again.
  static void RunAll(size_t schedules, bool jitter, const std::vector<int64_t>& numbers) {
    constexpr char kProduct[] = "normal @ {const $0[$1,$2]}.T",
                   kGated[] = "silu(normal @ {const $0[$1,$2]}.T) * (normal @ {const $0[$1,$2]}.T)",
                   kAdded[] = "(normal @ {const $0[$1,$2]}.T) + f32({$0[M,$1]})";
    const Chain chains[] = {
        Normed("bf16", 776, 40, "1e-6", kProduct), Normed("f16", 517, 328, "1e-3", kGated),
        Normed("bf16", 264, 1032, "1e-5", kGated),
        Normed("bf16", 1064, 136, "0.5", "(normal @ {const $0[$2,$1]}) + f32({$0[M,$1]})"),
        Normed("bf16", 2304, 520, "1e-6", kAdded)};
    for (const Chain& chain : chains) {
      RunSchedules(std::make_shared<const Chain>(chain), schedules, jitter, numbers);
      if (HasFatalFailure()) return;
    }
  }

  static void RunSchedules(const std::shared_ptr<const Chain>& chain, size_t schedules, bool jitter,
                           const std::vector<int64_t>& numbers) {
    const int64_t bucket = BucketOf(kMost);
    const ProductSequence product = MatchProducts(*chain, bucket, true)->sequence;
    HandPlans hand{chain, {}, kMost, 41};
    for (const Schedule& s :
         Spread(LegalSchedules(product, ports().model, Dataflow::kProduct), schedules)) {
      hand.plans.push_back(*UnfusedPlanOf(*chain, bucket, s, s));
    }
    hand.options.codegen.jitter = jitter;
    RunPlans(hand, [&](DeviceChain& data, const LoadedPlanPtr& plan) {
      ExpectRows(data, plan, numbers, 2);
    });
  }
};

TEST_F(RowNorms, AtEveryNumberOfRows) {
  std::vector<int64_t> numbers(kMost);
  for (int64_t m = 1; m <= kMost; ++m) numbers[static_cast<size_t>(m - 1)] = m;
  RunAll(12, false, numbers);
}
TEST_F(RowNorms, WithPauses) { RunAll(4, true, {40, 17, 1}); }

}  // namespace
}  // namespace sinter::gpu_testing::row_factor
