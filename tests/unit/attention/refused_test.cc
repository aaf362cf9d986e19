// What a kernel of attention does not take is refused, with the op, the value and the bound.
#include "src/attention/attention.h"
#include "src/base/device_model.h"
#include "src/normal/normal_form.h"
#include "src/plan/attention_family.h"
#include "src/plan/plan.h"
#include "tests/support/attention_chains.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

using Form = testing::AttentionForm;

AttentionProblem ProblemOf(const Form& form) {
  const auto normal = *NormalFormOf(std::make_shared<const Chain>(testing::MakeAttention(form)));
  return FindAttention(*normal->chain).at(0).problem;
}

AttentionProblem CausalOfM() {
  Form form;
  form.heads = 8, form.rows = form.keys = 500, form.of_m = true, form.term = Form::Term::kCausal;
  return ProblemOf(form);
}

KernelSpec SpecOf(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  auto own = std::make_shared<AttentionSpec>();
  own->code = {problem, schedule};
  return KernelSpec{.family = &AttentionFamily(), .body = MakeBody(std::move(*own))};
}

// The reason for which FindAttention refuses the chain's attention, whichever GEMM reports it.
std::string WhyOf(const Chain& chain) {
  std::map<ValueId, std::string> refused;
  EXPECT_TRUE(FindAttention(chain, &refused).empty());
  return refused.empty() ? "" : refused.begin()->second;
}

constexpr char kRefused[] = "tests/unit/attention/refused.txt";

// Attention with another v, with a term, and with further outputs.
std::string WhyWith(absl::string_view v, absl::string_view term = "",
                    absl::string_view outputs = "") {
  return WhyOf(
      ReadChain("q, k: bf16[4,64,32]; $0; product = q @ k.T; p = bf16(softmax(product$1));"
                "out bf16(p @ v)$2",
                v, term, outputs));
}

TEST(RefusedAttention, NamesTheOpTheValueAndTheBound) {
  constexpr char kV[] = "v: bf16[4,64,32]";
  EXPECT_THAT(WhyWith("v: f16[4,64,32]"),
              HasSubstr("input) is f16, must be bf16 as the probabilities are: cast it"));
  EXPECT_THAT(WhyWith("w: bf16[4,64,40]; v = w[:, :, 4:36]"),
              HasSubstr(", slice) begins 4 elements into (op "));
  EXPECT_THAT(WhyWith("w: bf16[4,32,64]; v = transpose(w, 0, 2, 1)"),
              HasSubstr("v's column stride 64, must be 1: copy it"));
  EXPECT_THAT(WhyWith(kV, " + {f32[]}"), HasSubstr("is one number: broadcast it"));
  EXPECT_THAT(WhyWith(kV, "", ", p"), HasSubstr("is inside, and an output"));
  EXPECT_THAT(WhyWith(kV, "", ", bf16(exp(product))"), HasSubstr(", exp) outside reads it"));
}

TEST(RefusedAttention, IsBeyondBoundsThatItNames) {
  const AttentionProblem good = CausalOfM();
  ASSERT_FALSE(good.out.digits.empty());
  ExpectRefusedChanges(kRefused, "problems", good,
                       [](const AttentionProblem& p) { return p.Check(); });
  // No chain says so, but a damaged record may.
  const AttentionProblem overflowed = Changed(good, "zero_overflowed=true");
  EXPECT_FALSE(AttentionProblem::FromCanonical(overflowed.Canonical()).ok());
}

TEST(RefusedAttention, HasMoreBlocksThanAreResident) {
  const DeviceModel model = *BuiltinModel("h200");
  const AttentionProblem p = CausalOfM();
  AttentionSchedule s = RankAttention(p, 1024, model, 1, true)->front().schedule;
  s.grid = int64_t{s.resident} * model.sm_count;
  EXPECT_TRUE(CheckSchedule(p, s, model).ok());
  ++s.grid;
  EXPECT_TRUE(Says(CheckSchedule(p, s, model), "schedule: grid"));
}

TEST(RefusedAttention, HasSplitsThatTilesOrTheChipDoNotGive) {
  DeviceModel model = *BuiltinModel("h200");
  const AttentionProblem p = Changed(CausalOfM(), "keys=640");
  const AttentionSchedule s = Changed(AttentionSchedule(), "grid=8 splits=8");
  ExpectRefusedSchedules(kRefused, "splits", p, s, model);
  model.resident_clusters[static_cast<size_t>(ClusterIndex(8))] = 0;
  EXPECT_TRUE(Says(CheckSchedule(p, s, model), "splits 8, must be less: the chip has no clusters"));
  EXPECT_OK(RankAttention(p, 1, model, 4, true));
}

// Batch-invariant plans split keys alike at any M. Others split them where there are few items.
TEST(FewRows, AreSplitAlikeInBatchInvariantPlans) {
  const DeviceModel model = *BuiltinModel("h200");
  AttentionProblem p = CausalOfM();
  p.causal = false;
  p.rows = 1, p.keys = 4096;
  std::set<int> invariant, any;
  for (const int64_t m : {1, 8, 300, 1024, 4096}) {
    for (const RankedAttention& each : Got(RankAttention(p, m, model, 11, false))) {
      invariant.insert(each.schedule.splits);
    }
    any.insert(Got(RankAttention(p, m, model, 1, true)).front().schedule.splits);
  }
  EXPECT_EQ(invariant.size(), 1u);
  EXPECT_GT(any.size(), 1u);
}

// A row's sums are added in an order that its splits decide.
TEST(FewRows, HaveTheirSplitsInTheRowOrder) {
  AttentionProblem p = CausalOfM();
  p.keys = 640;
  AttentionSchedule s;
  const std::string one = RowOrder(SpecOf(p, s));
  s.splits = 2;
  EXPECT_NE(RowOrder(SpecOf(p, s)), one);
}

// A hidden key's value that is not finite reaches the rows of an item that looks at its tile.
TEST(CausalRowOrder, HasTheRowsOfAnItem) {
  const DeviceModel model = *BuiltinModel("h200");
  const AttentionProblem p = CausalOfM();
  AttentionSchedule s = RankAttention(p, 1024, model, 1, true)->front().schedule;
  s.warpgroups = 1;
  const std::string one = RowOrder(SpecOf(p, s));
  s.warpgroups = 2;
  EXPECT_NE(RowOrder(SpecOf(p, s)), one);
  std::set<std::string> orders;
  for (int64_t m = 1; m <= 8192; m *= 2) {
    const auto ranked = Got(RankAttention(p, m, model, 11, false));
    for (const RankedAttention& each : ranked) orders.insert(RowOrder(SpecOf(p, each.schedule)));
  }
  EXPECT_EQ(orders.size(), 1u);
}

TEST(LayoutOf, GoesThroughABoundedNumberOfViews) {
  ChainReader r("x: bf16[8,16]; y = x");
  for (int i = 0; i < 20; ++i) r.Add("y = transpose(y, 1, 0)");
  const ValueId near = r["y"];
  for (int i = 0; i < 2000; ++i) r.Add("y = transpose(y, 1, 0)");
  const ValueId x = r["x"], y = r["y"];
  r.Out(y);
  const Chain chain = r.Finish();
  EXPECT_EQ(LayoutOf(chain, near).base, x);
  EXPECT_GT(LayoutOf(chain, y).base, near);
}

}  // namespace
}  // namespace sinter
