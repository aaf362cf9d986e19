// A row's bits do not depend on how many rows there are, where plans are batch-invariant; nor on
// the schedule, where schedules have one row order.
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::batch_invariant {
namespace {

constexpr int64_t kSmall = 300, kLarge = 4096, kLooped = kLargestBucket + 333;

// Whether a word was not written.
bool HasPoison(const std::string& bits) {
  for (size_t i = 0; i + 3 < bits.size(); i += 4) {
    if (bits.compare(i, 4, "\xff\xff\xff\xff") == 0) return true;
  }
  return false;
}

// Steps of K end past it, with a block_k of 128.
FfnSpec PlainSpec() { return ReadFfn("n1536 k416 l384 gelu_tanh bias1 bias2"); }
FfnSpec GatedSpec() {
  return ReadFfn("gated n1024 k512 l520 silu io residual scale1=0.75 factor1");
}

// rmsnorm, gated FFN, residual.
Chain Layer() {
  return ReadChain(
      "x: bf16[M,512]; gamma: const bf16[512]; gate, up: const bf16[1536,512];"
      "down: const bf16[512,1536]; normed = bf16(rmsnorm(x, 1e-6, gamma));"
      "out bf16(f32(gated_ffn(normed, gate, up, none, none, down, none, silu)) + f32(x))");
}

class BatchInvariant : public GpuTest {
 protected:
  // Launches of 1 to 300 rows and of 8525 whose rows are other bits than those of 4096.
  static int Differing(const Chain& chain, bool batch_invariant) {
    std::vector<PlanJob> jobs;
    for (int64_t m = 1; m <= kSmall; m = BucketOf(m) + 1) {
      jobs.push_back({&chain, m, PrepareOptions::Choice::kBest, batch_invariant});
    }
    for (const int64_t m : {kLarge, kLooped}) {
      jobs.push_back({&chain, m, PrepareOptions::Choice::kBest, batch_invariant});
    }
    const auto plans = PrepareAll(engine(), jobs);
    std::map<int64_t, PreparedPlanPtr> by_bucket;
    for (size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_OK(plans[i]) << "m " << jobs[i].m;
      if (!plans[i].ok()) return -1;
      EXPECT_EQ((*plans[i])->plan().IsBatchInvariant(), batch_invariant);
      by_bucket[BucketOf(jobs[i].m)] = *plans[i];
    }
    return Compare(chain, by_bucket);
  }

 private:
  static int Compare(const Chain& chain, const std::map<int64_t, PreparedPlanPtr>& by_bucket) {
    const auto data =
        Got(DeviceChain::Make(ports(), chain, kLooped, Got(RandomInputs(chain, kLooped, 11)), {}));
    BoundRun run = Got(data->Bind(by_bucket.at(kLarge)));
    // The first `rows` rows of the output after a launch of `m`.
    const auto bits = [&](int64_t m, int64_t rows) {
      return Got(data->Run(run, m)).substr(0, static_cast<size_t>(*OutputBytes(chain, 0, rows)));
    };
    const std::string large = bits(kLarge, kLarge);
    EXPECT_FALSE(HasPoison(large));
    int differing = 0;
    const auto compare = [&](int64_t m, int64_t rows) {
      const std::string some = bits(m, rows);
      differing += large.compare(0, some.size(), some) == 0 ? 0 : 1;
    };
    int64_t bound = 0;
    for (int64_t m = 1; m <= kSmall; ++m) {
      if (BucketOf(m) != bound) run = Got(data->Bind(by_bucket.at(BucketOf(m))));
      bound = BucketOf(m);
      compare(m, m);
    }
    run = Got(data->Bind(by_bucket.at(kLargestBucket)));
    compare(kLooped, kLarge);
    return differing;
  }
};

TEST_F(BatchInvariant, APlainChain) { EXPECT_EQ(Differing(*MakeFfnChain(PlainSpec()), true), 0); }
TEST_F(BatchInvariant, AGatedChain) { EXPECT_EQ(Differing(*MakeFfnChain(GatedSpec()), true), 0); }
TEST_F(BatchInvariant, NormFfnResidual) { EXPECT_EQ(Differing(Layer(), true), 0); }
TEST_F(BatchInvariant, StitchedRows) {
  for (const char* line : {"softmax rows=M cols=1536 scale=0.125 dtype=bf16",
                           "layernorm rows=M cols=1000 eps=1e-5 affine=1 dtype=bf16"}) {
    SCOPED_TRACE(line);
    EXPECT_EQ(Differing(Got(ParseProblem(line)).chain, true), 0);
  }
}

// What the flag is for.
TEST_F(BatchInvariant, WithoutItBitsDiffer) {
  const int plain = Differing(*MakeFfnChain(PlainSpec()), false);
  const int gated = Differing(*MakeFfnChain(GatedSpec()), false);
  std::printf(
      "without the flag: of 301 launches %d of the plain and %d of the gated chain differ\n", plain,
      gated);
  EXPECT_GT(plain + gated, 0);
}

// Schedules of one row order over the whole space.
class OneRowOrder : public GpuTest {
 protected:
  static constexpr int64_t kRows = 300;
  static constexpr size_t kOfADataflow = 8;

  // The output's bytes, one of each plan.
  static absl::StatusOr<std::vector<std::string>> Outputs(const Chain& chain,
                                                          std::vector<Plan> plans) {
    for (Plan& plan : plans) {
      for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
    }
    const auto built = BuildPlans(ports(), std::make_shared<const Chain>(chain), plans);
    SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceChain> data,
                            DeviceChain::Make(ports(), chain, kRows, 7));
    std::vector<std::string> outputs;
    for (size_t i = 0; i < plans.size(); ++i) {
      SINTER_RETURN_IF_ERROR(built[i].status());
      SINTER_ASSIGN_OR_RETURN(const BoundRun run, data->Bind(*built[i]));
      SINTER_ASSIGN_OR_RETURN(std::string output, data->Run(run, kRows));
      SINTER_RETURN_IF_ERROR(data->Check(output, kRows));
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

  // Schedules of the product dataflow for a GEMM: at most `count` for which `wanted` holds.
  static std::vector<Schedule> Products(const ProductSequence& problem, size_t count,
                                        const std::function<bool(const Schedule&)>& wanted) {
    std::vector<Schedule> list;
    for (const Schedule& s : LegalSchedules(problem, ports().model, Dataflow::kProduct)) {
      if (wanted(s)) list.push_back(s);
    }
    return Spread(list, count);
  }
};

TEST_F(OneRowOrder, GivesTheSameBitsWhateverTheScheduleIs) {
  for (const FfnSpec& spec : {PlainSpec(), GatedSpec()}) {
    SCOPED_TRACE(NameOf(spec));
    const Chain chain = *MakeFfnChain(spec);
    const int64_t bucket = BucketOf(kRows);
    const ProductSequence both = MatchProducts(chain, bucket)->sequence;
    std::vector<Plan> plans;
    for (const DataflowRow* row : AllDataflows()) {
      if (row->products == 1) continue;
      std::vector<Schedule> list;
      for (const Schedule& s : LegalSchedules(both, ports().model, row->dataflow)) {
        if (CheckRowOrder(both, s).ok()) list.push_back(s);
      }
      for (const Schedule& s : Spread(list, kOfADataflow)) {
        plans.push_back(*FusedPlanOf(chain, bucket, s));
      }
    }
    const ProductSequence one = both.Part(0, 1), two = both.Part(1, 1);
    const auto first =
        Products(one, kOfADataflow, [&](const Schedule& s) { return CheckRowOrder(one, s).ok(); });
    const auto second =
        Products(two, kOfADataflow, [&](const Schedule& s) { return CheckRowOrder(two, s).ok(); });
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      plans.push_back(*UnfusedPlanOf(chain, bucket, first[i], second[i]));
    }
    ASSERT_GT(plans.size(), 2 * kOfADataflow);
    const auto outputs = Got(Outputs(chain, plans));
    for (size_t i = 0; i < plans.size(); ++i) {
      ASSERT_EQ(RowOrder(plans[i]), RowOrder(plans[0]));
      EXPECT_TRUE(outputs[i] == outputs[0]) << plans[i].ToText();
    }
  }
}

// Swapped operands are an order of their own: nothing says that they give the bits of others.
// Should this print "equal" for every chip, CheckRowOrder may admit them.
TEST_F(OneRowOrder, SwappedOperandsHaveOneToo) {
  const Chain chain = *MakeFfnChain(PlainSpec());
  const int64_t bucket = BucketOf(kRows);
  const ProductSequence both = MatchProducts(chain, bucket)->sequence;
  const ProductSequence one = both.Part(0, 1), two = both.Part(1, 1);
  const auto plain = [](const ProductSequence& p) {
    return [&p](const Schedule& s) { return CheckRowOrder(p, s).ok(); };
  };
  const auto swapped = [](const Schedule& s) {
    return s.swapped && s.first.split_k == 1 && s.block_k == 64;
  };
  const Schedule second = Products(two, 1, plain(two)).front();
  std::vector<Plan> plans = {
      *UnfusedPlanOf(chain, bucket, Products(one, 1, plain(one)).front(), second)};
  for (const Schedule& s : Products(one, kOfADataflow, swapped)) {
    plans.push_back(*UnfusedPlanOf(chain, bucket, s, second));
  }
  ASSERT_GT(plans.size(), 2u);
  const auto outputs = Got(Outputs(chain, plans));
  for (size_t i = 2; i < plans.size(); ++i) {
    EXPECT_TRUE(outputs[i] == outputs[1]) << plans[i].ToText();
  }
  std::printf("swapped operands and plain ones: bits are %s\n",
              outputs[1] == outputs[0] ? "equal" : "not equal");
}

}  // namespace
}  // namespace sinter::gpu_testing::batch_invariant
