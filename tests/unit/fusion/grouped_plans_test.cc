// Grouped GEMMs in plans: the ops that their kernels fuse, that plans compute the chain and read
// back from their decisions, and the refusals with their messages.
#include "tests/unit/fusion/grouped_plans.h"

#include "tests/support/damage.h"
#include "tests/support/grouped_ends.h"

namespace sinter {
namespace {

using testing::ChainOfLine;
using testing::ExpectPlans;
using testing::GroupedOf;
using testing::kM;

TEST(GroupedPlans, AGatedFfnIsTwoProductsAndASum) {
  for (const char* form : {"act=silu", "act=gelu_tanh order=up_gate", "act=gelu_erf layout=io",
                           "act=relu dtype=f16", "act=identity"}) {
    SCOPED_TRACE(form);
    const Plan plan = ExpectPlans(
        ChainOfLine(absl::StrCat("grouped_gated_ffn m=M experts=5 top=3 n=24 k=16 l=40 ", form)));
    ASSERT_EQ(plan.kernels.size(), 3u) << plan.ToText();
    const std::vector<const GroupedSpec*> grouped = GroupedOf(plan);
    ASSERT_EQ(grouped.size(), 2u);
    EXPECT_TRUE(grouped[0]->code.problem.IsPair());
    EXPECT_NE(grouped[0]->code.problem.result, DType::kF32);
    EXPECT_TRUE(grouped[1]->code.problem.Reads(LeafKind::kRow));
    EXPECT_TRUE(grouped[1]->code.problem.slot_rows);
    EXPECT_EQ(grouped[1]->code.problem.result, grouped[0]->code.problem.result) << "of each term";
    EXPECT_NE(grouped[0]->code.schedule.ToString(false), "dots") << "tensor cores take it";
  }
}

TEST(GroupedPlans, AGatedFfnOfCodesIsTwoProductsASumAndMaybeAQuantiser) {
  for (const char* form :
       {"n=128 k=256 l=40 scales=group quantize=group", "n=32 k=48 l=40 scales=row",
        "n=32 k=48 l=40 scales=tensor quantize=static", "n=24 k=48 l=40 scales=row order=up_gate",
        "n=128 k=256 l=40 scales=group quantize=group ue8m0=1 order=interleaved"}) {
    SCOPED_TRACE(form);
    const Plan plan = ExpectPlans(
        ChainOfLine(absl::StrCat("scaled_grouped_gated_ffn m=M experts=5 top=3 act=silu ", form)));
    const bool groups = absl::StrContains(form, "quantize=group");
    ASSERT_EQ(plan.kernels.size(), groups || absl::StrContains(form, "static") ? 3u : 4u)
        << plan.ToText();
    const std::vector<const GroupedSpec*> grouped = GroupedOf(plan);
    ASSERT_EQ(grouped.size(), 2u);
    for (const GroupedSpec* spec : grouped) {
      EXPECT_TRUE(spec->code.problem.HasScales());
      EXPECT_EQ(spec->code.problem.weights, DType::kE4M3);
    }
    EXPECT_TRUE(grouped[0]->code.problem.IsPair());
    EXPECT_EQ(grouped[0]->code.problem.quantizer.present, groups);
    EXPECT_EQ(grouped[0]->code.problem.quantizer.ue8m0, absl::StrContains(form, "ue8m0"));
    EXPECT_TRUE(grouped[1]->code.problem.Reads(LeafKind::kRow));
    EXPECT_TRUE(grouped[1]->code.problem.slot_rows);
    EXPECT_EQ(grouped[1]->code.problem.result, DType::kBF16) << "of each term";
  }
}

// At one row tiles that have whole groups are too few for the SMs; at many they fill them.
TEST(GroupedPlans, WhoQuantisesIsChosenByTheNumberOfRows) {
  const Chain chain = ChainOfLine(
      "scaled_grouped_gated_ffn m=M experts=256 top=8 n=256 k=7168 l=7168 act=silu scales=group "
      "quantize=group");
  for (const auto& [rows, kernels] : {std::pair(1, 4u), std::pair(1024, 3u)}) {
    const auto result = Got(PlanChain(chain, rows, H200(), {}));
    EXPECT_EQ(result.chosen.kernels.size(), kernels) << result.chosen.ToText();
  }
}

// The second product's weights need not wait for the first one, which has read the same ids.
TEST(GroupedPlans, OnlyAProductBehindAnotherOfTheSameIdsIsEarly) {
  for (const char* line :
       {"grouped_gated_ffn m=M experts=5 top=3 n=24 k=16 l=40 act=silu",
        "scaled_grouped_gated_ffn m=M experts=5 top=3 act=silu n=32 k=48 l=40 scales=row"}) {
    const Plan plan = ExpectPlans(ChainOfLine(line));
    const std::vector<const GroupedSpec*> grouped = GroupedOf(plan);
    ASSERT_EQ(grouped.size(), 2u) << line;
    EXPECT_FALSE(grouped[0]->code.problem.early) << line;
    EXPECT_TRUE(grouped[1]->code.problem.early) << line;
  }
  for (const bool same_ids : {true, false}) {
    for (const bool computed_w : {true, false}) {
      const auto chain = ReadChain(
          "x: bf16[M,64]; ids$0: s32[M,2]; w: bf16[4,64,64]; c = bf16(grouped(x, w.T, ids));"
          "v = $1; out grouped(c, v.T, $2)",
          same_ids ? "" : ", others", computed_w ? "abs(w)" : "w", same_ids ? "ids" : "others");
      const auto result = Got(PlanChain(chain, kM, H200(), {}));
      int early = 0;
      for (const GroupedSpec* spec : GroupedOf(result.chosen)) early += spec->code.problem.early;
      EXPECT_EQ(early, same_ids && !computed_w ? 1 : 0) << result.chosen.ToText();
    }
  }
}

TEST(GroupedPlans, AProductAloneTakesItsCast) {
  for (const char* form :
       {"dtype=bf16", "dtype=f16 layout=io", "dtype=f32", "dtype=f32 layout=io"}) {
    SCOPED_TRACE(form);
    const Plan plan = ExpectPlans(
        ChainOfLine(absl::StrCat("grouped_matmul m=M experts=5 top=3 n=24 k=16 ", form)));
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    EXPECT_EQ(GroupedOf(plan).size(), 1u);
  }
}

// As in gpt-oss, except for its activation: biases of the experts, gate and up interleaved.
TEST(GroupedPlans, BiasesAndColumnsInTurnsAreTaken) {
  for (const int first : {0, 1}) {
    for (const DType bias_type : {DType::kBF16, DType::kF32}) {
      const Plan plan = ExpectPlans(ReadChain(
          "x: bf16[M,16]; ids: s32[M,2]; w1: const bf16[5,48,16]; w2: const bf16[5,24,8];"
          "b1: const $0[5,48]; b2: const $0[5,8]; y = grouped(x, w1.T, ids) + $3(gather(b1, ids));"
          "c = bf16(swiglu(y[:, 0:2, $1:48:2], y[:, 0:2, $2:48:2]));"
          "out grouped(c, w2, ids) + $3(gather(b2, ids))",
          NameOf(bias_type), first, 1 - first, bias_type == DType::kF32 ? "" : "f32"));
      ASSERT_EQ(plan.kernels.size(), 2u) << plan.ToText();
      const std::vector<const GroupedSpec*> grouped = GroupedOf(plan);
      ASSERT_EQ(grouped.size(), 2u);
      EXPECT_EQ(grouped[0]->code.problem.pair, GroupedPair::kInTurns);
      for (const GroupedSpec* spec : grouped) {
        const GroupedProduct& p = spec->code.problem;
        ASSERT_EQ(p.OperandInputs().size(), 1u) << "gate and up read one matrix";
        EXPECT_EQ(p.LeafInputs().size(), p.IsPair() ? 2u : 1u);
        EXPECT_EQ(p.program.TypeOf(p.OperandInputs()[0]), bias_type);
      }
    }
  }
}

// gpt-oss's activation: both halves are clamped, alpha 1.702, and one more of up.
TEST(GroupedPlans, AnyElementWiseProgramOfGateAndUpIsTaken) {
  for (const bool in_turns : {true, false}) {
    const Plan plan = ExpectPlans(
        ReadChain("x: bf16[M,16]; ids: s32[M,2]; w: const bf16[5,48,16]; y = grouped(x, w.T, ids);"
                  "gate = min(y[:, 0:2, $0], 0.5); up = max(min(y[:, 0:2, $1], 0.5), -0.5);"
                  "out bf16((up + 1) * (gate * sigmoid(gate * 1.702)))",
                  in_turns ? "0:48:2" : "0:24", in_turns ? "1:48:2" : "24:48"));
    ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    const GroupedProduct& p = GroupedOf(plan)[0]->code.problem;
    EXPECT_TRUE(p.program.present());
    EXPECT_EQ(p.n, 24);
    EXPECT_EQ(p.pair, in_turns ? GroupedPair::kInTurns : GroupedPair::kHalves);
    ByteWriter w_bytes;
    p.Write(w_bytes);
    const std::string bytes = w_bytes.Take();
    ByteReader r(bytes);
    const GroupedProduct read = Got(GroupedProduct::Read(r));
    EXPECT_TRUE(read == p);
  }
}

// Ends of chains that one kernel computes with the product (tests/support/grouped_ends.h).
TEST(GroupedPlans, AnyElementWiseEndIsOneKernelWithItsProduct) {
  for (const testing::GroupedEndCase& one : testing::GroupedEndCases()) {
    SCOPED_TRACE(one.name);
    const Plan plan = ExpectPlans(one.Make(5, 2, 24, 16));
    ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    ASSERT_EQ(GroupedOf(plan).size(), 1u);
    const GroupedProduct& p = GroupedOf(plan)[0]->code.problem;
    for (const LeafKind kind : one.reads) EXPECT_TRUE(p.Reads(kind)) << p.ToString();
    EXPECT_EQ(p.LeafInputs().size(), one.leaves) << p.ToString();
    EXPECT_TRUE(Got(ReadFrom<GroupedProduct>(Written(p))) == p);
  }
}

// Fewer bytes are stored rather than more ops taken along; all of an output is taken.
TEST(GroupedPlans, AnEndOfFewerBytesIsTaken) {
  const char* const text =
      "x: bf16[M,16]; ids: s32[M,2]; w: const bf16[5,24,16]; f: f32[M,2];"
      "y = f32(bf16(grouped(x, w.T, ids))) * spread(reshape(f, [M,2,1]), [M,2,24]); out $0";
  for (const bool summed : {true, false}) {
    const Plan plan = ExpectPlans(ReadChain(text, summed ? "sum(y, 1)" : "y"));
    EXPECT_EQ(GroupedOf(plan).at(0)->code.problem.result, summed ? DType::kBF16 : DType::kF32);
    EXPECT_EQ(plan.kernels.size(), summed ? 2u : 1u) << plan.ToText();
  }
}

// A matrix that the result overwrites is read by the kernel that stores it only where no other
// block reads it: planning takes an earlier end.
TEST(GroupedPlans, AMatrixThatTheResultOverwritesIsAddedByAnotherKernel) {
  const Plan plan =
      ExpectPlans(ReadChain("x: bf16[M,16]; ids: s32[M,2]; w: const bf16[5,8,16]; r: f32[M,2,8];"
                            "out grouped(x, w.T, ids) + r over r"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_FALSE(GroupedOf(plan)[0]->code.problem.Reads(LeafKind::kMatrix));
}

// Codes by one scale are an element-wise end; by scales of groups, the kernel's quantiser.
TEST(GroupedPlans, CodesOfAGivenScaleAreStoredByTheirProduct) {
  const Plan plan = ExpectPlans(ChainOfLine(
      "scaled_grouped_gated_ffn m=M experts=5 top=3 act=silu n=32 k=48 l=40 scales=tensor "
      "quantize=static"));
  EXPECT_EQ(plan.kernels.size(), 3u) << plan.ToText();
  const GroupedProduct& p = GroupedOf(plan).at(0)->code.problem;
  EXPECT_EQ(p.result, DType::kE4M3);
  EXPECT_FALSE(p.quantizer.present);
  EXPECT_TRUE(p.program.for_codes);
}

// Rows that other ids name of a matrix are a matrix of the result's extents to its kernel.
TEST(GroupedPlans, RowsThatOtherIdsNameAreNoBias) {
  const Plan plan = ExpectPlans(ReadChain(
      "x: bf16[M,16]; ids, others: s32[M,2]; w: const bf16[5,8,16]; rows: const f32[5,8]; "
      "y = grouped(x, w.T, ids); out y + gather(rows, others)"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_FALSE(GroupedOf(plan)[0]->code.problem.Reads(LeafKind::kColumn));
}

// Router, experts and residual are one chain: ids and weights are computed.
TEST(GroupedPlans, IdsMayBeComputed) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; scores: f32[M,2]; w1: const bf16[5,48,16]; w2: const bf16[5,16,24];"
                "ids = s32(floor(scores * 7)); weights = softmax(scores, -1);"
                "out bf16(x + grouped_gated_ffn(x, ids, weights, w1, w2))"));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_LE(plan.kernels.size(), 5u) << plan.ToText();
}

// Ids that are an index are stored by a kernel before the one that reads them.
TEST(GroupedPlans, IdsMayBeAnIndex) {
  const Chain given = ReadChain(
      "x: bf16[M,16]; w: const bf16[5,8,16]; ids = iota([M,2], 1, s32); "
      "out bf16(grouped(x, w.T, ids))");
  EXPECT_EQ(GroupedOf(ExpectPlans(given)).size(), 1u);
  const auto form = *NormalFormOf(std::make_shared<const Chain>(given));
  const Chain& chain = *form->chain;
  const ProductRuns found = FindProductRuns(chain, kM, nullptr, {});
  ASSERT_EQ(found.runs.size(), 1u);
  const auto graph = Got(StitchGraph::Make(chain, kM, found.runs, {}));
  EXPECT_EQ(graph.vertex(graph.VertexOf(found.runs[0].end)).producers.size(), 1u);
}

// What others read is stored, so nothing is taken along.
TEST(GroupedPlans, ValuesThatOthersReadAreStored) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; ids: s32[M,2]; w: const bf16[5,8,16]; y = grouped(x, w.T, ids); "
                "out bf16(y), sum(y, 1)"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_EQ(GroupedOf(plan)[0]->code.problem.result, DType::kF32);
}

// If half of a gate/up pair is also a graph output, another kernel applies the gate.
TEST(GroupedPlans, AHalfThatIsGivenOutIsNoPair) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; ids: s32[M,2]; w: const bf16[5,16,16]; y = grouped(x, w.T, ids); "
                "gate = y[:, 0:2, 0:8]; up = y[:, 0:2, 8:16]; out swiglu(gate, up), gate"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_FALSE(GroupedOf(plan)[0]->code.problem.IsPair());
}

TEST(GroupedPlans, StridesAndConstantRowsAreTaken) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[6,16] strides(24,1); ids: s32[6,2] strides(1,6); w: const bf16[5,8,16]; "
                "out grouped(x, w.T, ids) strides(32,16,1)"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_EQ(GroupedOf(plan)[0]->code.problem.fixed_rows, 6);
  EXPECT_EQ(GroupedOf(plan)[0]->code.problem.row_stride, 24);
}

// Rows, ids and numbers of slots that the chain computes and outputs with gaps are read from the
// output buffers.
TEST(GroupedPlans, OperandsThatAreGivenOutKeepTheirStrides) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; scores: f32[M,2]; w: const bf16[5,8,16]; rows = bf16(tanh(x)); "
                "scaled = scores * 7; ids = s32(floor(scaled)); numbers = exp(scores); "
                "y = grouped(rows, w.T, ids); spread = spread(reshape(numbers, [M,2,1]), [M,2,8]); "
                "out y * spread, rows strides(24,1), ids strides(6,3), numbers strides(5,2)"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  const GroupedProduct& p = GroupedOf(plan)[0]->code.problem;
  EXPECT_EQ(p.row_stride, 24);
  EXPECT_EQ(p.id_stride, 6);
  EXPECT_EQ(p.id_slot_stride, 3);
  ASSERT_TRUE(p.Reads(LeafKind::kRow));
  EXPECT_EQ(p.LeafOf(p.LeafInputs()[0]).row, 5);
  EXPECT_EQ(p.LeafOf(p.LeafInputs()[0]).slot, 2);
}

// A product's result that is not rounded by the chain lies there as f32 for a grouped product.
TEST(GroupedPlans, RowsOfAProductWithoutACastAreF32) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; ids: s32[M,2]; w: const bf16[24,16]; experts: const bf16[5,8,24];"
                "out grouped(x @ w.T, experts.T, ids)"));
  ASSERT_EQ(GroupedOf(plan).size(), 1u);
  EXPECT_EQ(GroupedOf(plan)[0]->code.problem.rows, DType::kF32);
}

// h goes to a grouped product and to a product, or from a grouped product to one, which multiplies
// 16-bit rows: only a cast or a view gives it rows of its own.
enum class Shared { kRows, kResult, kViewOfResult };

Chain WithAProduct(Shared shared, bool cast) {
  const char* from = shared == Shared::kRows     ? "h"
                     : shared == Shared::kResult ? "y"
                                                 : "reshape(y, [32,24])";
  return ReadChain(
      "x: bf16[32,16]; ids: s32[32,1]; experts: const bf16[5,24,16]; w: const bf16[8,$0];"
      "h = tanh(f32(x)); y = grouped(h, experts.T, ids); out $1 @ w.T $2",
      shared == Shared::kRows ? 16 : 24, cast ? absl::StrCat("bf16(", from, ")") : from,
      shared == Shared::kRows ? ", y" : "");
}

TEST(GroupedPlans, ProductsRoundNoRowsThatAreStoredAsF32) {
  for (const Shared shared : {Shared::kRows, Shared::kResult, Shared::kViewOfResult}) {
    for (const bool cast : {true, false}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(shared), " cast ", cast));
      const Chain chain = WithAProduct(shared, cast);
      if (cast || shared == Shared::kViewOfResult) {
        ExpectPlans(chain);
        continue;
      }
      const auto result = PlanChain(chain, kM, H200(), {});
      ASSERT_FALSE(result.ok()) << result->chosen.ToText();
      EXPECT_TRUE(absl::StrContains(
          result.status().message(),
          "is f32 in memory for another kernel, the weights are bf16: cast it to bf16 for the "
          "product"))
          << result.status();
    }
  }
}

TEST(GroupedPlans, RefuseWhatNoKernelReadsByName) {
  struct Case {
    std::vector<Stride> x, ids, out;
    const char* why;
  };
  const Case cases[] = {
      {{{1, 0}, {16, 0}},
       {},
       {},
       "(grouped_matmul of 'x' and 'w'): 'x' has strides [1,16], kernels of grouped products read "
       "elements of rows side by side: copy it"},
      {{},
       {{1, 0}, {1, 1}},
       {},
       "(grouped_matmul of 'x' and 'w'): 'ids' has strides [1,M], kernels of grouped products read "
       "strides that do not depend on M: copy it"},
      {{},
       {},
       {{8, 0}, {1, 0}, {2, 0}},
       "(grouped_matmul of 'x' and 'w'): its result has strides "},
  };
  for (const Case& c : cases) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, c.x, "x"});
    const ValueId ids = *b.Input({DType::kS32, {Dim::M(), C(2)}}, {false, c.ids, "ids"});
    const ValueId w = *b.Input({DType::kBF16, {C(5), C(4), C(16)}}, {true, {}, "w"});
    ASSERT_TRUE(b.Output(*b.GroupedMatmul(x, w, ids, true), {c.out, -1}).ok());
    const auto result = PlanChain(*b.Finish(), kM, H200(), {});
    ASSERT_FALSE(result.ok());
    EXPECT_TRUE(absl::StrContains(result.status().message(), c.why)) << result.status();
  }
}

// Tiles differ from bucket to bucket, a row's sums do not.
TEST(GroupedPlans, BatchInvariantPlansOfAllBucketsHaveOneRowOrder) {
  const Chain chain =
      ChainOfLine("grouped_gated_ffn m=M experts=16 top=4 n=256 k=256 l=256 act=silu");
  FusionOptions options{.batch_invariant = true, .allow_cooperative = false};
  std::string order;
  for (const int64_t bucket : {1, 16, 256, 4096}) {
    const auto result = Got(PlanChain(chain, bucket, H200(), options));
    if (order.empty()) order = RowOrder(result.chosen);
    EXPECT_EQ(RowOrder(result.chosen), order) << bucket;
    EXPECT_EQ(GroupedOf(result.chosen).size(), 2u);
  }
}

// Neither dots of warps nor swapped tiles.
FusionOptions TilesAlone() {
  return FusionOptions{.batch_invariant = true, .allow_cooperative = false};
}

// Weights are mapped where sets of 32 columns are whole and experts follow one another.
TEST(GroupedPlans, WeightsAreMappedWhereTheyLieInSets) {
  const auto maps = [](const std::string& line) {
    const auto result = Got(PlanChain(ChainOfLine(line), kM, H200(), TilesAlone()));
    const KernelSpec& spec = result.chosen.kernels.front().spec;
    return Generate(spec, H200())->recipe.tensor_maps;
  };
  const auto mapped = maps("grouped_matmul m=M experts=16 top=3 n=64 k=72");
  ASSERT_EQ(mapped.size(), 1u);
  EXPECT_EQ(mapped[0].dims[4], C(16 * 64 / 32));
  EXPECT_EQ(mapped[0].stride_bytes, (std::vector<uint64_t>{144, 8 * 144, 2 * 144, 32 * 144}));
  EXPECT_EQ(maps("grouped_matmul m=M experts=16 top=3 n=40 k=72").size(), 0u);
  EXPECT_EQ(maps("grouped_matmul m=M experts=16 top=3 n=64 k=72 layout=io").size(), 0u);
  EXPECT_EQ(maps("grouped_matmul m=M experts=16 top=3 n=64 k=72 dtype=f32").size(), 0u);
}

TEST(GroupedSearch, CountsExpertsAndTilesOfTheWorstRouting) {
  EXPECT_NEAR(ExpectedExperts(128, 8, 1), 8, 1e-9);
  EXPECT_NEAR(ExpectedExperts(128, 8, 8), 51.6, 0.1);
  EXPECT_NEAR(ExpectedExperts(8, 8, 3), 8, 1e-9);
  EXPECT_EQ(MostTiles(64 * 8, 128, 16), 152);
  EXPECT_EQ(MostTiles(256 * 8, 128, 64), 158);
  EXPECT_EQ(MostTiles(4096 * 8, 128, 128), 383);
  EXPECT_EQ(MostTiles(3, 128, 64), 3);
}

// Memory's latency is hidden by bytes on the way: where tiles are fewer than SMs, by more stages.
TEST(GroupedSearch, FewBlocksHaveLongRings) {
  const DeviceModel model = H200();
  const auto first = [&](int64_t bucket) {
    const Chain chain =
        ChainOfLine("grouped_gated_ffn m=M experts=160 top=8 n=192 k=5120 l=5120 act=silu");
    const auto result = Got(PlanChain(chain, bucket, model, TilesAlone()));
    return GroupedOf(result.chosen).at(0)->code.schedule;
  };
  EXPECT_EQ(first(1).stages, 12) << first(1).ToString();
  EXPECT_LT(first(1).grid, model.sm_count);
  EXPECT_LT(first(64).stages, 12) << first(64).ToString();
}

// 140 experts of one tile each are two turns of 132 blocks, the second nearly without work.
TEST(GroupedSearch, ATurnOfFewBlocksIsCounted) {
  const DeviceModel model = H200();
  const auto us = [&](int64_t experts) {
    const int64_t bucket = experts * 32 / 4;
    const Chain chain =
        ChainOfLine(absl::StrCat("grouped_matmul m=M top=4 n=256 k=4096 experts=", experts));
    const auto result = Got(PlanChain(chain, bucket, model, {}));
    const GroupedProduct& p = GroupedOf(result.chosen).at(0)->code.problem;
    return PredictSchedule(p, {128, 256, 4, model.sm_count, 1}, bucket, model)->total_us;
  };
  ASSERT_EQ(model.sm_count, 132);
  EXPECT_GT(us(140), 1.4 * us(132));
}

// The same holds for e4m3, where steps of tiles wait for their sums.
TEST(GroupedSearch, OneRowOfNarrowExpertsIsSummedByWarps) {
  const auto result = Got(
      PlanChain(ChainOfLine("scaled_grouped_gated_ffn m=M experts=256 top=8 n=256 k=7168 l=7168 "
                            "act=silu scales=group quantize=group"),
                1, H200(), {}));
  for (const GroupedSpec* spec : GroupedOf(result.chosen)) {
    EXPECT_TRUE(spec->code.schedule.IsWarpDots()) << spec->code.schedule.ToString();
  }
}

// The best tiles of few rows, as one H200 measured them alone: narrow ones wait for the SM that has
// most. The second product of n = 192 at one row (7.3) is predicted at 5.1: 0 leaves it out.
TEST(GroupedSearch, PredictsTilesOfFewRowsAsMeasured) {
  const DeviceModel model = H200();
  const struct {
    int64_t bucket, n, k;
    double us[2];  // of either product
  } cases[] = {{1, 192, 4096, {18.3, 0}},
               {4, 192, 4096, {31.6, 12.8}},
               {1, 768, 2048, {18.4, 8.1}},
               {4, 768, 2048, {50.3, 25.6}}};
  for (const auto& one : cases) {
    const Chain chain = ChainOfLine(absl::StrCat(
        "grouped_gated_ffn m=M experts=128 top=8 act=silu n=", one.n, " k=", one.k, " l=", one.k));
    const auto result = Got(PlanChain(chain, one.bucket, model, TilesAlone()));
    const auto specs = GroupedOf(result.chosen);
    ASSERT_EQ(specs.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      if (one.us[i] == 0) continue;
      const GroupedSpec& spec = *specs[i];
      const auto time = PredictSchedule(spec.code.problem, spec.code.schedule, one.bucket, model);
      EXPECT_NEAR(time->total_us, one.us[i], 0.08 * one.us[i])
          << one.bucket << " rows, product " << i + 1 << " of n = " << one.n;
    }
  }
}

TEST(GroupedSearch, OffersLegalSchedulesForEveryBucketAndDotsLast) {
  const DeviceModel model = H200();
  for (int64_t bucket = 1; bucket <= 8192; bucket *= 4) {
    const Chain chain =
        ChainOfLine("grouped_gated_ffn m=M experts=128 top=8 n=768 k=2048 l=2048 act=silu");
    const auto result = Got(PlanChain(chain, bucket, model, {}));
    for (const GroupedSpec* spec : GroupedOf(result.chosen)) {
      const auto ranked = SearchGrouped(spec->code.problem, bucket, model, false);
      ASSERT_GT(ranked.size(), 1u);
      for (const RankedGrouped& r : ranked) {
        EXPECT_TRUE(CheckSchedule(spec->code.problem, r.schedule, model).ok());
        EXPECT_GT(r.prediction.total_us, 0);
      }
      EXPECT_EQ(ranked.back().schedule.block_m, 0);
      EXPECT_EQ(spec->code.schedule.IsWarpDots(), bucket <= 4) << "few slots share an expert";
      EXPECT_NE(spec->code.schedule.ToString(false), "dots");
      EXPECT_EQ(spec->code.schedule.swapped > 0, bucket >= 1024) << spec->code.schedule.ToString();
      for (const RankedGrouped& r : SearchGrouped(spec->code.problem, bucket, model, true)) {
        EXPECT_EQ(r.schedule.swapped, 0) << "its sums have an order of their own";
        EXPECT_FALSE(r.schedule.IsWarpDots()) << "so have these";
      }
    }
  }
}

}  // namespace
}  // namespace sinter
