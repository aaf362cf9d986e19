// Sequences of three products and more: the chosen plan, the unfused one, and every cut into
// kernels with every dataflow that takes its pairs.
#include "tests/gpu/gpu_tests.h"
#include "tests/support/plan_of_products.h"

namespace sinter::gpu_testing::three_products {
namespace {

constexpr int64_t kMs[] = {1, 17, 128};
constexpr auto kFused = PrepareOptions::Choice::kFused;
constexpr auto kUnfused = PrepareOptions::Choice::kUnfused;

struct Param {
  const char* name;
  const char* line;  // without the layout
  Layout layout;
};

void PrintTo(const Param& param, std::ostream* out) {
  *out << param.name << " " << sinter::NameOf(param.layout);
}

std::vector<Param> AllParams() {
  std::vector<Param> params;
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    params.push_back({"ffn_product", "k=1024 n=4096,1024,1024 act=relu,identity,identity", layout});
    params.push_back({"gated_ffn_product",
                      "k=1024 n=3072,1024,768 act=silu,identity,identity gated=1,0,0", layout});
    params.push_back({"product_gated_ffn",
                      "k=1024 n=1024,3072,1024 act=identity,silu,identity gated=0,1,0", layout});
    params.push_back(
        {"mlp", "k=512 n=512,512,256 act=relu,gelu_tanh,identity bias=1 dtype=f16", layout});
    params.push_back({"plain", "k=256 n=512,384,320 bias=0,1,0", layout});
    params.push_back({"two_gated_ffns",
                      "k=512 n=1536,512,1536,512,256 act=silu,identity,silu,identity,relu "
                      "gated=1,0,1,0,0",
                      layout});
  }
  return params;
}

std::string ParamName(const ::testing::TestParamInfo<Param>& info) {
  return absl::StrCat(info.param.name, "_", sinter::NameOf(info.param.layout));
}

absl::StatusOr<Chain> ChainOf(const Param& param) {
  SINTER_ASSIGN_OR_RETURN(Problem problem,
                          ParseProblem(absl::StrCat("products m=M ", param.line,
                                                    " layout=", sinter::NameOf(param.layout))));
  return std::move(problem.chain);
}

// Every way to cut the sequence; pairs only where a chain kernel may take them.
std::vector<Segmentation> AllCuts(const ProductSequence& sequence) {
  std::vector<Segmentation> open = {{}}, done;
  while (!open.empty()) {
    const Segmentation cut = open.back();
    open.pop_back();
    const int begin = cut.empty() ? 0 : cut.back().end();
    if (begin == sequence.size()) done.push_back(cut);
    for (int count = 1; count <= 2 && begin + count <= sequence.size(); ++count) {
      if (count == 2 && !CanPair(sequence, begin)) continue;
      open.push_back(cut);
      open.back().push_back({begin, count});
    }
  }
  return done;
}

// The schedule of `dataflow` that is predicted to be the fastest; false when none is legal.
bool FindBest(const ProductSequence& problem, const DeviceModel& model, Dataflow dataflow,
              RankedSchedule* best) {
  bool found = false;
  for (const Schedule& s : LegalSchedules(problem, model, dataflow)) {
    const Prediction prediction = Predict(problem, s, model);
    if (found && prediction.total_us >= best->prediction.total_us) continue;
    *best = {s, prediction};
    found = true;
  }
  return found;
}

class ThreeProducts : public GpuTest, public ::testing::WithParamInterface<Param> {
 protected:
  // All cuts with `pairs` as the dataflow of every pair; those that no schedule takes are left out.
  static std::vector<Plan> PlansOf(const Chain& chain, int64_t bucket, Dataflow pairs) {
    const MatchedSequence matched = MatchProducts(chain, bucket).value();
    std::vector<Plan> plans;
    for (const Segmentation& cut : AllCuts(matched.sequence)) {
      std::vector<RankedSchedule> ranked(cut.size());
      bool legal = true;
      for (size_t i = 0; legal && i < cut.size(); ++i) {
        const Dataflow dataflow = cut[i].count == 2 ? pairs : Dataflow::kProduct;
        const ProductSequence part = matched.sequence.Part(cut[i].begin, cut[i].count);
        legal = FindBest(part, ports().model, dataflow, &ranked[i]);
      }
      if (legal) plans.push_back(MakePlan(chain, matched, cut, ranked));
    }
    return plans;
  }

  // Launches back to back: the later ones start while the earlier ones end.
  static void ExpectRightBackToBack(DeviceChain& data, const BoundRun& run, int64_t m) {
    ASSERT_OK(data.Poison(run));
    ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
      for (int i = 0; i < 8; ++i) SINTER_RETURN_IF_ERROR(run.launch(stream, m, true));
      return absl::OkStatus();
    }));
    EXPECT_OK(data.Check(Got(data.DownloadOutput()), m));
  }
};

TEST_P(ThreeProducts, BothChoicesStayWithinBothBounds) {
  const Chain chain = Got(ChainOf(GetParam()));
  for (int64_t m : kMs) {
    SCOPED_TRACE(absl::StrCat("m ", m));
    const auto plans = PrepareAll(engine(), {{&chain, m, kFused}, {&chain, m, kUnfused}});
    const auto data = Got(DeviceChain::Make(ports(), chain, m, static_cast<uint64_t>(m)));
    for (const auto& plan : plans) {
      ASSERT_OK(plan);
      ExpectCorrect(*data, *plan, m, Repeats());
      ExpectRightBackToBack(*data, Got(data->Bind(*plan)), m);
    }
  }
}

TEST_P(ThreeProducts, EveryCutWithEveryDataflowIsRight) {
  const auto chain = std::make_shared<const Chain>(Got(ChainOf(GetParam())));
  const auto data = Got(DeviceChain::Make(ports(), *chain, 128, 3));
  size_t ran = 0;
  for (Dataflow pairs : {Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    for (const Plan& plan : PlansOf(*chain, 128, pairs)) {
      SCOPED_TRACE(plan.ToText());
      const BoundRun run = Got(data->Bind(Got(BuildPlan(ports(), chain, plan))));
      ExpectRows(*data, run, kMs);
      ExpectRightBackToBack(*data, run, 128);
      ++ran;
    }
  }
  EXPECT_GE(ran, 3u) << "the unfused cut twice, and one with a pair at least";
}

INSTANTIATE_TEST_SUITE_P(All, ThreeProducts, ::testing::ValuesIn(AllParams()), ParamName);

using LongProducts = GpuTest;

TEST_F(LongProducts, MoreRowsThanTheLargestBucketAreLooped) {
  const Problem problem =
      Got(ParseProblem("products m=M k=64 n=128,72,64 act=silu,identity,identity"));
  const int64_t rows = kLargestBucket + 333;
  const auto data = Got(DeviceChain::Make(ports(), problem.chain, rows, 9));
  for (auto choice : {kFused, kUnfused}) {
    const auto plan = Got(engine()->Prepare(problem.chain, rows, {.choice = choice}));
    ExpectCorrect(*data, plan, rows, 3);
  }
}

// Plans of different cuts take turns on one workspace: the header carries over, results do not.
TEST_F(LongProducts, PlansOfEveryCutShareAWorkspace) {
  const Problem problem =
      Got(ParseProblem("products m=M k=512 n=1024,512,512 act=relu,identity,identity"));
  const auto plans =
      PrepareAll(engine(), {{&problem.chain, 128, kFused}, {&problem.chain, 128, kUnfused}});
  const auto data = Got(DeviceChain::Make(ports(), problem.chain, 128, 9));
  uint64_t bytes = 0;
  for (const auto& plan : plans) {
    ASSERT_OK(plan);
    bytes = std::max(bytes, (*plan)->WorkspaceBytes());
  }
  const DeviceBuffer workspace = Got(data->MakeWorkspace(bytes));
  ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) {
    return (*plans[1])->InitWorkspace(workspace.ptr, workspace.bytes, stream);
  }));
  for (int round = 0; round < 6; ++round) {
    for (const auto& plan : plans) {
      const BoundRun run = Got(data->BindOn(*plan, workspace));
      ASSERT_OK(data->Check(Got(data->Run(run, 128, true)), 128)) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::three_products
