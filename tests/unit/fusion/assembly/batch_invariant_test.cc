// Batch-invariant plans: what decides a row's bits is the same for every number of rows.
#include "src/product/matcher.h"
#include "src/reference/rows.h"
#include "tests/unit/fusion/assembly/sample.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::NamedChain;

std::vector<int64_t> EveryBucket() {  // more than a hundred
  std::vector<int64_t> buckets;
  for (int64_t m = 1; m <= kLargestBucket; m = buckets.back() + 1) buckets.push_back(BucketOf(m));
  return buckets;
}

absl::StatusOr<FusionResult> PlanIt(const Chain& chain, int64_t bucket, bool for_tuning = false,
                                    bool allow_cooperative = true) {
  return PlanChain(
      chain, bucket, H200(),
      {.batch_invariant = true, .allow_cooperative = allow_cooperative, .for_tuning = for_tuning});
}

std::vector<Plan> AllOf(FusionResult result) {
  std::vector<Plan> plans = std::move(result.alternatives);
  plans.push_back(std::move(result.chosen));
  return plans;
}

// The row order of all plans at a bucket, which have one; why there is none.
std::string OrderAt(const NamedChain& of, int64_t bucket, bool for_tuning, bool allow_cooperative) {
  absl::StatusOr<FusionResult> result = PlanIt(of.chain, bucket, for_tuning, allow_cooperative);
  if (!result.ok()) return std::string(result.status().message());
  const std::string order = RowOrder(result->chosen);
  for (const Plan& plan : AllOf(*std::move(result))) {
    EXPECT_TRUE(plan.IsBatchInvariant()) << of.name << " at " << bucket;
    EXPECT_EQ(RowOrder(plan), order) << of.name << " at " << bucket << "\n" << plan.ToText();
  }
  return order;
}

// Chains that use M, each at the buckets that `at` says: one order each. Returns how many have it.
int ExpectOneOrder(const std::vector<NamedChain>& chains,
                   const std::function<std::vector<int64_t>(size_t)>& at) {
  std::mutex mutex;
  int planned = 0;
  reference::ForEachIndex(static_cast<int>(chains.size()), [&](int i) {
    const NamedChain& of = chains[static_cast<size_t>(i)];
    if (!of.chain.UsesM()) return;
    const std::vector<int64_t> buckets = at(static_cast<size_t>(i));
    const std::string order = OrderAt(of, kRowOrderBucket, true, false);
    for (const int64_t bucket : buckets) {
      if (bucket > LargestBucketOf(of.chain)) continue;  // plans of it are never asked for
      EXPECT_EQ(OrderAt(of, bucket, false, true), order) << of.name << " at " << bucket;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    planned += PlanIt(of.chain, 1).ok() ? 1 : 0;
  });
  return planned;
}

// The first, the last and every `step`-th bucket, from the `first`-th.
std::vector<int64_t> BucketsBy(size_t first, size_t step) {
  const std::vector<int64_t> every = EveryBucket();
  std::vector<int64_t> some = {every.front(), every.back()};
  for (size_t at = first % step; at < every.size(); at += step) some.push_back(every[at]);
  return some;
}

// Other buckets of each chain, so that several chains together have all.
std::vector<int64_t> SomeBuckets(size_t i) { return BucketsBy(i, testing::IsLongRun() ? 12 : 24); }

// Every fifth bucket in an everyday run, which the commit draws.
std::vector<int64_t> DrawnBuckets(size_t i) {
  if (testing::IsLongRun()) return EveryBucket();
  return BucketsBy(i + DrawOf(DrawingCommit()) % 5, 5);
}

TEST(BatchInvariant, EveryListedProblemAndGraphHasOneRowOrder) {
  const std::vector<NamedChain> chains = testing::SampleOf(testing::ListedChains());
  const int planned = ExpectOneOrder(chains, SomeBuckets);
  std::cout << planned << " of " << chains.size() << " listed chains\n";
  EXPECT_GT(planned * 2, static_cast<int>(chains.size()));
}

TEST(BatchInvariant, ChainsOfEveryKindHaveOneRowOrderAtEveryBucket) {
  EXPECT_GT(ExpectOneOrder(testing::ChainsOfEveryKind(), DrawnBuckets), 12);
}

// A random graph over rows of M: element-wise ops, row reductions spread again, softmax, norms,
// casts, products with constant weights. Each op reads the one before.
Chain RandomRows(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const int64_t columns = std::array<int64_t, 4>{40, 256, 1000, 4096}[pick(4)];
  ChainReader r("narrow: bf16[M,$0]; x: f32[M,$0]", columns);
  std::vector<ValueId> values = {r("f32(narrow)"), r["x"]};
  values.push_back(r("value($0) + x", values[0]));
  const size_t ops = 5 + pick(25);
  for (size_t i = 0; i < ops; ++i) {
    const ValueId b = values[pick(values.size())];
    r.Name("a", values.back());
    switch (pick(8)) {
      case 0:
        values.push_back(r("a - spread(mean(a, 1, keep), a)"));
        break;
      case 1:
        values.push_back(r("softmax(a, 1)"));
        break;
      case 2:
        values.push_back(r("rmsnorm(a, 1e-6, {const f32[$0]})", columns));
        break;
      case 3:
        values.push_back(r("f32(bf16(a))"));
        break;
      case 4:
        values.push_back(r("tanh(a)"));
        break;
      case 5:
        if (columns % 8 == 0 && columns <= 1000) {
          values.push_back(r("bf16(a) @ {const bf16[$0,$0]}.T", columns));
          break;
        }
        [[fallthrough]];
      default:
        values.push_back(r(pick(2) == 0 ? "a + value($0)" : "a * value($0)", b));
    }
  }
  r.Add("out bf16(value($0))", values.back());
  if (pick(2) == 0) r.Add("out reduce_max(value($0), 1, keep)", values[values.size() / 2]);
  return r.Finish();
}

TEST(BatchInvariant, RandomGraphsHaveOneRowOrder) {
  std::vector<NamedChain> graphs;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    graphs.push_back({absl::StrCat("seed ", seed), RandomRows(seed)});
  }
  graphs = testing::SampleOf(std::move(graphs));
  const int planned = ExpectOneOrder(graphs, SomeBuckets);
  std::cout << planned << " random graphs\n";
  EXPECT_GE(planned * 10, static_cast<int>(graphs.size()) * 9);
}

// The compiler's input for a stitched kernel.
std::string TextOf(const KernelSpec& spec) {
  const GeneratedKernel kernel = Got(Generate(spec, H200()));
  std::string text = absl::StrJoin(kernel.request.options, " ");
  for (const absl::string_view line : absl::StrSplit(kernel.request.source, '\n')) {
    if (!absl::StartsWith(line, "//")) absl::StrAppend(&text, "\n", line);
  }
  return text;
}

// All that RowOrder leaves out of a stitched kernel is in its launch.
TEST(BatchInvariant, StitchedKernelsOfAllBucketsAreOneText) {
  int kernels = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    const absl::StatusOr<FusionResult> first = PlanIt(of.chain, 1);
    if (!of.chain.UsesM() || !first.ok()) continue;
    for (const int64_t bucket : {64, 640, 8192}) {
      const FusionResult other = Got(PlanIt(of.chain, bucket), of.name);
      std::vector<std::string> texts[2];
      for (const FusionResult* result : {&*first, &other}) {
        for (const PlannedKernel& kernel : result->chosen.kernels) {
          if (StitchOf(kernel.spec) == nullptr) continue;
          texts[result == &other].push_back(TextOf(kernel.spec));
        }
      }
      EXPECT_EQ(texts[0], texts[1]) << of.name << " at " << bucket;
      kernels += static_cast<int>(texts[0].size());
    }
  }
  EXPECT_GT(kernels, 20);
}

TEST(BatchInvariant, PlansFitWhereTheyAreAskedForAndNowhereElse) {
  AssemblyRequest invariant{.batch_invariant = true};
  int fit = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    if (!of.chain.UsesM()) continue;
    absl::StatusOr<FusionResult> result = PlanIt(of.chain, 48);
    if (!result.ok()) continue;
    const DeviceModel model = H200();
    Assembly wanted(of.chain, 48, model, invariant), plain(of.chain, 48, model);
    for (const Plan& plan : AllOf(*std::move(result))) {
      const absl::Status fits = testing::Reassembled(plan, &wanted).status();
      EXPECT_TRUE(fits.ok()) << of.name << ": " << fits;
      EXPECT_TRUE(Says(testing::Reassembled(plan, &plain), "batch_invariant 1, asked for is 0"));
      ++fit;
    }
    const Plan ordinary = testing::PlansOf(of.chain, 48).front();
    EXPECT_TRUE(Says(testing::Reassembled(ordinary, &wanted), "batch_invariant 0, asked for is 1"));
  }
  EXPECT_GT(fit, 100);
}

// Gives up at the `left`-th ask.
struct GivesUp : KeepGoing {
  explicit GivesUp(int asks) : left(asks) {}
  absl::Status Check() const override {
    return left-- > 0 ? absl::OkStatus() : absl::DeadlineExceededError("late");
  }
  mutable int left;
};

// Both look for products and for the plan of all buckets, which may take seconds.
TEST(BatchInvariant, AssemblyObeysADeadline) {
  const DeviceModel model = H200();
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    const absl::StatusOr<FusionResult> result = PlanIt(of.chain, 48);
    if (!of.chain.UsesM() || !result.ok() || MatchProducts(of.chain).ok()) continue;
    const Decisions decisions = DecisionsOf(result->chosen);
    int asks = 0;
    for (;; ++asks) {
      ASSERT_LT(asks, 1000);
      const GivesUp keep_going(asks);
      const absl::Status status =
          Assembly(of.chain, 48, model, {.batch_invariant = true, .keep_going = &keep_going})
              .Assemble(decisions)
              .status();
      if (status.ok()) break;
      EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    }
    EXPECT_GT(asks, 3) << of.name << ": by the products, and by planning for all buckets";
    return;
  }
  FAIL() << "no chain of stitched kernels";
}

// A chain without M always has the same rows.
TEST(BatchInvariant, ChainsWithoutMArePlannedAsEver) {
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    if (of.chain.UsesM()) continue;
    const FusionResult result = Got(PlanIt(of.chain, 1), of.name);
    EXPECT_EQ(result.chosen.PlanDigest(), testing::PlansOf(of.chain, 1).front().PlanDigest());
  }
}

TEST(BatchInvariant, OpsThatTakeRowsTogetherAreRefusedByName) {
  const absl::Status status = PlanIt(ReadChain("out sum({f32[M,64]}, 0)"), 64).status();
  EXPECT_EQ(
      status.message(),
      "no kernel family takes this chain: batch_invariant: op 1 (reduce) takes all rows of "
      "input 0, f32[M,64], together: leave batch_invariant off, or compute this op in a chain "
      "without it");
}

// A record from elsewhere may be whole, right and fast, and add in another order.
TEST(BatchInvariant, ForeignPlansOfAnotherOrderAreRefused) {
  AssemblyRequest invariant{.batch_invariant = true};
  const DeviceModel model = H200();
  int products = 0, stitched = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    if (!of.chain.UsesM()) continue;
    Assembly assembly(of.chain, 48, model, invariant);
    const absl::StatusOr<FusionResult> wanted = PlanIt(of.chain, 48);
    if (!wanted.ok()) continue;
    for (Plan plan : testing::PlansOf(of.chain, 48, true)) {
      for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
      const bool same = RowOrder(plan) == RowOrder(wanted->chosen);
      const absl::Status status = testing::Reassembled(plan, &assembly).status();
      // Decisions of this bucket's bodies are refused even where the order is the same.
      EXPECT_TRUE(same || !status.ok()) << of.name << "\n" << plan.ToText();
      if (same) continue;
      const bool by_rows = status.message() == "its rows are in another order than other buckets'";
      ++(by_rows ? stitched : products);
    }
  }
  EXPECT_GT(products, 20);
  EXPECT_GT(stitched, 20);
}

}  // namespace
}  // namespace sinter
