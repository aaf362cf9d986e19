// The lines that describe a kernel of attention: its formula, the items of scores, a block.
#include "src/explain/explain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_attention.h"

namespace sinter {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

AttentionSchedule TwoWarpgroups() { return AttentionSchedule{.warpgroups = 2, .grid = 132}; }

std::string Formula(const AttentionProblem& problem) {
  const Lines lines = AttentionLines(problem, TwoWarpgroups(), 8);
  EXPECT_EQ(lines.at(0).first, "computes");
  return lines.at(0).second.substr(0, lines.at(0).second.find(", for each of "));
}

TEST(AttentionLines, FormulasNameEveryStep) {
  AttentionProblem p = SampleAttentionProblem();
  EXPECT_EQ(Formula(p), "out = softmax(causal(0.125 q k^T + term)) v");
  std::reverse(p.steps.begin(), p.steps.end());
  p.causal = false;
  EXPECT_EQ(Formula(p), "out = softmax(0.125 (q k^T + term)) v");
  p.steps[0].kind = ScoreStep::kSelect;
  p.steps[0].number = -1;
  EXPECT_EQ(Formula(p), "out = softmax(0.125 where(term, q k^T, -1)) v");
  p.steps[0].kind = ScoreStep::kHide;
  p.steps[1].kind = ScoreStep::kRound;
  p.steps[1].dtype = DType::kF16;
  EXPECT_EQ(Formula(p), "out = softmax(f16(where(term, -1, q k^T))) v");
}

TEST(AttentionLines, TellOfItemsAndSharedMemory) {
  AttentionProblem p = SampleAttentionProblem();
  const AttentionSchedule s = TwoWarpgroups();
  const Lines lines = AttentionLines(p, s, 8);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[1].second, HasSubstr("are 4 x 128 rows and 12 tiles of 64 keys"));
  EXPECT_THAT(lines[1].second, HasSubstr("tiles that no row of an item sees are skipped"));
  EXPECT_THAT(lines[2].second, HasSubstr("132 blocks, each takes up to "));
  const int64_t rest = AttentionSharedBytes(p, s) - AttentionQueryBytes(p, s) * s.query_stages -
                       AttentionStageBytes(p, s) * s.stages;
  EXPECT_THAT(lines[3].second,
              HasSubstr(ToString({{"rows of q", AttentionQueryBytes(p, s), s.query_stages},
                                  {"ring", AttentionStageBytes(p, s), s.stages},
                                  {"other", rest}})));
  p.causal = false;
  EXPECT_THAT(AttentionLines(p, s, 8)[1].second, Not(HasSubstr("skipped")));
}

TEST(AttentionLines, AreInTextAndDrawing) {
  Plan plan;
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SampleAttention();
  const Explanation e = Describe(plan, *BuiltinModel("h200"));
  for (const std::string& told : {ExplanationText(e), PlanSvg(e)}) {
    EXPECT_THAT(told, HasSubstr("out = softmax(causal(0.125 q k^T + term)) v"));
    EXPECT_THAT(told, HasSubstr("rows of q"));
  }
}

}  // namespace
}  // namespace sinter
