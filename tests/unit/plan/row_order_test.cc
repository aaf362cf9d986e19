#include "src/plan/family.h"
#include "src/product/schedule_check.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

ProductSequence Two() {
  ProductSequence p = MakeSequence(64, MakeProduct(1024, 512, Activation::kSilu, true), 256);
  SetBias(&p, 0);
  SetBias(&p, 1);
  SetResidual(&p, Residual::kAdded);
  SetScale(&p, 1, 0.5);
  return p;
}

Schedule Cluster() {
  Schedule s =
      ReadSchedule("cluster-exchange bm64 wg1x1 bk64 st4 cl8 grid8 first 128/1 second 32/1");
  return s;
}

KernelSpec SpecOf(const ProductSequence& sequence, const Schedule& schedule) {
  KernelSpec spec;
  ProductIn(&spec).sequence = sequence;
  ProductIn(&spec).schedule = schedule;
  return spec;
}

std::string OrderWith(const std::function<void(ProductSequence&, Schedule&)>& change) {
  ProductSequence p = Two();
  Schedule s = Cluster();
  change(p, s);
  return RowOrder(SpecOf(p, s));
}

// A plan of one stitched kernel.
Plan Softmax() {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = ParseProblem("softmax rows=M cols=512")->chain;
  stitch->schedule.owner = OwnerCandidates(stitch->body).front();
  stitch->operands = {{0, 0}, {1, 0}};
  Plan plan{.fused = true, .bucket = 64};
  plan.kernels.resize(1);
  plan.kernels[0].spec.family = &StitchFamily();
  plan.kernels[0].spec.body = MakeBody(std::move(*stitch));
  return plan;
}

TEST(RowOrder, OfTwoProductsIsThatOfTwoKernels) {
  const ProductSequence p = Two();
  Schedule product{.block_k = 64, .first = {64, 1}};
  EXPECT_EQ(RowOrder(SpecOf(p, Cluster())),
            RowOrder(SpecOf(FirstOf(p), product)) + RowOrder(SpecOf(SecondOf(p), product)));
}

TEST(RowOrder, TilesStagesPairsGridAndBucketAreNoPartOfIt) {
  const std::string plain = OrderWith([](ProductSequence&, Schedule&) {});
  EXPECT_EQ(plain, OrderWith([](ProductSequence& p, Schedule& s) {
              p.m = 4096;
              s = With(s, "grid-exchange bm128 wg2x st3 cl2 grid132 first 96 second 128");
            }));
  EXPECT_EQ(plain, OrderWith([](ProductSequence&, Schedule& s) { s.block_k = 128; }));
  const auto alone = [](Share share, int cluster) {
    Schedule s;
    s.block_k = 64, s.first = {64, 1}, s.share = share, s.cluster = cluster;
    return RowOrder(SpecOf(FirstOf(Two()), s));
  };
  EXPECT_EQ(alone(Share::kNone, 1), alone(Share::kWeights, 2));
  EXPECT_EQ(plain, OrderWith([](ProductSequence&, Schedule& s) {
              s.dataflow = Dataflow::kClusterSlab, s.cut = 512;
            }));
}

// A sum over M has as many steps as a launch has rows.
TEST(RowOrder, OfASumOverMIsThatOfEveryBucket) {
  const auto order = [](int64_t k, int split, int block_k = 64) {
    ProductSequence p = MakeSequence(64, MakeProduct(64, k));
    SetTransposedRows(&p, true);
    return RowOrder(SpecOf(p, {.block_k = block_k, .first = {64, split}}));
  };
  EXPECT_EQ(order(64, 1), order(4096, 1));
  EXPECT_NE(order(4096, 1), order(4096, 2));
  EXPECT_NE(order(4096, 2), order(4096, 2, 128)) << "ranges begin at whole blocks";
  EXPECT_EQ(order(4096, 1), order(4096, 1, 128));
}

// Pieces of M write different rows of a table; a table without M is the same for each.
TEST(RowOrder, RowsMixWhereAScatterHasThem) {
  for (const std::string rows : {"M", "16"}) {
    auto stitch = std::make_shared<StitchSpec>();
    stitch->body =
        ReadChain("x: f32[9,8]; ids: s32[$0]; y: f32[$0,8]; out scatter(x, ids, y)", rows);
    KernelSpec spec{.family = &StitchFamily(), .body = MakeBody(std::move(*stitch))};
    EXPECT_EQ(spec.family->MixesRows(spec), rows == "M");
  }
}

TEST(RowOrder, RangesOfKPartsSwappedOperandsAndStepsBehindKAre) {
  const std::function<void(ProductSequence&, Schedule&)> changes[] = {
      [](ProductSequence&, Schedule&) {},
      [](ProductSequence&, Schedule& s) { s.first.split_k = 2; },
      [](ProductSequence&, Schedule& s) { s.first.split_k = 4; },
      [](ProductSequence&, Schedule& s) { s.second.split_k = 2; },
      [](ProductSequence&, Schedule& s) { s.swapped = true; },
      [](ProductSequence&, Schedule& s) { s.dataflow = Dataflow::kSpatialGate; },
      [](ProductSequence&, Schedule& s) { s.dataflow = Dataflow::kClusterRanges, s.cut = 2; },
      [](ProductSequence& p, Schedule&) { SetBias(&p, 0, false); },
      [](ProductSequence& p, Schedule&) { SetResidual(&p, Residual::kAddedRounded); },
      [](ProductSequence& p, Schedule&) { p[0].k = 192; },
      [](ProductSequence& p, Schedule& s) { p[0].k = 192, s.block_k = 128; },
      // Seven blocks in four ranges, of 64 and of 128.
      [](ProductSequence& p, Schedule& s) { p[0].k = 896, s.first.split_k = 4; },
      [](ProductSequence& p, Schedule& s) { p[0].k = 896, s.first.split_k = 4, s.block_k = 128; },
  };
  std::set<std::string> orders;
  for (const auto& change : changes) orders.insert(OrderWith(change));
  EXPECT_EQ(orders.size(), std::size(changes));
}

TEST(RowOrder, OfStitchedKernelsIsAllButTheGrid) {
  const auto order = [](const std::function<void(StitchSpec&)>& change) {
    KernelSpec spec = Softmax().kernels[0].spec;
    auto stitch = std::make_shared<StitchSpec>(*StitchOf(spec));
    change(*stitch);
    spec.body = MakeBody(std::move(*stitch));
    return RowOrder(spec);
  };
  const std::string plain = order([](StitchSpec&) {});
  EXPECT_EQ(plain, order([](StitchSpec& s) { s.schedule.grid = 132; }));
  EXPECT_EQ(plain, order([](StitchSpec& s) { s.operands.push_back({0, 256}); }));
  EXPECT_NE(plain, order([](StitchSpec& s) { s.schedule.unit_threads = 32; }));
  EXPECT_NE(plain, order([](StitchSpec& s) { s.schedule.vector = 8; }));
  EXPECT_NE(plain, order([](StitchSpec& s) { s.schedule.split = 4; }));
  EXPECT_NE(plain, order([](StitchSpec& s) {
              s.body = ParseProblem("softmax rows=M cols=512 scale=2")->chain;
            }));
}

TEST(CheckRowOrder, NamesTheFieldThatIsAnotherOrder) {
  EXPECT_TRUE(CheckRowOrder(Two(), Cluster()).ok());
  const auto why = [](const std::function<void(ProductSequence&, Schedule&)>& change) {
    ProductSequence p = Two();
    Schedule s = Cluster();
    change(p, s);
    return std::string(CheckRowOrder(p, s).message());
  };
  EXPECT_THAT(why([](ProductSequence&, Schedule& s) { s.swapped = true; }), HasSubstr("swapped 1"));
  EXPECT_THAT(why([](ProductSequence&, Schedule& s) { s.first.split_k = 2; }),
              HasSubstr("first.split_k 2 is not 1"));
  EXPECT_THAT(why([](ProductSequence&, Schedule& s) { s.second.split_k = 4; }),
              HasSubstr("second.split_k 4 is not 1"));
  EXPECT_THAT(why([](ProductSequence&, Schedule& s) { s.dataflow = Dataflow::kSpatialGate; }),
              HasSubstr("dataflow 6 (spatial-gate) adds parts"));
  EXPECT_THAT(why([](ProductSequence&, Schedule& s) { s.dataflow = Dataflow::kClusterRanges; }),
              HasSubstr("dataflow 4 (cluster-ranges) adds parts"));
  EXPECT_THAT(why([](ProductSequence& p, Schedule& s) { p[0].k = 320, s.block_k = 128; }),
              HasSubstr("block_k 128 gives k of 320 more steps than 64"));
  EXPECT_THAT(why([](ProductSequence& p, Schedule& s) { SetColumns(&p, 0, 960), s.block_k = 128; }),
              HasSubstr("block_k 128 gives n of 960 more steps than 64"));
}

TEST(BatchInvariantSpec, IsPartOfTheDecisionsAndOfThePlansText) {
  for (Plan plan : {SampleFusedPlan(), Softmax()}) {
    const std::string plain = plan.ToText();
    for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
    EXPECT_TRUE(DecisionsOf(plan).batch_invariant);
    EXPECT_THAT(plain, Not(HasSubstr("batch-invariant")));
    EXPECT_THAT(plan.ToText(), HasSubstr("  batch-invariant\n"));
  }
}

}  // namespace
}  // namespace sinter
