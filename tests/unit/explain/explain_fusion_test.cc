// Descriptions of a plan: bytes saved, compositions, why kernels are separate; as text, JSON and
// SVG.
#include "nlohmann/json.hpp"
#include "src/explain/explain.h"
#include "tests/support/drawn.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

FusionResult PlansOf(const Chain& chain, int64_t bucket) {
  return Got(PlanChain(chain, bucket, H200(), {}));
}

Plan Unfused(const FusionResult& result) {
  for (const Plan& plan : result.alternatives) {
    if (!plan.fused) return plan;
  }
  return result.chosen;
}

Explanation Explained(const Plan& plan) {
  Explanation e = Describe(plan, H200());
  ExplainFusion(H200(), &e);
  return e;
}

int64_t BorderBytes(const Explanation& picture) {
  int64_t bytes = 0;
  for (const KernelDescription& kernel : picture.kernels) bytes += kernel.border_bytes;
  return bytes;
}

TEST(ExplainFusion, SavesWhatTheUnfusedPlanMovesBeside) {
  for (const char* line : {"layernorm rows=M cols=96", "softmax rows=M cols=200 scale=0.125",
                           "bias_gelu_residual_layernorm rows=M cols=128",
                           "residual_rmsnorm rows=M cols=64", "gelu rows=M cols=48 form=erf"}) {
    const FusionResult result = PlansOf(ParseProblem(line)->chain, 4096);
    ASSERT_EQ(result.chosen.kernels.size(), 1u) << line;
    const Explanation fused = Explained(result.chosen);
    const Explanation unfused = Explained(Unfused(result));
    EXPECT_EQ(unfused.saved_bytes, 0) << line;
    EXPECT_EQ(BorderBytes(fused) + fused.saved_bytes, BorderBytes(unfused)) << line;
    EXPECT_GT(fused.saved_bytes, 0) << line;
  }
}

TEST(ExplainFusion, CountsOfASliceWhatIsRead) {
  for (const char* line : {"swiglu rows=M cols=40", "lstm_cell rows=M hidden=24"}) {
    const FusionResult result = PlansOf(ParseProblem(line)->chain, 4096);
    const Explanation fused = Explained(result.chosen);
    EXPECT_GT(fused.saved_bytes, 0) << line;
    EXPECT_LT(BorderBytes(fused) + fused.saved_bytes, BorderBytes(Explained(Unfused(result))))
        << line;
  }
}

TEST(ExplainFusion, CountsOfATableWhatIdsName) {
  const FusionResult result =
      PlansOf(ParseProblem("gather rows=M table=50257 cols=768 ids=s64")->chain, 128);
  const Explanation told = Explained(result.chosen);
  EXPECT_EQ(BorderBytes(told), 2 * 128 * 768 * 2 + 128 * 8);
  EXPECT_EQ(told.saved_bytes, 0);
}

TEST(ExplainFusion, CountsOfACacheWhatIdsWrite) {
  const FusionResult result =
      PlansOf(ParseProblem("scatter rows=M table=50257 cols=768 ids=s64")->chain, 128);
  const Explanation told = Explained(result.chosen);
  EXPECT_EQ(BorderBytes(told), 2 * 128 * 768 * 2 + 128 * 8);
  EXPECT_EQ(told.saved_bytes, 0);
}

// Half of the random graphs in an everyday run, which the commit draws.
TEST(ExplainFusion, TellsOfEveryHandOverBetweenKernelsWhyItIsOne) {
  int apart = 0;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    if (seed >= 2 && !IsDrawn(seed, 2)) continue;
    const Chain chain = seed < 2 ? testing::TransformerGlue(static_cast<int>(seed) + 1, 256, 256)
                                 : testing::RandomDag(seed, 200, 512, 768);
    const FusionResult result = PlansOf(chain, 1);
    const Explanation picture = Explained(result.chosen);
    const PlanTensors tensors = TensorsOf(result.chosen);
    std::set<std::pair<int, int>> told, handed;
    for (const ApartKernels& pair : picture.apart) {
      EXPECT_LT(pair.from, pair.to);
      EXPECT_FALSE(pair.why.empty());
      if (pair.bytes > 0) told.insert({pair.from, pair.to});
    }
    for (size_t i = 0; i < tensors.readers.size(); ++i) {
      for (int reader : tensors.readers[i]) handed.insert({static_cast<int>(i), reader});
    }
    EXPECT_EQ(told, handed) << seed;
    apart += static_cast<int>(told.size());
  }
  EXPECT_GT(apart, 12);
}

TEST(ExplainFusion, NamesRefusalsAndPredictedLosses) {
  // Far too long for one thread, and over neither rows nor columns.
  Plan plan = Unfused(PlansOf(ReadChain("x: f32[64,96,32]; rows = sum(x, 2, keep); out "
                                        "spread(sum(x * spread(rows, x), 1, keep), x) * x"),
                              1));
  ASSERT_GT(plan.kernels.size(), 2u);
  const Explanation picture = Explained(plan);
  ASSERT_FALSE(picture.apart.empty());
  for (const ApartKernels& pair : picture.apart) {
    EXPECT_TRUE(absl::StrContains(pair.why, "one kernel is predicted to take") ||
                absl::StrContains(pair.why, "another kernel needs the first") ||
                absl::StrContains(pair.why, "op "))
        << pair.why;
  }
}

// A value is concatenated with a value computed from it, again and again.
Chain ManyConcatenations(int times) {
  ChainReader chain("x: f32[64,96]");
  for (int i = 0; i < times; ++i) chain.Add("x = tanh(tanh(tanh(x))); out concat(x, exp(x), 1)");
  return chain.Finish();
}

TEST(ExplainFusion, NamesBodiesThatTakeTooLongToCompile) {
  const FusionResult result = PlansOf(ManyConcatenations(40), 1);
  ASSERT_GT(result.chosen.kernels.size(), 1u);
  const Explanation picture = Explained(result.chosen);
  const auto too_long = [](const ApartKernels& pair) {
    return absl::StrContains(pair.why, "concatenations take a compiler too long");
  };
  EXPECT_TRUE(std::any_of(picture.apart.begin(), picture.apart.end(), too_long));
}

TEST(ExplainFusion, TellsPackedPartsThatAreAlikeOnce) {
  const FusionResult result = PlansOf(testing::AdamOver({30000, 50000, 77777, 20000}), 1);
  const Explanation picture = Explained(result.chosen);
  ASSERT_EQ(picture.kernels.size(), 1u);
  EXPECT_EQ(picture.kernels[0].PartCount(), 4);
  ASSERT_EQ(picture.kernels[0].parts.size(), 1u);
  EXPECT_THAT(FusionText(picture.kernels[0]), HasSubstr("4 parts alike; the first:"));
  EXPECT_THAT(PlanSvg(picture), HasSubstr("4 packed parts are alike"));
}

// exp(x), its rows and columns changed round, three times: the third value takes the first one's
// place.
TEST(ExplainFusion, TellsWhatIsHandedOverThroughSharedMemory) {
  const Chain chain = ReadChain(
      "x: f32[M,8,8]; a = exp(x); b = exp(transpose(a, 0, 2, 1)); c = exp(transpose(b, 0, 2, 1)); "
      "out exp(transpose(c, 0, 2, 1)), sum(x, 1, 2)");
  auto spec = std::make_shared<StitchSpec>();
  spec->body = chain;
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kReduce) spec->schedule.owner = static_cast<int32_t>(id);
    const bool stored = chain.outputs()[0].value == static_cast<ValueId>(id) ||
                        chain.outputs()[1].value == static_cast<ValueId>(id);
    if (op.kind != OpKind::kUnary || stored) continue;
    spec->schedule.handed.push_back(static_cast<int32_t>(id));
  }
  ASSERT_EQ(spec->schedule.handed.size(), 3u);
  spec->operands = {{0, 0}, {1, 0}, {2, 0}};
  Plan plan{.fused = true, .bucket = 4};
  plan.kernels.emplace_back();
  plan.kernels[0].spec.family = &StitchFamily();
  plan.kernels[0].spec.body = MakeBody(*spec);
  const Explanation picture = Explained(plan);
  ASSERT_EQ(picture.kernels.size(), 1u);
  const KernelDescription& kernel = picture.kernels[0];
  EXPECT_EQ(kernel.edges[static_cast<size_t>(Composition::kBlock)], 3);
  ASSERT_EQ(kernel.hands.size(), 3u);
  EXPECT_EQ(kernel.hands[2].instead, 0);
  EXPECT_EQ(kernel.hands[2].offset, kernel.hands[0].offset);
  EXPECT_THAT(FusionText(kernel), HasSubstr(" block"));
  EXPECT_THAT(FusionText(kernel), HasSubstr("in the slot of %0 exp"));
  EXPECT_EQ(nlohmann::json::parse(FusionJson(picture))["kernels"][0]["hands"][2]["instead"], 0);
}

TEST(ExplainFusion, LongPlansFoldWhatIsAlike) {
  const Chain chain = testing::TransformerGlue(24, 256, 256);
  const FusionResult result = PlansOf(chain, 1);
  const Explanation picture = Explained(result.chosen);
  EXPECT_GT(result.chosen.kernels.size(), 90u);
  EXPECT_LT(picture.equal.size(), 24u);
  size_t kernels = 0;
  for (const auto& equal : picture.equal) kernels += equal.size();
  EXPECT_EQ(kernels, result.chosen.kernels.size());
  EXPECT_LT(picture.Reasons().size(), 40u);
  const std::string svg = PlanSvg(picture);
  EXPECT_LT(svg.size(), 400000u);
  EXPECT_THAT(svg, HasSubstr("a product&#39;s kernel takes element-wise ops"));
  for (absl::string_view line : absl::StrSplit(ApartText(picture), '\n')) {
    EXPECT_LE(line.size(), 140u) << line;
  }
}

TEST(ExplainFusion, EveryFormSaysTheSame) {
  const Chain chain = testing::RandomDag(7, 60, 512, 768);
  const Plan plan = PlansOf(chain, 1).chosen;
  const Explanation picture = Explained(plan);
  const auto json = nlohmann::json::parse(FusionJson(picture));
  const std::string svg = PlanSvg(picture), apart = ApartText(picture);
  ASSERT_EQ(json["kernels"].size(), plan.kernels.size());
  EXPECT_EQ(json["saved_bytes"], picture.saved_bytes);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelDescription& kernel = picture.kernels[i];
    const std::string text = FusionText(kernel);
    for (int by = 0; by < kCompositions; ++by) {
      const std::string name(NameOf(Composition(by)));
      const int count = kernel.edges[static_cast<size_t>(by)];
      EXPECT_EQ(json["kernels"][i]["edges"][name], count);
      if (count == 0) continue;
      EXPECT_THAT(text, HasSubstr(std::to_string(count) + " " + name));
      EXPECT_THAT(svg, HasSubstr("class=\"way way-" + name + "\""));
      EXPECT_THAT(svg, HasSubstr(" " + name + "<"));
    }
  }
  for (const auto& pair : json["not_fused"]) {
    const std::string why = pair["why"];
    EXPECT_THAT(apart, HasSubstr(why.substr(0, 30)));
    EXPECT_THAT(svg, HasSubstr(why.substr(0, 30)));
  }
}

TEST(ExplainFusion, IsAFunctionOfThePlanAlone) {
  const Chain chain = testing::RandomDag(3, 80, 512, 768);
  const Plan plan = PlansOf(chain, 1).chosen;
  const Plan decoded = Got(testing::Reassembled(plan, chain));
  EXPECT_EQ(PlanSvg(Explained(plan)), PlanSvg(Explained(decoded)));
}

TEST(ExplainFusion, DrawsTilesAndOpsOfAMixedPlanWithoutCuttingALabel) {
  const std::string name = "model.layers.0.input_layernorm.weight_with_a_long_name";
  ChainReader reader("hidden: bf16[M,256]; proj: bf16[512,256]");
  reader.Name("scale",
              *reader.builder().Input({DType::kF32, {Dim::Constant(512)}}, {false, {}, name}));
  reader.Add(
      "y = hidden @ proj.T; share = y / spread(sum(y, 1, keep), y); "
      "out bf16(share * spread(scale, y))");
  const Chain chain = reader.Finish();
  const FusionResult plans = PlansOf(chain, 128);
  ASSERT_GT(plans.chosen.kernels.size(), 1u);
  BufferNames names;
  for (const int32_t input : chain.InputOrder()) {
    names.names.push_back(chain.InputName(input));
    names.given.push_back(true);
  }
  Explanation e = Describe(plans.chosen, H200(), names);
  ExplainFusion(H200(), &e);
  const std::string svg = PlanSvg(e);
  for (const char* part : {"class=\"step\"", "class=\"step reduces\"", "w = proj", "hidden (#"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, HasSubstr(">" + name + " (broadcast)<"));
  EXPECT_THAT(svg, Not(HasSubstr("..<")));
}

TEST(ExplainFusion, HasNothingToSayOfProductsAlone) {
  const auto problem = Got(ParseProblem("gated_ffn m=128 n=512 k=256 l=256 act=silu layout=oi"));
  EXPECT_FALSE(Explained(PlansOf(problem.chain, 128).chosen).has_ops);
}

TEST(TensorsOf, GivesAPlaceInTheWorkspaceToOneTensorAfterAnother) {
  const Plan plan = PlansOf(testing::TransformerGlue(6, 256, 256), 1).chosen;
  const PlanTensors tensors = TensorsOf(plan);
  std::set<std::string> places;
  bool again = false;
  for (const PlanTensor& tensor : tensors.tensors) {
    again |= !places.insert(tensor.place).second;
    for (int reader : tensor.readers) EXPECT_GT(reader, tensor.writer);
  }
  EXPECT_TRUE(again) << "no place is used twice";
}

TEST(JoinBodies, ComputesWhatBothDo) {
  const Chain first = ReadChain("x: f32[8,16]; out exp(x)"),
              second = ReadChain("y: f32[8,16]; z: f32[8,16]; out y + z");
  const auto joined = Got(JoinBodies({&first, {0, 1}}, {&second, {1, 0, 2}}, {}));
  EXPECT_EQ(joined.num_inputs(), 1);
  EXPECT_EQ(joined.num_outputs(), 1);
  EXPECT_EQ(joined.ops().size(), 3u);
  EXPECT_EQ(JoinBodies({&first, {0, 1}}, {&second, {1, 0, 2}}, {1})->num_outputs(), 2);
}

}  // namespace
}  // namespace sinter
