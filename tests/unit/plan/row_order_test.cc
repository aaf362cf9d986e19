#include "src/plan/family.h"
#include "src/product/schedule_check.h"
#include "tests/support/read_chain.h"
#include "tests/unit/plan/changed_spec.h"
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
  return ReadSchedule("cluster-exchange bm64 wg1x1 bk64 st4 cl8 grid8 first 128/1 second 32/1");
}

KernelSpec SpecOf(const ProductSequence& sequence, const Schedule& schedule) {
  KernelSpec spec;
  ProductIn(&spec).sequence = sequence;
  ProductIn(&spec).schedule = schedule;
  return spec;
}

// The order of a kernel of both products with changes (changed_spec.h).
std::string OrderWith(absl::string_view words) {
  return RowOrder(Changed(SpecOf(Two(), Cluster()), words));
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
  const std::string plain = OrderWith("");
  EXPECT_EQ(plain, OrderWith("p.m=4096 s.dataflow=grid-exchange s.block_m=128 s.warpgroups_m=2 "
                             "s.stages=3 s.cluster=2 s.grid=132 s.first.block_n=96 "
                             "s.second.block_n=128"));
  EXPECT_EQ(plain, OrderWith("s.block_k=128"));
  const auto alone = [](Share share, int cluster) {
    Schedule s;
    s.block_k = 64, s.first = {64, 1}, s.share = share, s.cluster = cluster;
    return RowOrder(SpecOf(FirstOf(Two()), s));
  };
  EXPECT_EQ(alone(Share::kNone, 1), alone(Share::kWeights, 2));
  EXPECT_EQ(plain, OrderWith("s.dataflow=cluster-slab s.cut=512"));
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
  // The last two: seven blocks in four ranges, of 64 and of 128.
  const char* const changes[] = {"",
                                 "s.first.split_k=2",
                                 "s.first.split_k=4",
                                 "s.second.split_k=2",
                                 "s.swapped=true",
                                 "s.dataflow=spatial-gate",
                                 "s.dataflow=cluster-ranges s.cut=2",
                                 "p.bias1=false",
                                 "p.residual=rounded",
                                 "p.1.k=192",
                                 "p.1.k=192 s.block_k=128",
                                 "p.1.k=896 s.first.split_k=4",
                                 "p.1.k=896 s.first.split_k=4 s.block_k=128"};
  std::set<std::string> orders;
  for (const char* words : changes) orders.insert(OrderWith(words));
  EXPECT_EQ(orders.size(), std::size(changes));
}

TEST(RowOrder, OfStitchedKernelsIsAllButTheGrid) {
  const StitchSpec softmax = *StitchOf(Softmax().kernels[0].spec);
  const auto order = [](StitchSpec stitch) {
    return RowOrder({.family = &StitchFamily(), .body = MakeBody(std::move(stitch))});
  };
  const std::string plain = order(softmax);
  for (const char* words : {"schedule.grid=132", "operands.size=3 operands[2].offset_bytes=256"}) {
    EXPECT_EQ(plain, order(Changed(softmax, words))) << words;
  }
  for (const char* words : {"schedule.unit_threads=32", "schedule.vector=8", "schedule.split=4"}) {
    EXPECT_NE(plain, order(Changed(softmax, words))) << words;
  }
  StitchSpec scaled = softmax;
  scaled.body = ParseProblem("softmax rows=M cols=512 scale=2")->chain;
  EXPECT_NE(plain, order(scaled));
}

TEST(CheckRowOrder, NamesTheFieldThatIsAnotherOrder) {
  ExpectRefusedChanges(
      "tests/unit/plan/refused_specs.txt", "row orders", SpecOf(Two(), Cluster()),
      [](const KernelSpec& spec) {
        return CheckRowOrder(ProductOf(spec).sequence, ProductOf(spec).schedule);
      },
      absl::StatusCode::kFailedPrecondition);
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
