// What the rules make of single chains, and what they leave alone.
#include "src/normal/rules.h"

#include "src/base/refusal.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using FormPtr = std::shared_ptr<const NormalForm>;

Dim D(int64_t extent) { return Dim::Constant(extent); }
const Dim kM = Dim::M();

ValueId Input(ChainBuilder& b, std::vector<Dim> dims, bool constant = false,
              std::vector<Stride> strides = {}) {
  return *b.Input({DType::kBF16, std::move(dims)},
                  {.constant = constant, .strides = std::move(strides)});
}

FormPtr Normal(Chain chain) {
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(chain))));
}
FormPtr Normal(ChainBuilder& b, const std::vector<ValueId>& outputs) {
  return Normal(Finished(b, outputs));
}

int Count(const Chain& chain, OpKind kind) {
  int count = 0;
  for (const Op& op : chain.ops()) count += op.kind == kind;
  return count;
}

const Op& Only(const Chain& chain, OpKind kind) {
  EXPECT_EQ(Count(chain, kind), 1) << chain.ToString();
  for (const Op& op : chain.ops()) {
    if (op.kind == kind) return op;
  }
  return chain.op(0);
}

// [rows..., 64] x [32, 64], rounded.
ValueId Product(ChainBuilder& b, ValueId x) {
  return *b.Cast(*b.Matmul(x, Input(b, {D(32), D(64)}, true), false, true), DType::kBF16);
}

TEST(NormalForm, OfChainsThatPlanIsTheChainItself) {
  for (const char* text : {"gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16",
                           "gated_ffn m=8 n=64 k=64 l=64 act=gelu_tanh layout=io dtype=f16"}) {
    const Problem problem = Got(ParseProblem(text));
    const auto chain = std::make_shared<const Chain>(problem.chain);
    const FormPtr form = *NormalFormOf(chain);
    EXPECT_FALSE(form->changed()) << text;
    EXPECT_EQ(form->chain, chain);
    for (size_t i = 0; i < form->buffers.size(); ++i) {
      EXPECT_EQ(form->buffers[i], (BufferView{static_cast<int>(i), 0}));
    }
    EXPECT_TRUE(form->notes.empty());
  }
}

TEST(NormalForm, PutsMFirst) {
  for (const std::vector<Dim>& rows :
       {std::vector<Dim>{D(1), kM}, {D(8), kM}, {D(2), kM, D(3)}, {kM, D(1)}}) {
    ChainBuilder b;
    std::vector<Dim> dims = rows;
    dims.push_back(D(64));
    const FormPtr form = Normal(b, {Product(b, Input(b, dims))});
    const Op& product = Only(*form->chain, OpKind::kMatmul);
    EXPECT_TRUE(product.type.dims.front().symbolic) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 0);
  }
}

// A slice and a sum have fewer rows than the product, whose rows are relabelled all the same.
TEST(NormalForm, PutsMFirstInFrontOfFewerRows) {
  for (const bool slice : {true, false}) {
    ChainBuilder b;
    const ValueId y = Product(b, Input(b, {D(8), kM, D(64)}));
    const ValueId fewer = slice ? *b.Slice(y, {0, 0, 0}, {D(4), kM, D(32)})
                                : *b.Reduce(ReduceKind::kSum, y, {0}, false);
    const FormPtr form = Normal(b, {y, *b.Unary(UnaryKind::kRelu, fewer)});
    const Op& product = Only(*form->chain, OpKind::kMatmul);
    EXPECT_TRUE(product.type.dims.front().symbolic) << form->chain->ToString();
  }
}

// Each id writes four rows of the product, so the ids have other rows.
TEST(NormalForm, PutsMFirstOfRowsWithinWhatIdsWrite) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[1,M,4,64]; w: const bf16[32,64]; rows = bf16(x @ w.T); ids: s32[1,M]; "
                "y: bf16[100,4,32]; out scatter(y, ids, rows)"));
  const Op& product = Only(*form->chain, OpKind::kMatmul);
  EXPECT_TRUE(product.type.dims.front().symbolic) << form->chain->ToString();
}

// Ids of [1, M] and [8, M] are rows of M, and so is what they take; the table stays as it is.
TEST(NormalForm, PutsMOfIdsFirst) {
  for (const std::vector<Dim>& rows :
       {std::vector<Dim>{D(1), kM}, {D(8), kM}, {D(2), kM, D(3)}, {kM, D(1)}}) {
    for (const DType dtype : {DType::kS32, DType::kS64}) {
      ChainBuilder b;
      const ValueId table = Input(b, {D(100), D(64)}, true);
      const ValueId taken = *b.Gather(table, *b.Input({dtype, rows}));
      std::vector<Dim> dims = rows;
      dims.push_back(D(64));
      const ValueId sum = *b.Binary(BinaryKind::kAdd, taken, Input(b, dims));
      const FormPtr form = Normal(b, {sum});
      const Op& gather = Only(*form->chain, OpKind::kGather);
      EXPECT_TRUE(gather.type.dims.front().symbolic) << form->chain->ToString();
      EXPECT_EQ(gather.axis, 0);
      EXPECT_EQ(form->chain->op(gather.operands[0]).type.dims, (std::vector<Dim>{D(100), D(64)}));
      EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
    }
  }
}

// M also comes first in the ids of scattered rows and in the rows. The destination stays
// unchanged.
TEST(NormalForm, PutsMOfWrittenRowsFirst) {
  for (const std::vector<Dim>& rows :
       {std::vector<Dim>{D(1), kM}, {D(8), kM}, {D(2), kM, D(3)}, {kM, D(1)}}) {
    for (const DType dtype : {DType::kS32, DType::kS64}) {
      ChainBuilder b;
      const ValueId cache = Input(b, {D(100), D(64)});
      std::vector<Dim> dims = rows;
      dims.push_back(D(64));
      const ValueId r = *b.Cast(*b.Unary(UnaryKind::kRelu, Input(b, dims)), b.TypeOf(cache).dtype);
      const FormPtr form = Normal(b, {*b.Scatter(cache, *b.Input({dtype, rows}), r)});
      const Op& scatter = Only(*form->chain, OpKind::kScatter);
      EXPECT_TRUE(form->chain->op(scatter.operands[1]).type.dims.front().symbolic)
          << form->chain->ToString();
      EXPECT_EQ(scatter.type.dims, (std::vector<Dim>{D(100), D(64)}));
      EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
    }
  }
}

// A cast of it to its own dtype would copy the whole cache.
TEST(NormalForm, LeavesOutCastsBehindWrittenRows) {
  ChainBuilder b;
  const ValueId cache = Input(b, {D(100), D(64)});
  const ValueId ids = *b.Input({DType::kS32, {kM}});
  const ValueId written = *b.Scatter(cache, ids, Input(b, {kM, D(64)}));
  const ValueId wide = *b.Cast(written, DType::kF32);
  const FormPtr form = Normal(b, {*b.Cast(wide, b.TypeOf(cache).dtype)});
  EXPECT_EQ(Count(*form->chain, OpKind::kCast), 0) << form->chain->ToString();
}

TEST(NormalForm, PutsMOfTakenElementsFirst) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[1,M,64]; y: s32[1,M,4]; taken = gather(x, y, -1); out relu(taken)"));
  const Op& gather = Only(*form->chain, OpKind::kGather);
  EXPECT_EQ(gather.type.dims, (std::vector<Dim>{kM, D(4)})) << form->chain->ToString();
  EXPECT_EQ(gather.axis, 1);
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
}

// Rows of steps and random numbers keep their order, so that every number stays what it was.
TEST(NormalForm, PutsMOfRowStepsFirst) {
  const FormPtr form =
      Normal(ReadChain("seed: s64[]; x: bf16[8,M,64]; drawn = random([8,M,64], seed, seed); "
                       "sums = cumsum(x * drawn); out topk(sums, 3)"));
  EXPECT_EQ(Only(*form->chain, OpKind::kTopK).type.dims, (std::vector<Dim>{kM, D(8), D(3)}))
      << form->chain->ToString();
  EXPECT_TRUE(Only(*form->chain, OpKind::kScan).type.dims[0].symbolic);
  EXPECT_TRUE(Only(*form->chain, OpKind::kRandom).type.dims[0].symbolic);
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
}

// A product of what ids of [8, M] take reads it as rows of M.
TEST(NormalForm, MakesRowsOfAGatherBelowAProduct) {
  const FormPtr form =
      Normal(ReadChain("table: const bf16[100,64]; x: s64[8,M]; taken = gather(table, x); "
                       "w: const bf16[32,64]; out bf16(taken @ w.T)"));
  EXPECT_TRUE(Only(*form->chain, OpKind::kMatmul).type.dims[0].symbolic);
  EXPECT_TRUE(Only(*form->chain, OpKind::kGather).type.dims[0].symbolic);
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
}

TEST(NormalForm, DividesMoreRowsThanAProductTakes) {
  const FormPtr form = Normal(ReadChain(
      "x: bf16[32,56,56,64]; w: const bf16[32,64]; out bf16(reshape(x, [100352,64]) @ w.T)"));
  const Op& product = Only(*form->chain, OpKind::kMatmul);
  EXPECT_EQ(product.type.dims, (std::vector<Dim>{D(7168), D(14), D(32)}));
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
}

TEST(NormalForm, LeavesMWhereTheRowsOfTwoAxesAreNotAlike) {
  const FormPtr form =
      Normal(ReadChain("x: bf16[8,M,64]; y: bf16[M,64]; places = spread(y, [8,M,64]); "
                       "sum = bf16(x + places); w: const bf16[32,64]; out bf16(sum @ w.T)"));
  EXPECT_TRUE(Only(*form->chain, OpKind::kMatmul).type.dims[0].symbolic);
  EXPECT_EQ(Only(*form->chain, OpKind::kBroadcast).type.dims[0], D(8));
}

// Of [M, 2, M], transposed and read as such again: the last M counts elements of both others.
TEST(NormalForm, LeavesViewsThatJoinMWithOtherAxes) {
  const FormPtr form = Normal(ReadChain(
      "x: bf16[M,2,M]; turned = transpose(exp(x), 1, 2, 0); out reshape(turned, [M,2,M])"));
  EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 1) << form->chain->ToString();
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 1) << form->chain->ToString();
}

TEST(NormalForm, MakesViewsOfInputsInputs) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,192]; part = x[:, 64:128]; w: const bf16[32,64]; out bf16(part @ w.T)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kSlice), 0);
  ASSERT_EQ(form->chain->num_inputs(), 2);
  EXPECT_EQ(form->buffers[0], (BufferView{0, 128}));
  EXPECT_EQ(form->notes, std::vector<std::string>{"#0 is input 0 from byte 128 on"});
  EXPECT_EQ(form->chain->input_op(0).strides, (std::vector<Stride>{{192, 0}, {1, 0}}));
}

TEST(NormalForm, LeavesViewsThatNoVectorStartsAt) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,192]; part = x[:, 4:68]; w: const bf16[32,64]; out bf16(part @ w.T)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kSlice), 1);
}

TEST(NormalForm, ReadsABufferThatIsWrittenThroughOneInput) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,2,32]; w: const bf16[32,64]; product = bf16(reshape(x, [M,64]) @ w.T); "
                "grown = bf16(x + x); out grown over x, product"));
  EXPECT_EQ(form->chain->num_inputs(), 2) << form->chain->ToString();
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 1);
}

TEST(NormalForm, MakesReshapedResultsOutputsOfTheProduct) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,64]; w: const bf16[32,64]; heads = reshape(bf16(x @ w.T), [M,4,8]); "
                "out heads"));
  EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0);
  EXPECT_EQ(form->chain->output_type(0).dims, (std::vector<Dim>{kM, D(32)}));
}

TEST(NormalForm, LeavesTransposedRowsToTheProductAndTransposesMatricesByTheirLayout) {
  const FormPtr form =
      Normal(ReadChain("x: bf16[64,40]; w: const bf16[64,32] strides(1,64); out bf16(x.T @ w)"));
  const Op& product = Only(*form->chain, OpKind::kMatmul);
  EXPECT_TRUE(product.transpose_a);
  EXPECT_TRUE(product.transpose_b);
  EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 0);
  const Op& weight = form->chain->op(product.operands[1]);
  EXPECT_EQ(weight.type.dims, (std::vector<Dim>{D(32), D(64)}));
  EXPECT_EQ(weight.strides, (std::vector<Stride>{{64, 0}, {1, 0}}));
}

TEST(NormalForm, OfATransposedProductInABatchOfOneIsMadeAtOnce) {
  const FormPtr form =
      Normal(ReadChain("x: bf16[64,40]; w: const bf16[1,64,32]; out bf16(x.T @ w)"));
  EXPECT_TRUE(Only(*form->chain, OpKind::kMatmul).transpose_a);
  EXPECT_FALSE((*NormalFormOf(form->chain))->changed());
}

// The transpose is the product's, also where an op says it, unless an operand is copied anyway:
// rows of 36 elements, 20 columns, an odd K by a matrix along K; or where the rows lie along K.
TEST(NormalForm, TransposesRowsByAnOpWhereAnOperandIsCopied) {
  struct Case {
    int64_t k, rows, n;
    bool by_op, along_k, taken;
  };
  for (const Case& c :
       {Case{64, 40, 32, false, false, true}, Case{64, 40, 32, true, false, true},
        Case{60, 40, 32, true, false, true}, Case{64, 40, 32, true, true, true},
        Case{64, 36, 32, false, false, false}, Case{64, 40, 20, false, false, false},
        Case{60, 40, 32, false, true, false}}) {
    ChainBuilder b;
    const ValueId x = Input(b, {D(c.k), D(c.rows)});
    const ValueId turned = c.by_op ? *b.Transpose(x, {1, 0}) : x;
    const ValueId w = c.along_k ? Input(b, {D(c.n), D(c.k)}) : Input(b, {D(c.k), D(c.n)});
    const FormPtr form =
        Normal(b, {*b.Cast(*b.Matmul(turned, w, !c.by_op, c.along_k), DType::kBF16)});
    EXPECT_EQ(Only(*form->chain, OpKind::kMatmul).transpose_a, c.taken) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kTranspose) == 0, c.taken) << form->chain->ToString();
  }
  const FormPtr form =
      Normal(ReadChain("x: bf16[64,40] strides(1,64); y: bf16[64,32]; out bf16(x.T @ y)"));
  EXPECT_FALSE(Only(*form->chain, OpKind::kMatmul).transpose_a);
  EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 0) << form->chain->ToString();
}

// A kernel's result has no gaps, also after a reshape. If a view of it is copied for ops that read
// rows, the copy also serves ops that read columns, unless those are already contiguous.
TEST(NormalForm, LeavesTransposesOfComputedRowsToTheProduct) {
  struct Case {
    std::vector<int64_t> dims;
    std::vector<int32_t> axes;
    bool taken;
  };
  for (const Case& c : {Case{{2, 32, 40}, {0, 1, 2}, true}, Case{{5, 64, 8}, {1, 0, 2}, true},
                        Case{{5, 8, 64}, {2, 0, 1}, false}}) {
    ChainBuilder b;
    const ValueId x = Input(b, {D(c.dims[0]), D(c.dims[1]), D(c.dims[2])});
    const ValueId computed = *b.Cast(*b.Unary(UnaryKind::kExp, x), DType::kBF16);
    const ValueId rows = *b.Reshape(*b.Transpose(computed, c.axes), {D(64), D(40)});
    const ValueId product = *b.Matmul(rows, Input(b, {D(64), D(32)}), true);
    const FormPtr form = Normal(b, {*b.Cast(product, DType::kBF16)});
    EXPECT_EQ(Only(*form->chain, OpKind::kMatmul).transpose_a, c.taken) << form->chain->ToString();
  }
}

// The operands of a sum over M are padded with zeros after rows and columns, which a slice of the
// result removes.
TEST(NormalForm, PadsWhatASumOverMReads) {
  for (const bool by_op : {false, true}) {
    for (const auto& [rows, n, copies] :
         {std::tuple<int64_t, int64_t, int>{40, 32, 0}, {36, 32, 1}, {40, 20, 1}, {36, 1, 2}}) {
      ChainBuilder b;
      const ValueId x = Input(b, {kM, D(rows)});
      const ValueId turned = by_op ? *b.Transpose(x, {1, 0}) : x;
      const ValueId sum = *b.Matmul(turned, Input(b, {kM, D(n)}), !by_op);
      const FormPtr form = Normal(b, {*b.Cast(sum, DType::kBF16)});
      const Op& product = Only(*form->chain, OpKind::kMatmul);
      EXPECT_TRUE(product.transpose_a);
      EXPECT_EQ(product.type.dims, (std::vector<Dim>{D(40), D(n <= 1 ? 8 : n <= 20 ? 24 : 32)}));
      EXPECT_EQ(Count(*form->chain, OpKind::kConcat), copies) << form->chain->ToString();
      EXPECT_EQ(Count(*form->chain, OpKind::kSlice), copies > 0 ? 1 : 0);
      EXPECT_EQ(form->notes.size(), static_cast<size_t>(copies));
      EXPECT_FALSE((*NormalFormOf(form->chain))->changed());
    }
  }
}

TEST(NormalForm, ReadsAWeightOfSeveralProductsThroughOneInput) {
  ChainBuilder b;
  const ValueId w = Input(b, {D(64), D(32)}, true, {{1, 0}, {64, 0}});
  std::vector<ValueId> results;
  for (int i = 0; i < 3; ++i) {
    results.push_back(*b.Cast(*b.Matmul(Input(b, {kM, D(64)}), w), DType::kBF16));
  }
  const FormPtr form = Normal(b, results);
  EXPECT_TRUE(form->changed());
  EXPECT_EQ(form->chain->num_inputs(), 4) << form->chain->ToString();
}

TEST(NormalForm, PadsKWithZerosAndSaysSo) {
  const FormPtr form = Normal(ReadChain("x: bf16[M,36]; w: const bf16[108,36]; out bf16(x @ w.T)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kConcat), 2);
  ASSERT_EQ(form->notes.size(), 2u);
  EXPECT_EQ(form->notes[0], "copied with zeros: bf16[M,36], 36 to 40, a multiple of 16 bytes");
}

TEST(NormalForm, PadsTheChannelsOfImages) {
  const FormPtr form = Normal(ReadChain(
      "x: bf16[M,16,16,3]; y = conv(x, {const bf16[60,3,3,3]}, strides=[2,2]); out bf16(y)"));
  const Op& padded = Only(*form->chain, OpKind::kConv2d);
  EXPECT_EQ(form->chain->op(padded.operands[0]).type.dims.back(), D(8));
  EXPECT_EQ(form->chain->op(padded.operands[1]).type.dims.back(), D(8));
  EXPECT_EQ(form->notes.size(), 2u);
}

TEST(NormalForm, JoinsGroupsOfFewChannels) {
  const auto op_of = [](int64_t channels, int64_t groups, int64_t out, FilterLayout layout) {
    ChainBuilder b;
    Conv2d conv{.filter = layout};
    const bool ohwi = layout == FilterLayout::kOHWI;
    const int64_t in = channels / groups;
    const ValueId x = Input(b, {kM, D(8), D(8), D(channels)});
    const ValueId w = Input(b,
                            ohwi ? std::vector<Dim>{D(out), D(3), D(3), D(in)}
                                 : std::vector<Dim>{D(3), D(3), D(in), D(out)},
                            true);
    const FormPtr form = Normal(b, {*b.Cast(*AddConv2d(b, x, w, conv, groups), DType::kBF16)});
    const Op op = Only(*form->chain, OpKind::kConv2d);
    return std::make_pair(op.conv, form->chain->op(op.operands[1]).type);
  };
  const auto joined = op_of(128, 32, 128, FilterLayout::kOHWI);  // ResNeXt-50: 4 channels a group
  EXPECT_EQ(joined.first.groups, 2);
  EXPECT_EQ(joined.second.dims.back(), D(64));
  const auto filled = op_of(256, 32, 256, FilterLayout::kOHWI);  // 8 channels: a box a group
  EXPECT_EQ(filled.first.groups, 4);
  const auto wide = op_of(512, 32, 512, FilterLayout::kOHWI);
  EXPECT_EQ(wide.first.groups, 32);
  const auto one = op_of(8, 4, 8, FilterLayout::kHWIO);
  EXPECT_EQ(one.first.groups, 1);
  EXPECT_EQ(one.second.dims.back(), D(8));
  const auto of_results = op_of(64, 8, 32, FilterLayout::kOHWI);  // 4 columns a group
  EXPECT_EQ(of_results.first.groups, 4);
  const auto turned = op_of(64, 4, 64, FilterLayout::kHWIO);
  EXPECT_EQ(turned.first.groups, 4);
  EXPECT_EQ(turned.first.filter, FilterLayout::kOHWI);
  const auto odd = op_of(36, 3, 72, FilterLayout::kOHWI);  // which no number of groups joins
  EXPECT_EQ(odd.first.groups, 3);
}

TEST(NormalForm, CutsOneWeightIntoGateAndUp) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,64]; w: const bf16[256,64]; both = x @ w.T; gate = both[:, 0:128]; "
                "up = both[:, 128:256]; silu = gate * sigmoid(gate); out bf16(silu * up)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kMatmul), 2);
  EXPECT_EQ(Count(*form->chain, OpKind::kSlice), 0);
  std::vector<BufferView> weights;
  for (int i = 0; i < form->chain->num_inputs(); ++i) {
    if (form->buffers[static_cast<size_t>(i)].buffer == 1) {
      weights.push_back(form->buffers[static_cast<size_t>(i)]);
    }
  }
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].offset_bytes + weights[1].offset_bytes, 128 * 64 * 2);
}

TEST(NormalForm, LeavesSlicesThatAreNoPair) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,64]; w: const bf16[256,64]; both = x @ w.T; first = both[:, 0:128]; "
                "second = both[:, 128:256]; out bf16(first), bf16(second)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kMatmul), 1);
}

// 32 to 160 and 96 to 224 of 256 columns: as long as halves, and their starts add up to one.
TEST(NormalForm, LeavesSlicesOfTheMiddle) {
  const FormPtr form = Normal(
      ReadChain("x: bf16[M,64]; w: const bf16[256,64]; both = x @ w.T; gate = both[:, 32:160]; "
                "up = both[:, 96:224]; silu = gate * sigmoid(gate); out bf16(silu * up)"));
  EXPECT_EQ(Count(*form->chain, OpKind::kMatmul), 1) << form->chain->ToString();
}

TEST(NormalForm, HasOneOfEqualOpsAndBothOfEqualResults) {
  const FormPtr form =
      Normal(ReadChain("x: bf16[M,64]; a = exp(f32(x)); c = exp(f32(x)); out a, c"));
  EXPECT_EQ(Count(*form->chain, OpKind::kCast), 1);
  EXPECT_EQ(Count(*form->chain, OpKind::kUnary), 2);
}

TEST(NormalForm, TellsZeroFromMinusZero) {
  const FormPtr form =
      Normal(ReadChain("x: f32[M,8]; plus = x / 0.0; minus = x / (-0.0); out plus, minus"));
  EXPECT_EQ(Count(*form->chain, OpKind::kScalar), 2);
}

TEST(NormalForm, KeepsCastsThatRound) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {kM, D(8)}});
  // The sum is not rounded: its dtype is the least that it has.
  const ValueId sum = *b.Binary(BinaryKind::kAdd, x, x);
  const ValueId rounded = *b.Cast(sum, DType::kBF16);
  const ValueId twice = *b.Cast(*b.Cast(rounded, DType::kF32), DType::kBF16);
  const FormPtr form = Normal(b, {*b.Unary(UnaryKind::kNeg, twice)});
  EXPECT_EQ(Count(*form->chain, OpKind::kCast), 1) << form->chain->ToString();
}

TEST(NormalForm, TellsTheCallersNumbers) {
  const FormPtr form = Normal(ReadChain(
      "x: bf16[1,M,64]; same = bf16(f32(x)); w: const bf16[32,64]; out bf16(same @ w.T)"));
  ASSERT_EQ(form->origins.size(), form->chain->ops().size());
  for (size_t i = 0; i < form->origins.size(); ++i) {
    const Op& planned = form->chain->ops()[i];
    EXPECT_EQ(planned.kind, form->callers->op(form->origins[i]).kind);
    if (planned.kind != OpKind::kMatmul) continue;
    const std::string now = std::to_string(i), callers = std::to_string(form->origins[i]);
    EXPECT_NE(now, callers);
    EXPECT_EQ(form->InCallersNumbers("op " + now + " (matmul): stop 2, op " + now + "; op x"),
              "op " + callers + " (matmul): stop 2, op " + callers + "; op x");
    const absl::Status error = OpRefused(static_cast<int32_t>(i), " is refused");
    EXPECT_EQ(OpOf(form->InCallersNumbers(error)), form->origins[i]);
  }
}

// A product of numbers has twice as many factors with each op: rules look at a few.
TEST(NormalForm, OfProductsOfManyNumbersIsMadeAtOnce) {
  ChainBuilder b;
  const ValueId x = Input(b, {kM, D(64)});
  ValueId number = *b.Scalar(1.0001, DType::kF32);
  for (int i = 0; i < 60; ++i) number = *b.Binary(BinaryKind::kMul, number, number);
  const ValueId scaled = *b.Binary(BinaryKind::kMul, x, number);
  const ValueId gate = *b.Unary(UnaryKind::kTanh, scaled);
  const FormPtr form =
      Normal(b, {*b.Cast(*b.Binary(BinaryKind::kMul, gate, scaled), DType::kBF16)});
  EXPECT_EQ(Count(*form->chain, OpKind::kUnary), 1);
}

TEST(NormalForm, KnowsActivationsInAllSpellings) {
  const auto chain_of = [](auto&& activation) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF32, {kM, D(8)}});
    return Normal(b, {activation(b, x)})->chain->CanonicalBytes();
  };
  const auto two = [](ChainBuilder& b, BinaryKind kind, ValueId p, ValueId q) {
    return *b.Binary(kind, p, q);
  };
  const std::string silu = chain_of([&](ChainBuilder& b, ValueId x) {
    return two(b, BinaryKind::kMul, x, *b.Unary(UnaryKind::kSigmoid, x));
  });
  EXPECT_EQ(silu, chain_of([&](ChainBuilder& b, ValueId x) {
              const ValueId power = *b.Unary(UnaryKind::kExp, *b.Unary(UnaryKind::kNeg, x));
              return two(b, BinaryKind::kDiv, x, two(b, BinaryKind::kAdd, power, *b.Scalar(1)));
            }));
  const std::string relu =
      chain_of([&](ChainBuilder& b, ValueId x) { return *b.Unary(UnaryKind::kRelu, x); });
  EXPECT_EQ(relu, chain_of([&](ChainBuilder& b, ValueId x) {
              return two(b, BinaryKind::kMax, *b.Scalar(0), x);
            }));
  const auto selected = [&](CompareKind kind, double below) {
    return chain_of([&](ChainBuilder& b, ValueId x) {
      return *b.Select(*b.Compare(kind, x, *b.Scalar(below)), *b.Scalar(0), x);
    });
  };
  EXPECT_EQ(relu, selected(CompareKind::kLe, 0));
  EXPECT_EQ(relu, selected(CompareKind::kLt, 0));
  const std::string softplus =
      chain_of([&](ChainBuilder& b, ValueId x) { return *AddSoftplus(b, x); });
  EXPECT_EQ(softplus, chain_of([&](ChainBuilder& b, ValueId x) {
              return *b.Unary(UnaryKind::kLog1p, *b.Unary(UnaryKind::kExp, x));
            }));
  EXPECT_EQ(softplus, chain_of([&](ChainBuilder& b, ValueId x) {
              return *b.Unary(UnaryKind::kLog,
                              two(b, BinaryKind::kAdd, *b.Scalar(1), *b.Unary(UnaryKind::kExp, x)));
            }));
  EXPECT_NE(softplus, chain_of([&](ChainBuilder& b, ValueId x) {
              return *b.Unary(UnaryKind::kLog, two(b, BinaryKind::kAdd, *b.Scalar(1), x));
            }));
  // Not what is nearly one.
  EXPECT_NE(relu, chain_of([&](ChainBuilder& b, ValueId x) {
              return two(b, BinaryKind::kMax, *b.Scalar(1e-30), x);
            }));
  EXPECT_NE(relu, selected(CompareKind::kGe, 0));
  EXPECT_NE(relu, selected(CompareKind::kLe, 1));
}

TEST(NormalForm, LeavesASelectAloneThatAnotherValueDecides) {
  for (const bool of_itself : {true, false}) {
    ChainBuilder b;
    const std::vector<Dim> dims = {kM, D(8)};
    const ValueId x = *b.Input({DType::kF32, dims}), y = *b.Input({DType::kF32, dims});
    const ValueId below = *b.Compare(CompareKind::kLe, of_itself ? x : y, *b.Scalar(0));
    const FormPtr form = Normal(b, {*b.Select(below, *b.Broadcast(*b.Scalar(0), dims), x), y});
    EXPECT_EQ(Count(*form->chain, OpKind::kSelect), of_itself ? 0 : 1);
  }
}

// A value that may be stored over an input has the input's type, whatever becomes of the rows
// around both.
TEST(NormalForm, KeepsTheTypesOfWhatSharesABuffer) {
  const std::vector<Dim> rows = {D(1), kM, D(64)};
  const auto alias = [](ChainBuilder& b, ValueId value, ValueId input) {
    EXPECT_TRUE(b.Output(value, {{}, input}).ok());
  };
  const auto square = [](ChainBuilder& b, ValueId x) {
    return *b.Cast(*b.Matmul(x, Input(b, {D(64), D(64)}, true)), DType::kBF16);
  };
  const auto expect_alias = [](const FormPtr& form, size_t outputs) {
    ASSERT_TRUE(form->changed());
    ASSERT_EQ(form->chain->outputs().size(), outputs);
    int shared = 0;
    for (const ChainOutput& output : form->chain->outputs()) shared += output.alias_input >= 0;
    EXPECT_EQ(shared, 1) << form->chain->ToString();
    for (const Op& op : form->chain->ops()) {
      if (op.kind == OpKind::kMatmul) {
        EXPECT_TRUE(op.type.dims[0].symbolic) << form->chain->ToString();
      }
    }
  };
  {  // rows of two products: the input is in one group, what is stored over it in another
    ChainBuilder b;
    const ValueId x = Input(b, rows), z = Input(b, rows);
    alias(b, square(b, z), x);
    expect_alias(Normal(b, {square(b, x)}), 2);
  }
  {  // the input's rows stay as they are
    ChainBuilder b;
    const ValueId x = Input(b, {D(1), D(24), D(64)}), z = Input(b, {D(24), D(64)});
    alias(b, *b.Reshape(square(b, z), {D(1), D(24), D(64)}), x);
    const FormPtr form = Normal(b, {*b.Cast(*b.Unary(UnaryKind::kExp, x), DType::kBF16)});
    ASSERT_GE(form->chain->outputs()[0].alias_input, 0);
  }
  {  // a value that is output twice, the second time over an input of its group
    ChainBuilder b;
    const ValueId x = Input(b, rows);
    const ValueId y = square(b, x);
    EXPECT_TRUE(b.Output(y).ok());
    alias(b, y, x);
    expect_alias(Normal(b, {}), 2);
  }
}

// Forms whose value has no axes, together with rows that have some.
TEST(NormalForm, KnowsFormsOfSingleNumbers) {
  for (const bool mean : {false, true}) {
    for (const bool silu : {false, true}) {
      ChainBuilder b;
      const ValueId y = *b.Matmul(Input(b, {D(1), D(8)}), Input(b, {D(8), D(8)}, true));
      ValueId number = *b.Reduce(ReduceKind::kSum, *b.Reshape(y, {D(8)}), {0}, false);
      if (mean) number = *b.Binary(BinaryKind::kDiv, number, *b.Scalar(8));
      if (silu) {
        const ValueId power = *b.Unary(UnaryKind::kExp, *b.Unary(UnaryKind::kNeg, number));
        number =
            *b.Binary(BinaryKind::kDiv, number, *b.Binary(BinaryKind::kAdd, power, *b.Scalar(1)));
      }
      const FormPtr form =
          Normal(b, {*b.Cast(*b.Binary(BinaryKind::kMul, y, number), DType::kBF16)});
      EXPECT_EQ(Only(*form->chain, OpKind::kReduce).reduce,
                mean ? ReduceKind::kMean : ReduceKind::kSum);
      EXPECT_EQ(Only(*form->chain, OpKind::kReduce).type.rank(), 0);
    }
  }
}

TEST(NormalForm, ReducesFewLongRowsInParts) {
  const auto reduced = [](std::vector<Dim> dims, std::vector<int32_t> axes, bool keepdims) {
    ChainBuilder b;
    const ValueId x = *b.Unary(UnaryKind::kSquare, *b.Input({DType::kF32, std::move(dims)}));
    return Normal(b, {*b.Reduce(ReduceKind::kSum, x, std::move(axes), keepdims)});
  };
  const FormPtr form = reduced({D(4), D(1 << 20)}, {1}, true);
  std::vector<std::vector<Dim>> results;
  for (const Op& op : form->chain->ops()) {
    if (op.kind == OpKind::kReduce) results.push_back(op.type.dims);
  }
  EXPECT_EQ(results, (std::vector<std::vector<Dim>>{{D(4), D(256)}, {D(4)}}));
  EXPECT_EQ(form->chain->output_type(0).dims, (std::vector<Dim>{D(4), D(1)}));
  EXPECT_EQ(Count(*reduced({D(1000000)}, {0}, false)->chain, OpKind::kReduce), 2);
  EXPECT_EQ(Count(*reduced({D(2), D(256), D(384)}, {1, 2}, false)->chain, OpKind::kReduce), 2);
  // Rows that are short, many or of an unknown number, and those that lie along other axes.
  EXPECT_FALSE(reduced({D(4), D(1 << 15)}, {1}, false)->changed());
  EXPECT_FALSE(reduced({D(32), D(1 << 20)}, {1}, false)->changed());
  EXPECT_FALSE(reduced({kM, D(1 << 20)}, {1}, false)->changed());
  EXPECT_FALSE(reduced({D(1 << 20), D(4)}, {0}, false)->changed());
  EXPECT_FALSE(reduced({D(1048573)}, {0}, false)->changed());
}

TEST(NormalForm, KeepsLongRowsWholeThatAreReadAgain) {
  EXPECT_FALSE(
      Normal(ReadChain("x: f32[4,1048576]; largest = reduce_max(x, 1, keep); "
                       "spread = spread(largest, [4,1048576]); apart = x - spread; out apart"))
          ->changed());
}

// log(sum(exp(x - max))): one kernel holds both reductions.
TEST(NormalForm, KeepsASecondReductionOverLongRowsWithTheFirst) {
  EXPECT_EQ(
      Count(*Normal(ReadChain("x: f32[4,1048576]; largest = reduce_max(x, 1, keep); "
                              "spread = spread(largest, [4,1048576]); apart = exp(x - spread); "
                              "sum = sum(apart, 1, keep); out log(sum) + largest"))
                 ->chain,
            OpKind::kReduce),
      2);
}

// One id takes rows of a table whose own M follows other axes.
TEST(NormalForm, OfOneIdIsThere) {
  EXPECT_TRUE(NormalFormOf(std::make_shared<const Chain>(ReadChain(
                               "x: f32[4,8,M,64]; id: s32[]; y = relu(gather(x, id, 0)); out y")))
                  .ok());
}

}  // namespace
}  // namespace sinter
