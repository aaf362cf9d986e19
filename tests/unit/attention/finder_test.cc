// Attention is found in every spelling, and planned as one kernel.
#include "src/attention/attention.h"
#include "src/base/device_model.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/attention_family.h"
#include "src/plan/kernel_code.h"
#include "tests/support/attention_chains.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int64_t kFewScores = 1024;

std::shared_ptr<const NormalForm> FormOf(const testing::AttentionForm& form) {
  return *NormalFormOf(std::make_shared<const Chain>(testing::MakeAttention(form)));
}

TEST(FindAttention, FindsEverySpellingInItsNormalForm) {
  for (const testing::AttentionForm& form : testing::AttentionForms()) {
    const auto normal = FormOf(form);
    const std::vector<FoundAttention> found = FindAttention(*normal->chain);
    ASSERT_EQ(found.size(), 1u) << form.Name() << "\n" << normal->chain->ToString();
    const AttentionProblem& p = found[0].problem;
    // Heads that share the keys of one row are rows.
    const int64_t joined = form.rows == 1 ? form.group : 1;
    EXPECT_EQ(p.rows, form.rows * joined) << form.Name();
    EXPECT_EQ(p.keys, form.keys) << form.Name();
    EXPECT_EQ(p.head, form.head) << form.Name();
    EXPECT_EQ(p.BatchesAt(form.batch), form.batch * form.heads / joined) << form.Name();
    EXPECT_EQ(p.zero_unseen, form.zero_unseen) << form.Name();
    int64_t keys = 1;  // batches that lie apart
    for (const BatchDigit& digit : p.k.digits)
      keys *= digit.extent == 0 ? form.batch : digit.extent;
    EXPECT_EQ(keys, form.batch * form.heads / form.group) << form.Name();
    EXPECT_EQ(found[0].end, normal->chain->outputs()[0].value) << form.Name() << "\n"
                                                               << normal->chain->ToString();
    const auto again = Got(AttentionProblem::FromCanonical(p.Canonical()), form.Name());
    EXPECT_TRUE(again == p) << form.Name();
  }
}

TEST(AttentionPlans, AreOneKernelOfEverySpelling) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const testing::AttentionForm& form : testing::AttentionForms()) {
    const auto normal = FormOf(form);
    const int64_t bucket = form.of_m ? BucketOf(*normal->chain, form.batch) : 1;
    const auto planned = Got(PlanChain(*normal->chain, bucket, model, {}), form.Name());
    const Plan& plan = planned.chosen;
    // Threads may be faster where there is little to multiply.
    const size_t most = form.scale_first || form.rows * form.keys < kFewScores ? 2 : 1;
    EXPECT_LE(plan.kernels.size(), most) << form.Name() << "\n" << plan.ToText();
    const auto generated = Got(Generate(plan.kernels.back().spec, model), form.Name());
    EXPECT_TRUE(generated.recipe.Check().ok()) << generated.recipe.Check();
    const auto assembled = Got(Assembly(*normal->chain, bucket, model)
                                   .Assemble(*DecodeDecisions(EncodeDecisions(DecisionsOf(plan)))),
                               form.Name());
    EXPECT_EQ(assembled.plan.PlanDigest(), plan.PlanDigest()) << form.Name();
  }
}

TEST(AttentionPlans, SayWhyAKernelDoesNotTakeIt) {
  testing::AttentionForm form;
  form.batch = 2, form.heads = 4, form.rows = form.keys = 300, form.head = 192;
  const auto wide = PlanChain(*FormOf(form)->chain, 1, *BuiltinModel("h200"), {});
  EXPECT_TRUE(Says(wide, "as attention: head 192, must be in [8, 128]"));
}

// Attention of M batches, 4 heads and 320 rows, with something that no kernel takes.
struct Odd {
  bool waves = false, cast = true, packed = false;
};

std::string RefusalOf(const Odd& odd) {
  ChainReader r("q, k, v: bf16[M,4,320,64] $0; s = q @ k.T",
                odd.packed ? "strides(84480, 21120, 66, 1)" : "");
  if (odd.waves) r.Add("s = sin(s) * 30");
  r.Add("p = softmax(s)");
  if (odd.cast) r.Add("p = bf16(p)");
  r.Add("out bf16(p @ v)");
  const auto normal = *NormalFormOf(std::make_shared<const Chain>(r.Finish()));
  const auto planned = PlanChain(*normal->chain, 8, *BuiltinModel("h200"), {});
  EXPECT_FALSE(planned.ok());
  return std::string(normal->InCallersNumbers(planned.status()).message());
}

// What keeps it from being attention comes first, with M as batch too: no extent would help.
TEST(AttentionPlans, SayFirstWhatKeepsBatchesOfMFromAKernel) {
  const auto refusal = [](int64_t head, int64_t value_head, int64_t keys) {
    testing::AttentionForm form;
    form.of_m = true, form.heads = 4, form.rows = 320, form.keys = keys;
    form.head = head, form.value_head = value_head;
    return std::string(
        PlanChain(*FormOf(form)->chain, 8, *BuiltinModel("h200"), {}).status().message());
  };
  const std::pair<std::string, std::string> cases[] = {
      {refusal(256, 256, 320), "as attention: head 256, must be in [8, 128]: give each batch a "},
      {refusal(192, 128, 320), "as attention: head 192, must be in [8, 128]: give each batch a "},
      {refusal(64, 64, 65544),
       "as attention: keys 65544, must be in [1, 65536]: give each batch a "},
      {RefusalOf({true, true, false}),
       ", sin) is between the product of q and k and the softmax, where kernels take element-wise "
       "ops that keep no array: give each batch a chain of its own"},
      {RefusalOf({false, false, false}),
       "are f32, must be bf16 or f16: cast them to the dtype of v"},
      {RefusalOf({false, true, true}),
       "as attention: q's stride 66, must be a multiple of 8 (16 bytes): copy it"},
  };
  for (const auto& [message, why] : cases) {
    EXPECT_THAT(message, HasSubstr(why));
    EXPECT_THAT(message, Not(HasSubstr("M may only count rows"))) << message;
  }
}

EpilogueProgram ProgramOf(absl::string_view term, int64_t heads = 3) {
  const auto form = testing::ReadAttentionForm(absl::StrCat("2x", heads, " 49x80 32 ", term));
  return FindAttention(*FormOf(form)->chain).at(0).problem.program;
}

// A kernel computes values of indices, and values of fewer elements than they have.
TEST(ScorePrograms, AreOfAnyElementWiseOps) {
  EXPECT_EQ(ToString(ProgramOf("of_heads")), "add(y,to_f32(r))");
  EXPECT_EQ(ToString(ProgramOf("mask")), "select(r,y,-inf)");
  EXPECT_EQ(ToString(ProgramOf("capped")), "mul(tanh(mul(y,0.0333333)),30)");
  EXPECT_EQ(ToString(ProgramOf("alibi")), "add(y,mul(r,sub(column,row)))");
  EXPECT_EQ(ToString(ProgramOf("band")),
            "select(and(ge(row,column),lt(sub(row,column),21)),"
            "add(mul(tanh(mul(y,0.0333333)),30),mul(r,sub(column,row))),-inf)");
  EXPECT_EQ(ToString(ProgramOf("gated_cap")),
            "select(r1,-3.40282e+38,mul(tanh(mul(mul(y,to_f32(r2)),0.0333333)),30))");
}

TEST(ScorePrograms, ShortenATanhThatIsOnlyScaledAndAdded) {
  const auto of_tanh = [](absl::string_view steps) {
    const Chain chain = ReadChain(absl::StrCat("q, k, v: bf16[3,2,40,16]; s = q @ k.T; ", steps,
                                               "; p = bf16(softmax(s)); out bf16(p @ v)"));
    const auto normal = *NormalFormOf(std::make_shared<const Chain>(chain));
    const EpilogueProgram program = FindAttention(*normal->chain).at(0).problem.program;
    const std::vector<Precision> precisions = ScorePrecisions(program);
    for (size_t id = 0; id < precisions.size(); ++id) {
      if (IsUnary(program.body->ops()[id], UnaryKind::kTanh)) return precisions[id];
    }
    return Precision::kFast;
  };
  EXPECT_EQ(of_tanh("s = tanh(s) * 50 + s"), Precision::kBesideOne);
  EXPECT_EQ(of_tanh("s = tanh(s) * 100"), Precision::kExact);
  EXPECT_EQ(of_tanh("s = tanh(s) * 10 * 10"), Precision::kExact);
  EXPECT_EQ(of_tanh("s = tanh(s) * s"), Precision::kExact);
}

TEST(AttentionPlans, LetAnEncodersLayerBeOnePlan) {
  const auto chain = std::make_shared<const Chain>(testing::MakeEncoderLayer(8, 128, 12, 64));
  const auto normal = *NormalFormOf(chain);
  const auto planned =
      Got(PlanChain(*normal->chain, 1, *BuiltinModel("h200"), {}), normal->chain->ToString());
  EXPECT_LE(planned.chosen.kernels.size(), 8u) << planned.chosen.ToText();
}

}  // namespace
}  // namespace sinter
