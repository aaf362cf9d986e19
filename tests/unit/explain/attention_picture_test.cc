// Pictures of attention: what they say of a problem and a schedule.
#include "src/explain/explain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_attention.h"

namespace sinter {
namespace {

AttentionPicture Picture(const AttentionProblem& problem) {
  AttentionSchedule schedule;
  schedule.warpgroups = 2;
  schedule.grid = 132;
  return PictureOf(problem, schedule, 8);
}

TEST(AttentionPicture, PartsOfSharedMemoryAddUp) {
  const AttentionPicture picture = Picture(SampleAttentionProblem());
  int64_t sum = 0;
  for (const SharedPart& part : picture.shared) sum += part.bytes * part.count;
  EXPECT_EQ(sum, picture.shared_bytes);
}

TEST(AttentionPicture, FormulasNameEveryStep) {
  AttentionProblem p = SampleAttentionProblem();
  EXPECT_EQ(Picture(p).formula, "out = softmax(causal(0.125 q k^T + term)) v");
  std::reverse(p.steps.begin(), p.steps.end());
  p.causal = false;
  EXPECT_EQ(Picture(p).formula, "out = softmax(0.125 (q k^T + term)) v");
  p.steps[0].kind = ScoreStep::kSelect;
  p.steps[0].number = -1;
  EXPECT_EQ(Picture(p).formula, "out = softmax(0.125 where(term, q k^T, -1)) v");
  p.steps[0].kind = ScoreStep::kHide;
  p.steps[1].kind = ScoreStep::kRound;
  p.steps[1].dtype = DType::kF16;
  EXPECT_EQ(Picture(p).formula, "out = softmax(f16(where(term, -1, q k^T))) v");
}

// A tile is skipped if, and only if, its first key lies after what the item's last row sees.
TEST(AttentionPicture, SkipsTheTilesThatNoRowSees) {
  AttentionProblem p = SampleAttentionProblem();
  const AttentionPicture picture = Picture(p);
  ASSERT_EQ(picture.Items(), 4);
  ASSERT_EQ(picture.Tiles(), 12);
  for (int64_t item = 0; item < picture.Items(); ++item) {
    for (int64_t tile = 0; tile < picture.Tiles(); ++tile) {
      EXPECT_EQ(picture.IsSkipped(item, tile), tile * 64 > item * 128 + 127 + p.diagonal)
          << item << " " << tile;
    }
  }
  p.diagonal = -512;
  EXPECT_FALSE(Picture(p).IsSkipped(0, 0));  // the first tile is always multiplied
  p.causal = false;
  EXPECT_FALSE(Picture(p).IsSkipped(0, 11));
}

TEST(AttentionPicture, IsDrawn) {
  Plan plan;
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SampleAttention();
  const std::string svg = PlanSvg(Describe(plan, *BuiltinModel("h200")));
  EXPECT_THAT(svg, Not(HasSubstr("not drawn")));
  EXPECT_THAT(svg, HasSubstr("out = softmax(causal(0.125 q k^T + term)) v"));
  EXPECT_THAT(svg, HasSubstr("class=\"skipped\""));
}

}  // namespace
}  // namespace sinter
