// A row's bits do not depend on how many rows there are, where plans are batch-invariant; nor on
// the schedule, where schedules have one row order.
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::batch_invariant {
namespace {

constexpr int64_t kSmall = 300, kLarge = 4096, kLooped = kLargestBucket + 333;
constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type

// A chain's inputs for kLooped rows, and its outputs, which are poisoned before every run.
class RowsOfAChain {
 public:
  static absl::StatusOr<std::unique_ptr<RowsOfAChain>> Make(const Ports& ports,
                                                            const Chain& chain) {
    std::unique_ptr<RowsOfAChain> made(new RowsOfAChain(ports, chain));
    SINTER_RETURN_IF_ERROR(made->Allocate());
    return made;
  }

  // Bound to a workspace of its own.
  absl::Status Bind(const PreparedPlanPtr& plan) {
    DeviceBuffer workspace;
    if (plan->WorkspaceBytes() > 0) {
      SINTER_ASSIGN_OR_RETURN(workspace, arena_.Allocate(plan->WorkspaceBytes()));
      SINTER_RETURN_IF_ERROR(measurer_->Fill(workspace, kPoison));
      SINTER_RETURN_IF_ERROR(measurer_->RunAndWait([&](StreamHandle stream) {
        return plan->InitWorkspace(workspace.ptr, workspace.bytes, stream);
      }));
    }
    SINTER_ASSIGN_OR_RETURN(binding_, plan->Bind(pointers_, workspace.ptr));
    plan_ = plan;
    return absl::OkStatus();
  }

  // The first `rows` rows of every output after a launch of `m`.
  absl::StatusOr<std::vector<std::string>> Run(int64_t m, int64_t rows) {
    for (const DeviceBuffer& output : outputs_) {
      SINTER_RETURN_IF_ERROR(measurer_->Fill(output, kPoison));
    }
    SINTER_RETURN_IF_ERROR(measurer_->RunAndWait(
        [&](StreamHandle stream) { return plan_->Launch(*binding_, stream, m, false); }));
    std::vector<std::string> results;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, static_cast<int>(i), rows));
      std::string bits(static_cast<size_t>(bytes), '\0');
      SINTER_RETURN_IF_ERROR(measurer_->Download(&bits[0], outputs_[i], bits.size()));
      results.push_back(std::move(bits));
    }
    return results;
  }

 private:
  RowsOfAChain(const Ports& ports, const Chain& chain)
      : measurer_(ports.measurer.get()), chain_(chain), arena_(ports.measurer.get()) {}

  absl::Status Allocate() {
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> inputs,
                            RandomInputs(chain_, kLooped, 11));
    const std::vector<int32_t>& order = chain_.InputOrder();
    pointers_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, arena_.Allocate(inputs[i].size()));
      SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, inputs[i].data(), inputs[i].size()));
      pointers_[static_cast<size_t>(order[i])] = buffer.ptr;
    }
    for (int i = 0; i < chain_.num_outputs(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, i, kLooped));
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                              arena_.Allocate(static_cast<uint64_t>(bytes)));
      outputs_.push_back(buffer);
      pointers_.push_back(buffer.ptr);
    }
    return absl::OkStatus();
  }

  Measurer* const measurer_;
  const Chain chain_;
  DeviceArena arena_;
  std::vector<DeviceBuffer> outputs_;
  std::vector<DevicePtr> pointers_;  // in the caller's order
  PreparedPlanPtr plan_;
  std::shared_ptr<const PlanBinding> binding_;
};

// Whether a word was not written.
bool HasPoison(const std::string& bits) {
  for (size_t i = 0; i + 3 < bits.size(); i += 4) {
    if (bits.compare(i, 4, "\xff\xff\xff\xff") == 0) return true;
  }
  return false;
}

FfnSpec PlainSpec() {
  FfnSpec spec{.n = 1536};
  spec.k = 416;  // steps past it, with a block_k of 128
  spec.l = 384;
  spec.act = Activation::kGeluTanh;
  spec.bias1 = spec.bias2 = true;
  return spec;
}

FfnSpec GatedSpec() {
  return FfnSpec{.gated = true,
                 .n = 1024,
                 .k = 512,
                 .l = 520,
                 .act = Activation::kSilu,
                 .layout = Layout::kIO,
                 .residual = true,
                 .scale1 = 0.75,
                 .factor1 = true};
}

// rmsnorm, gated FFN, residual.
absl::StatusOr<Chain> Layer() {
  constexpr int64_t k = 512, n = 1536;
  ChainBuilder b;
  const auto weight = [&](int64_t rows, int64_t cols) {
    return b.Input({DType::kBF16, {Dim::Constant(rows), Dim::Constant(cols)}}, {true, {}, ""});
  };
  SINTER_ASSIGN_OR_RETURN(const ValueId x, b.Input({DType::kBF16, {Dim::M(), Dim::Constant(k)}}));
  SINTER_ASSIGN_OR_RETURN(const ValueId gamma,
                          b.Input({DType::kBF16, {Dim::Constant(k)}}, {true, {}, ""}));
  SINTER_ASSIGN_OR_RETURN(const ValueId normed, AddRmsNorm(b, x, 1e-6, gamma));
  GatedFfnOperands ffn;
  SINTER_ASSIGN_OR_RETURN(ffn.a, b.Cast(normed, DType::kBF16));
  SINTER_ASSIGN_OR_RETURN(ffn.w_gate, weight(n, k));
  SINTER_ASSIGN_OR_RETURN(ffn.w_up, weight(n, k));
  SINTER_ASSIGN_OR_RETURN(ffn.w_down, weight(k, n));
  SINTER_ASSIGN_OR_RETURN(const ValueId down, AddGatedFfn(b, ffn, Activation::kSilu, Layout::kOI));
  SINTER_ASSIGN_OR_RETURN(const ValueId wide, b.Cast(down, DType::kF32));
  SINTER_ASSIGN_OR_RETURN(const ValueId residual, b.Cast(x, DType::kF32));
  SINTER_ASSIGN_OR_RETURN(const ValueId sum, b.Binary(BinaryKind::kAdd, wide, residual));
  SINTER_ASSIGN_OR_RETURN(const ValueId out, b.Cast(sum, DType::kBF16));
  SINTER_RETURN_IF_ERROR(b.Output(out));
  return b.Finish();
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
    const absl::StatusOr<int> differing = Compare(chain, by_bucket);
    EXPECT_OK(differing);
    return differing.ok() ? *differing : -1;
  }

 private:
  static absl::StatusOr<int> Compare(const Chain& chain,
                                     const std::map<int64_t, PreparedPlanPtr>& by_bucket) {
    SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<RowsOfAChain> data,
                            RowsOfAChain::Make(ports(), chain));
    SINTER_RETURN_IF_ERROR(data->Bind(by_bucket.at(kLarge)));
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> large, data->Run(kLarge, kLarge));
    for (const std::string& bits : large) EXPECT_FALSE(HasPoison(bits));
    int differing = 0;
    const auto compare = [&](int64_t m, int64_t rows) -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> bits, data->Run(m, rows));
      bool same = true;
      for (size_t i = 0; i < bits.size(); ++i) {
        same = same && large[i].compare(0, bits[i].size(), bits[i]) == 0;
      }
      differing += same ? 0 : 1;
      return absl::OkStatus();
    };
    int64_t bound = 0;
    for (int64_t m = 1; m <= kSmall; ++m) {
      if (BucketOf(m) != bound) SINTER_RETURN_IF_ERROR(data->Bind(by_bucket.at(BucketOf(m))));
      bound = BucketOf(m);
      SINTER_RETURN_IF_ERROR(compare(m, m));
    }
    SINTER_RETURN_IF_ERROR(data->Bind(by_bucket.at(kLargestBucket)));
    SINTER_RETURN_IF_ERROR(compare(kLooped, kLarge));
    return differing;
  }
};

TEST_F(BatchInvariant, APlainChain) { EXPECT_EQ(Differing(*MakeFfnChain(PlainSpec()), true), 0); }
TEST_F(BatchInvariant, AGatedChain) { EXPECT_EQ(Differing(*MakeFfnChain(GatedSpec()), true), 0); }
TEST_F(BatchInvariant, NormFfnResidual) {
  const Chain chain = Got(Layer());
  EXPECT_EQ(Differing(chain, true), 0);
}
TEST_F(BatchInvariant, StitchedRows) {
  for (const char* line : {"softmax rows=M cols=1536 scale=0.125 dtype=bf16",
                           "layernorm rows=M cols=1000 eps=1e-5 affine=1 dtype=bf16"}) {
    SCOPED_TRACE(line);
    const Problem problem = Got(ParseProblem(line));
    EXPECT_EQ(Differing(problem.chain, true), 0);
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
    const auto shared = std::make_shared<const Chain>(chain);
    const auto built = BuildPlans(ports(), shared, plans);
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
