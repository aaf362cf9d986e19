// Plans of more than two products: how they are cut, what their kernels read and write.
#include "src/fusion/rankings.h"
#include "src/product/search/space.h"
#include "tests/support/files.h"
#include "tests/support/plan_of_products.h"
#include "tests/support/sequences.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::AllPlans;

constexpr const char* kLines[] = {
    "products m=M k=1024 n=4096,1024,1024 act=relu,identity,identity",
    "products m=M k=1024 n=3072,1024,768 act=silu,identity,identity gated=1,0,0",
    "products m=M k=1024 n=1024,3072,1024 act=identity,silu,identity gated=0,1,0 layout=io",
    "products m=M k=512 n=512,512,256 act=relu,relu,identity bias=1",
    "products m=M k=256 n=512,256,512,256,128,64,128 dtype=f16",
};

Chain ChainOf(absl::string_view line) { return ParseProblem(line)->chain; }

Segmentation CutOf(const Plan& plan) {
  Segmentation segments;
  int next = 0;
  for (const PlannedKernel& k : plan.kernels) {
    segments.push_back({next, ProductOf(k.spec).sequence.size()});
    next = segments.back().end();
  }
  return segments;
}

struct Range {
  uint64_t begin, end;
};
// Bytes of the workspace that an operand of `spec` covers.
Range RangeOf(const KernelSpec& spec, const OperandBinding& b) {
  const ProductSequence& p = ProductOf(spec).sequence;
  if (b.role == Role::kPartialOut) {
    const int64_t parts = SizesOf(p, ProductOf(spec).schedule).partial_out_bytes;
    return {b.offset_bytes, b.offset_bytes + static_cast<uint64_t>(parts)};
  }
  const int64_t columns =
      b.role == Role::kA ? p[0].k : (b.role == Role::kOut && p.size() == 2 ? p[1].n : p[0].n);
  EXPECT_EQ(b.row_stride, columns) << FieldOf(b.role);
  return {b.offset_bytes,
          b.offset_bytes + static_cast<uint64_t>(p.m * columns * SizeOf(p.element()))};
}

// Buffers of one kernel: rows, C and result are inside the workspace, after the flags, disjoint.
void ExpectApart(const Plan& plan, const KernelSpec& spec) {
  std::vector<Range> ranges;
  for (const OperandBinding& b : ProductOf(spec).operands) {
    if (b.buffer != kWorkspaceBuffer) continue;
    const Range range = RangeOf(spec, b);
    EXPECT_GE(range.begin, kWorkspaceFlagBytes);
    EXPECT_LE(range.end, plan.workspace_bytes);
    EXPECT_EQ(range.begin % 1024, 0u);
    for (const Range& other : ranges) {
      EXPECT_TRUE(range.end <= other.begin || other.end <= range.begin) << FieldOf(b.role);
    }
    ranges.push_back(range);
  }
}

// Parts are as large as the schedule makes them. They come after all results, wherever those are.
TEST(PlanProducts, PartsOfEOverlapNoResult) {
  const Chain chain =
      ChainOf("products m=M k=512 n=512,2048,512,512 act=relu,identity,identity,relu");
  const MatchedSequence matched = *MatchProducts(chain, 128);
  for (const Segmentation& cut : {Segmentation{{0, 2}, {2, 1}, {3, 1}}, {{0, 1}, {1, 2}, {3, 1}}}) {
    std::vector<RankedSchedule> ranked;
    for (const Segment& segment : cut) {
      SearchOptions options{.offered = Offered::kTuning};
      const ProductSequence p = matched.sequence.Part(segment.begin, segment.count);
      RankedSchedule found;
      EnumerateSpace(p, H200(), options, [&](const Schedule& s) {
        if ((RangesOf(s) > 1) == (segment.count == 2) && CheckSchedule(p, s, H200()).ok())
          found.schedule = s;
      });
      ranked.push_back(found);
    }
    const Plan plan = MakePlan(chain, matched, cut, ranked);
    int with_parts = 0;
    for (const PlannedKernel& kernel : plan.kernels) {
      ExpectApart(plan, kernel.spec);
      with_parts += FindOperand(ProductOf(kernel.spec).operands, Role::kPartialOut) != nullptr;
    }
    EXPECT_EQ(with_parts, 1);
    EXPECT_EQ(FindOperand(ProductOf(plan.kernels[cut[0].count == 2 ? 0 : 1].spec).operands,
                          Role::kPartialOut)
                  ->offset_bytes,
              kWorkspaceFlagBytes + RegionOf(matched.sequence, 2).end());
  }
}

TEST(PlanProducts, EveryPlanHandsOverFromKernelToKernel) {
  for (const char* line : kLines) {
    const Chain chain = ChainOf(line);
    const MatchedSequence matched = *MatchProducts(chain);
    const auto result = Got(PlanChain(chain, 128, H200(), {}), line);
    for (const Plan& plan : AllPlans(result)) {
      SCOPED_TRACE(plan.ToText());
      uint64_t handed_over = 0;
      std::multiset<int> inputs;
      for (size_t i = 0; i < plan.kernels.size(); ++i) {
        const KernelSpec& spec = plan.kernels[i].spec;
        ExpectApart(plan, spec);
        const OperandBinding *a = FindOperand(ProductOf(spec).operands, Role::kA),
                             *out = FindOperand(ProductOf(spec).operands, Role::kOut);
        ASSERT_TRUE(a != nullptr && out != nullptr);
        const bool first = i == 0, last = i + 1 == plan.kernels.size();
        EXPECT_EQ(a->buffer, first ? matched.rows : kWorkspaceBuffer);
        if (!first) {
          EXPECT_EQ(a->offset_bytes, handed_over);
        }
        EXPECT_EQ(out->buffer, last ? chain.num_inputs() : kWorkspaceBuffer);
        handed_over = out->offset_bytes;
        for (const OperandBinding& b : ProductOf(spec).operands) {
          if (b.buffer >= 0 && b.buffer < chain.num_inputs()) inputs.insert(b.buffer);
        }
        EXPECT_TRUE(CheckSchedule(ProductOf(spec).sequence, ProductOf(spec).schedule, H200()).ok());
      }
      for (int i = 0; i < chain.num_inputs(); ++i) EXPECT_EQ(inputs.count(i), 1u) << i;
      EXPECT_TRUE(Got(testing::Reassembled(plan, chain)).PlanDigest() == plan.PlanDigest());
    }
  }
}

TEST(PlanProducts, EveryKernelOfTheChosenAndTheUnfusedPlanIsGenerated) {
  for (const char* line : kLines) {
    const auto result = Got(PlanChain(ChainOf(line), 128, H200(), {}), line);
    std::set<bool> done;
    for (const Plan& plan : AllPlans(result)) {
      if (!done.insert(plan.fused).second) continue;
      for (const PlannedKernel& k : plan.kernels) {
        const auto kernel = Got(Generate(k.spec, H200()), plan.ToText());
      }
    }
    EXPECT_EQ(done.size(), 2u) << "fused and unfused: " << line;
  }
}

TEST(PlanProducts, TheChosenCutIsTheBestOfAllCuts) {
  for (const char* line : kLines) {
    for (int64_t bucket : {1, 128, 1024}) {
      const Chain chain = ChainOf(line);
      const ProductSequence matched = MatchProducts(chain, bucket)->sequence;
      const auto result = Got(PlanChain(chain, bucket, H200(), {}), line);
      const Rankings rankings = *Rankings::Make(matched, H200(), {});
      double best = std::numeric_limits<double>::infinity();
      // Bit i of `cut`: products i and i + 1 share a kernel.
      for (int cut = 0; cut < 1 << (matched.size() - 1); ++cut) {
        if (cut & (cut >> 1)) continue;
        double us = 0;
        for (int i = 0; i < matched.size(); ++i) {
          const bool pair = cut >> i & 1;
          us += pair && !CanPair(matched, i) ? std::numeric_limits<double>::infinity()
                                             : rankings.CostOf({i, pair ? 2 : 1});
          i += pair ? 1 : 0;
        }
        best = std::min(best, us);
      }
      EXPECT_DOUBLE_EQ(result.chosen.PredictedUs(), best) << line << " at " << bucket;
    }
  }
}

TEST(PlanProducts, OneWorkspaceServesEveryPlanOfAChain) {
  const auto result = Got(PlanChain(ChainOf(kLines[4]), 64, H200(), {}));
  const ProductSequence matched = MatchProducts(ChainOf(kLines[4]), 64)->sequence;
  for (const Plan& plan : AllPlans(result)) {
    const Segmentation cut = CutOf(plan);
    for (size_t i = 0; i + 1 < cut.size(); ++i) {
      EXPECT_EQ(FindOperand(ProductOf(plan.kernels[i].spec).operands, Role::kOut)->offset_bytes,
                kWorkspaceFlagBytes + RegionOf(matched, cut[i].end() - 1).offset);
    }
    for (size_t i = 0; i < cut.size(); ++i) {
      const OperandBinding* c = FindOperand(ProductOf(plan.kernels[i].spec).operands, Role::kC);
      if (c == nullptr) continue;
      EXPECT_EQ(c->offset_bytes, kWorkspaceFlagBytes + RegionOf(matched, cut[i].begin).offset);
    }
  }
}

// A region comes round again only when nothing of its former holder is left to read.
TEST(PlanProducts, NeighbouringResultsNeverShareARegion) {
  const ProductSequence matched = MatchProducts(ChainOf(kLines[4]), 64)->sequence;
  for (int i = 0; i + 1 < matched.size(); ++i) {
    for (int j = i + 1; j < std::min(i + 3, matched.size() - 1); ++j) {
      const WorkspaceRegion a = RegionOf(matched, i), b = RegionOf(matched, j);
      EXPECT_TRUE(a.end() <= b.offset || b.end() <= a.offset) << i << " " << j;
    }
  }
}

TEST(PlanProducts, GatedSecondProductsAreNoPairs) {
  const MatchedSequence matched = *MatchProducts(
      ChainOf("products m=M k=64 n=64,64,64,64 act=relu,identity,relu,silu gated=0,0,0,1"));
  EXPECT_TRUE(CanPair(matched.sequence, 0));
  EXPECT_TRUE(CanPair(matched.sequence, 1)) << "activated";
  EXPECT_FALSE(CanPair(matched.sequence, 2)) << "gated";
  const auto unpaired = Got(
      PlanChain(ChainOf("products m=M k=512 n=512,512,512 act=relu gated=0,1,1"), 128, H200(), {}));
  EXPECT_FALSE(unpaired.chosen.fused);
  EXPECT_EQ(unpaired.chosen.kernels.size(), 3u);
  EXPECT_EQ(ProductOf(unpaired.chosen.kernels[2].spec).sequence[0].epilogue.activation(),
            Activation::kRelu);
  EXPECT_EQ(unpaired.chosen.note, "products apart: each product after the first is gated");
}

// Products of 512 columns; each one's result and its rows' sum is the next one's rows where
// `residual` says so.
Chain WithResiduals(const std::vector<bool>& residual) {
  ChainReader r("x: bf16[M,512]");
  for (const bool added : residual) {
    r.Add("x = bf16(linear(x, {const bf16[512,512]}, none) $0)", added ? "+ {bf16[M,512]}" : "");
  }
  r.Add("out x");
  return r.Finish();
}

TEST(PlanProducts, AResidualIsReadByTheKernelOfItsProduct) {
  const Chain chain = WithResiduals({false, true, true});
  const MatchedSequence matched = *MatchProducts(chain);
  EXPECT_TRUE(CanPair(matched.sequence, 0));
  EXPECT_FALSE(CanPair(matched.sequence, 1)) << "the first of the two has a residual";
  const auto result = Got(PlanChain(chain, 128, H200(), {}));
  bool paired = false;
  for (const Plan& plan : AllPlans(result)) {
    SCOPED_TRACE(plan.ToText());
    paired |= plan.kernels.size() == 2;
    size_t product = 0;
    for (const PlannedKernel& k : plan.kernels) {
      product += static_cast<size_t>(ProductOf(k.spec).sequence.size());
      const int wanted = matched.NumberOf(static_cast<int>(product) - 1, Role::kResidual);
      const OperandBinding* residual = FindOperand(ProductOf(k.spec).operands, Role::kResidual);
      ASSERT_EQ(residual != nullptr, wanted >= 0);
      EXPECT_EQ(ResidualOf(ProductOf(k.spec).sequence),
                wanted >= 0 ? Residual::kAdded : Residual::kNone);
      if (residual != nullptr) {
        EXPECT_EQ(residual->buffer, wanted);
        EXPECT_EQ(residual->row_stride, 512);
      }
      EXPECT_TRUE(Generate(k.spec, H200()).ok());
    }
  }
  EXPECT_TRUE(paired);
  const auto none = Got(PlanChain(WithResiduals({true, true}), 128, H200(), {}));
  EXPECT_EQ(none.chosen.note,
            "products apart: each product after the first is gated, or follows a residual");
}

// Both are in one kernel, with the activation of each.
TEST(PlanProducts, TwoProductsWithAnActivationAtTheEndMayShareAKernel) {
  for (const char* act : {"relu", "gelu_erf", "gelu_tanh", "silu"}) {
    const auto result = Got(
        PlanChain(ChainOf(absl::StrCat("products m=M k=512 n=512,512 act=", act)), 16, H200(), {}));
    bool paired = false;
    for (const Plan& plan : AllPlans(result)) {
      if (plan.kernels.size() != 1) continue;
      paired = true;
      const auto made = Got(Generate(plan.kernels[0].spec, H200()));
      EXPECT_THAT(made.request.source, Not(HasSubstr("using Activation2 = Identity")));
    }
    EXPECT_TRUE(paired) << result.chosen.note;
  }
}

TEST(PlanProducts, NotesSayWhichProductsShareAKernel) {
  const auto result = Got(PlanChain(ChainOf(kLines[1]), 128, H200(), {}));
  for (const Plan& plan : AllPlans(result)) {
    if (!plan.fused) continue;
    EXPECT_EQ(plan.note, CutOf(plan)[0].count == 2 ? "products 1+2 | 3" : "products 1 | 2+3");
  }
}

TEST(PlanProducts, KernelsBehindOthersStartEarlyUnlessTheyAreCooperative) {
  const ProductSequence matched =
      MatchProducts(ChainOf("products m=M k=512 n=512,512,512,512"), 128)->sequence;
  const Rankings rankings = *Rankings::Make(matched, H200(), {});
  // Equal problems: what differs is where they stand.
  for (int count : {1, 2}) {
    const RankedSchedule& ahead = rankings.Of({0, count}).front();
    for (const RankedSchedule& behind : rankings.Of({1, count})) {
      if (!(behind.schedule == ahead.schedule)) continue;
      const bool cooperative = behind.schedule.dataflow == Dataflow::kGridExchange;
      EXPECT_EQ(behind.prediction.total_us < ahead.prediction.total_us, !cooperative);
    }
  }
}

TEST(PlanProducts, RefusesWithTheProductThatNoKernelTakes) {
  const struct {
    const char* line;
    const char* message;
  } cases[] = {
      {"products m=M k=512 n=512,500,512", "'w3' is bf16[512,500], its rows are 500"},
      {"products m=M k=512 n=512,512,512 dtype=f32", "'a' and 'w1' are f32"},
      {"products m=M k=512 n=512,512,500 layout=io", "'w3' is bf16[512,500], its rows are 500"},
  };
  for (const auto& c : cases) {
    const auto result = PlanChain(ChainOf(c.line), 128, H200(), {});
    EXPECT_EQ(StatusNumber(result.status()), static_cast<int>(ErrorCode::kNoLegalPlan));
    EXPECT_TRUE(Says(result, c.message));
  }
}

TEST(PlanProducts, TheCommittedProblemsHavePlans) {
  const auto problems = Got(ParseProblems(FileText("tests/bench/problems/products.txt")));
  EXPECT_GE(problems.size(), 5u);
  for (const Problem& p : problems) {
    EXPECT_GE(MatchProducts(p.chain)->size(), 3) << p.id;
    const auto result = Got(PlanChain(p.chain, BucketOf(p.m.value_or(1)), H200(), {}), p.id);
  }
}

}  // namespace
}  // namespace sinter
