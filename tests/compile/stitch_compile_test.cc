// Kernels of the stitch family through the real NVRTC for sm_90a. The compiler port refuses a
// kernel that spills or draws a C75xx remark; then the engine takes the next plan, so a few may
// spill, and are printed. Anything else is a failure. SINTER_TEST_LONG=1
// takes the chosen plans of all random graphs, else of the first of them, more hand-overs, and the
// second best schedules too. A kernel that several tests take is compiled once.
#include "src/chain/op.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "src/stitch/search/stitch_search.h"
#include "src/stitch/spec.h"
#include "tests/compile/kernel_sweep.h"
#include "tests/support/forced_hands.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr uint64_t kFewGraphs = 15;
constexpr int kFewHandOvers = 16;
constexpr int64_t kElements = 1 << 20;  // of a random graph's values: vectors and clusters are used
constexpr double kMostSpilling = 0.15;  // of kernels: search estimates registers

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsLong() { return std::string(Variable("SINTER_TEST_LONG")) == "1"; }

struct Job {
  std::string name;
  KernelSpec spec;
  CodegenOptions options;
};

class StitchCompile : public ::testing::Test {
 protected:
  void AddJob(const std::string& name, const Chain& body, const StitchSchedule& schedule) {
    auto stitch = std::make_shared<StitchSpec>();
    stitch->body = body;
    stitch->schedule = schedule;
    for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) {
      stitch->operands.push_back({i, 0});
    }
    KernelSpec spec{.family = &StitchFamily(), .body = MakeBody(std::move(*stitch))};
    jobs_.push_back({absl::StrCat(name, " '", schedule.ToString(), "'"), spec, {}});
  }

  // The whole body with its best `count` schedules, or half as many.
  void AddBest(const std::string& name, const Chain& body, int64_t bucket, int count) {
    const auto ranked =
        SearchStitch(body, bucket, model_, {.top_k = IsLong() ? count : (count + 1) / 2});
    if (!ranked.ok()) return;
    ++bodies_;
    for (const RankedStitch& one : *ranked) AddJob(name, body, one.schedule);
  }

  // The same with values handed over: the values of the best schedules that hand some over, and,
  // forced, any others.
  void AddHandOvers(const std::string& name, const Chain& body, int count) {
    constexpr int64_t kSharedBytes = 48 << 10;
    const auto ranked = SearchStitch(body, 1, model_, {.top_k = std::numeric_limits<int>::max()});
    if (!ranked.ok()) return;
    int chosen = 0, forced = 0;
    for (const RankedStitch& one : *ranked) {
      StitchSchedule s = one.schedule;
      int& added = s.handed.empty() ? forced : chosen;
      if (added == count) continue;
      if (s.handed.empty()) {
        const auto seed = static_cast<uint64_t>(added);
        s = testing::WithForcedHands(body, s, seed, static_cast<size_t>(added) + 1, kSharedBytes);
      }
      if (s.handed.empty()) continue;
      ++added;
      AddJob(name, body, s);
    }
    hands_ += chosen + forced;
  }

  // Quantizers of each granularity and type, without and after a norm.
  void AddQuantizers() {
    for (const char* line : {"quantize rows=M cols=4096 granularity=tensor",
                             "quantize rows=M cols=4096 granularity=row",
                             "quantize rows=M cols=4096 granularity=group",
                             "quantize rows=M cols=14336 granularity=group ue8m0=1 upper_bound=100",
                             "quantize rows=M cols=4096 granularity=static",
                             "quantize rows=M cols=4096 granularity=row codes=s8",
                             "rmsnorm_quantize rows=M cols=4096 granularity=row",
                             "rmsnorm_quantize rows=M cols=4096 granularity=group",
                             "rmsnorm_quantize rows=M cols=4096 granularity=static",
                             "rmsnorm_quantize rows=M cols=4096 granularity=row codes=s8"}) {
      AddPlan(line, ParseProblem(line)->chain);
    }
  }

  void AddPlan(const std::string& name, const Chain& chain) {
    const auto planned = PlanChain(chain, 1, model_, {});
    EXPECT_TRUE(planned.ok()) << name << ": " << planned.status();
    if (!planned.ok()) return;
    for (const PlannedKernel& kernel : planned->chosen.kernels) {
      if (kernel.spec.family != &StitchFamily()) continue;
      jobs_.push_back({absl::StrCat(name, " '", StitchOf(kernel.spec)->schedule.ToString(), "'"),
                       kernel.spec,
                       {}});
    }
  }

  void ExpectCompile() {
    std::vector<testing::SweepKernel> kernels;
    for (const Job& job : jobs_) {
      auto kernel = Got(Generate(job.spec, model_, job.options), job.name);
      kernels.push_back({job.name, std::move(kernel.request)});
      kernels.back().request.headers.clear();
    }
    int registers = 0, spilling = 0;
    for (const testing::SweepResult& result : testing::CompileSweep(kernels)) {
      const absl::Status& status = result.compiled.status();
      if (status.ok()) {
        registers = std::max(registers, result.compiled->registers);
      } else if (absl::StrContains(status.message(), "registers spill")) {
        ++spilling;
        std::printf("spills: %s: %s\n", result.kernel->name.c_str(), status.ToString().c_str());
      } else {
        ADD_FAILURE() << result.kernel->name << ": " << status;
      }
    }
    EXPECT_LE(spilling, kMostSpilling * static_cast<double>(jobs_.size()));
    std::printf("registers at most %d\n", registers);
  }

  const DeviceModel model_ = *BuiltinModel("h200");
  std::vector<Job> jobs_;
  int bodies_ = 0, hands_ = 0;
};

// Functions of values of each floating type: exact, for results of 16 bits, and next to 1.
TEST_F(StitchCompile, EveryFunctionOfTheTable) {
  constexpr size_t kOfOneKernel = 4;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    ChainBuilder b;
    ValueId x = 0;
    size_t outputs = 0;
    const auto begin = [&] { x = *b.Input({dtype, {Dim::M(), Dim::Constant(256)}}); };
    const auto end = [&] {
      AddBest(absl::StrCat("functions of ", NameOf(dtype)), *b.Finish(), 1024, 1);
      outputs = 0;
      b = ChainBuilder();
      begin();
    };
    const auto output = [&](ValueId y) {
      ASSERT_TRUE(b.Output(*b.Cast(y, dtype)).ok());
      if (++outputs == kOfOneKernel) end();
    };
    begin();
    for (const UnaryKind kind : UnaryKinds()) {
      if (TraitsOf(kind).operands == OperandTypes::kPreds) continue;
      const ValueId y = *b.Unary(kind, x);
      output(y);
      if (TraitsOf(kind).beside_one.function == nullptr) continue;
      output(*b.Binary(BinaryKind::kAdd, *b.Scalar(1), y));
      const ValueId again = *b.Unary(kind, x);
      output(*b.Binary(BinaryKind::kSub, *b.Scalar(1), *b.Unary(UnaryKind::kSquare, again)));
    }
    for (const BinaryKind kind : BinaryKinds()) {
      if (TraitsOf(kind).operands == OperandTypes::kPreds) continue;
      output(*b.Binary(kind, x, *b.Input({dtype, {Dim::M(), Dim::Constant(256)}})));
    }
    if (outputs > 0) end();
  }
  ExpectCompile();
}

TEST_F(StitchCompile, TheBestOfMemoryChainsAndRandomGraphs) {
  for (const char* line :
       {"layernorm rows=M cols=1024", "layernorm rows=M cols=8192", "softmax rows=M cols=1024",
        "softmax rows=M cols=16384", "bias_gelu_residual_layernorm rows=M cols=4096",
        "residual_rmsnorm rows=M cols=4096", "masked_softmax rows=M cols=2048",
        "swiglu rows=M cols=4096", "rope rows=M heads=8 dim=128", "lstm_cell rows=M hidden=512"}) {
    AddBest(line, ParseProblem(line)->chain, 8192, 2);
  }
  for (uint64_t seed = 1; bodies_ < 20 && seed <= testing::kRandomStitchGraphs; ++seed) {
    AddBest(absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed, {kElements}), 1, 2);
  }
  EXPECT_EQ(bodies_, 20);
  ExpectCompile();
}

TEST_F(StitchCompile, ChosenPlansOfRandomGraphs) {
  const uint64_t graphs = IsLong() ? testing::kRandomStitchGraphs : kFewGraphs;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    AddPlan(absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed));
  }
  ExpectCompile();
}

TEST_F(StitchCompile, Quantizers) {
  AddQuantizers();
  ExpectCompile();
}

TEST_F(StitchCompile, Compositions) {
  AddBest("attention", testing::GraphOf("pooled_attention(256, 100, 36)"), 1, 4);
  AddBest("product", testing::GraphOf("pooled_product(256, 100, 36)"), 1, 4);
  AddBest("products", testing::GraphOf("transposed_products(64, 16, 64, 32)"), 1, 4);
  AddBest("batchnorm", testing::GraphOf("batch_norm(25088, 256, x)"), 1, 6);
  AddBest("batchnorm of M rows", testing::GraphOf("batch_norm(M, 1024, x)"), 4096, 6);
  AddBest("rope", testing::GraphOf("norm_rope(64, 32, 8, 128)"), 1, 6);
  EXPECT_EQ(bodies_, 6);
  ExpectCompile();
}

TEST_F(StitchCompile, HandOvers) {
  AddHandOvers("attention", testing::GraphOf("pooled_attention(256, 100, 36)"), 3);
  AddHandOvers("product", testing::GraphOf("pooled_product(256, 100, 36)"), 3);
  AddHandOvers("rope", testing::GraphOf("norm_rope(64, 32, 8, 128)"), 3);
  const int wanted = IsLong() ? 100 : kFewHandOvers;
  for (uint64_t seed = 1; hands_ < wanted && seed <= testing::kRandomStitchGraphs; ++seed) {
    AddHandOvers(absl::StrCat("random", seed), testing::MakeRandomStitchGraph(seed, {kElements}),
                 2);
  }
  EXPECT_GE(hands_, wanted);
  ExpectCompile();
}

TEST_F(StitchCompile, PackedKernels) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 80; ++i) sizes.push_back(4096 * (1 + i % 9) + (i % 5 == 0));
  AddPlan("updates", testing::IndependentUpdates(sizes));
  AddPlan("rows", testing::IndependentRows({{900, 768}, {64, 4096}, {300, 74}}, 100000));
  int packed = 0;
  for (const Job& job : jobs_) packed += !StitchOf(job.spec)->parts.empty();
  EXPECT_EQ(packed, 2);
  ExpectCompile();
}

TEST_F(StitchCompile, TestBuilds) {
  AddBest("softmax", ParseProblem("softmax rows=M cols=1024")->chain, 8192, 2);
  const uint64_t kWithColumns = 13;
  AddBest("random13", testing::MakeRandomStitchGraph(kWithColumns), 1, 4);
  for (Job& job : jobs_) job.options = {true, true};
  ExpectCompile();
}

}  // namespace
}  // namespace sinter
