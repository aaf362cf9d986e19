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

FormPtr Normal(Chain chain) {
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(chain))));
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

TEST(NormalForm, OfChainsThatPlanIsTheChainItself) {
  for (const char* text : {"gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16",
                           "gated_ffn m=8 n=64 k=64 l=64 act=gelu_tanh layout=io dtype=f16"}) {
    const auto chain = std::make_shared<const Chain>(Got(ParseProblem(text)).chain);
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
  for (const char* rows : {"1,M", "8,M", "2,M,3", "M,1"}) {
    const FormPtr form =
        Normal(ReadChain("x: bf16[$0,64]; w: const bf16[32,64]; out bf16(x @ w.T)", rows));
    const Op& product = Only(*form->chain, OpKind::kMatmul);
    EXPECT_TRUE(product.type.dims.front().symbolic) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kReshape), 0) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 0);
  }
}

// A slice and a sum have fewer rows than the product, whose rows are relabelled all the same.
TEST(NormalForm, PutsMFirstInFrontOfFewerRows) {
  for (const char* fewer : {"y[0:4, :, 0:32]", "sum(y, 0)"}) {
    const FormPtr form = Normal(ReadChain(
        "x: bf16[8,M,64]; w: const bf16[32,64]; y = bf16(x @ w.T); out y, relu($0)", fewer));
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
  for (const char* rows : {"1,M", "8,M", "2,M,3", "M,1"}) {
    for (const char* dtype : {"s32", "s64"}) {
      const FormPtr form =
          Normal(ReadChain("table: const bf16[100,64]; ids: $1[$0]; x: bf16[$0,64]; "
                           "out gather(table, ids) + x",
                           rows, dtype));
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
  for (const char* rows : {"1,M", "8,M", "2,M,3", "M,1"}) {
    for (const char* dtype : {"s32", "s64"}) {
      const FormPtr form =
          Normal(ReadChain("cache: bf16[100,64]; r: bf16[$0,64]; ids: $1[$0]; "
                           "out scatter(cache, ids, bf16(relu(r)))",
                           rows, dtype));
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
  const FormPtr form = Normal(ReadChain(
      "cache: bf16[100,64]; ids: s32[M]; r: bf16[M,64]; out bf16(f32(scatter(cache, ids, r)))"));
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
  const std::pair<const char*, bool> cases[] = {
      {"x: bf16[64,40]; w: bf16[64,32]; out bf16(x.T @ w)", true},
      {"x: bf16[64,40]; w: bf16[64,32]; out bf16(transpose(x, 1, 0) @ w)", true},
      {"x: bf16[60,40]; w: bf16[60,32]; out bf16(transpose(x, 1, 0) @ w)", true},
      {"x: bf16[64,40]; w: bf16[32,64]; out bf16(transpose(x, 1, 0) @ w.T)", true},
      {"x: bf16[64,36]; w: bf16[64,32]; out bf16(x.T @ w)", false},
      {"x: bf16[64,40]; w: bf16[64,20]; out bf16(x.T @ w)", false},
      {"x: bf16[60,40]; w: bf16[32,60]; out bf16(x.T @ w.T)", false}};
  for (const auto& [text, taken] : cases) {
    const FormPtr form = Normal(ReadChain(text));
    EXPECT_EQ(Only(*form->chain, OpKind::kMatmul).transpose_a, taken) << form->chain->ToString();
    EXPECT_EQ(Count(*form->chain, OpKind::kTranspose) == 0, taken) << form->chain->ToString();
  }
  const FormPtr form =
      Normal(ReadChain("x: bf16[64,40] strides(1,64); y: bf16[64,32]; out bf16(x.T @ y)"));
  EXPECT_FALSE(Only(*form->chain, OpKind::kMatmul).transpose_a);
  EXPECT_EQ(Count(*form->chain, OpKind::kTranspose), 0) << form->chain->ToString();
}

// A kernel's result has no gaps, also after a reshape. If a view of it is copied for ops that read
// rows, the copy also serves ops that read columns, unless those are already contiguous.
TEST(NormalForm, LeavesTransposesOfComputedRowsToTheProduct) {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"2,32,40", "0, 1, 2", true}, {"5,64,8", "1, 0, 2", true}, {"5,8,64", "2, 0, 1", false}};
  for (const auto& [dims, axes, taken] : cases) {
    const FormPtr form =
        Normal(ReadChain("x: bf16[$0]; w: bf16[64,32]; turned = transpose(bf16(exp(x)), $1); "
                         "rows = reshape(turned, [64,40]); out bf16(rows.T @ w)",
                         dims, axes));
    EXPECT_EQ(Only(*form->chain, OpKind::kMatmul).transpose_a, taken) << form->chain->ToString();
  }
}

// The operands of a sum over M are padded with zeros after rows and columns, which a slice of the
// result removes.
TEST(NormalForm, PadsWhatASumOverMReads) {
  for (const char* turned : {"x.T", "transpose(x, 1, 0)"}) {
    for (const auto& [rows, n, copies] :
         {std::tuple<int64_t, int64_t, int>{40, 32, 0}, {36, 32, 1}, {40, 20, 1}, {36, 1, 2}}) {
      const FormPtr form =
          Normal(ReadChain("x: bf16[M,$0]; w: bf16[M,$1]; out bf16($2 @ w)", rows, n, turned));
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
  const FormPtr form =
      Normal(ReadChain("w: const bf16[64,32] strides(1,64); x, y, z: bf16[M,64]; "
                       "out bf16(x @ w), bf16(y @ w), bf16(z @ w)"));
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
    const bool ohwi = layout == FilterLayout::kOHWI;
    const int64_t in = channels / groups;
    const FormPtr form = Normal(ReadChain(
        "x: bf16[M,8,8,$0]; w: const bf16[$1]; out bf16(conv2d(x, w, groups=$2$3))", channels,
        ohwi ? absl::StrCat(out, ",3,3,", in) : absl::StrCat("3,3,", in, ",", out), groups,
        ohwi ? "" : ", layout=hwio"));
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
  // The sum is not rounded: its dtype is the least that it has.
  const FormPtr form =
      Normal(ReadChain("x: bf16[M,8]; rounded = bf16(x + x); out neg(bf16(f32(rounded)))"));
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
  ChainReader r("x: bf16[M,64]; number = 1.0001");
  for (int i = 0; i < 60; ++i) r.Add("number = number * number");
  r.Add("scaled = x * number; out bf16(tanh(scaled) * scaled)");
  EXPECT_EQ(Count(*Normal(r.Finish())->chain, OpKind::kUnary), 1);
}

TEST(NormalForm, KnowsActivationsInAllSpellings) {
  const auto form_of = [](const char* activation) {
    return Normal(ReadChain("x: f32[M,8]; out $0", activation))->chain->CanonicalBytes();
  };
  const std::string silu = form_of("x * sigmoid(x)"), relu = form_of("relu(x)"),
                    softplus = form_of("softplus(x)");
  EXPECT_EQ(silu, form_of("x / (exp(neg(x)) + 1)"));
  EXPECT_EQ(relu, form_of("max(0, x)"));
  EXPECT_EQ(relu, form_of("select(le(x, 0), 0, x)"));
  EXPECT_EQ(relu, form_of("select(lt(x, 0), 0, x)"));
  EXPECT_EQ(softplus, form_of("log1p(exp(x))"));
  EXPECT_EQ(softplus, form_of("log(1 + exp(x))"));
  // Not what is nearly one.
  EXPECT_NE(softplus, form_of("log(1 + x)"));
  EXPECT_NE(relu, form_of("max(1e-30, x)"));
  EXPECT_NE(relu, form_of("select(ge(x, 0), 0, x)"));
  EXPECT_NE(relu, form_of("select(le(x, 1), 0, x)"));
}

TEST(NormalForm, LeavesASelectAloneThatAnotherValueDecides) {
  for (const absl::string_view decides : {"x", "y"}) {
    const FormPtr form =
        Normal(ReadChain("x, y: f32[M,8]; out select(le($0, 0), spread(0:f32, x), x), y", decides));
    EXPECT_EQ(Count(*form->chain, OpKind::kSelect), decides == "x" ? 0 : 1);
  }
}

// A value that may be stored over an input has the input's type, whatever becomes of the rows
// around both.
TEST(NormalForm, KeepsTheTypesOfWhatSharesABuffer) {
  // The input is in one group of rows, what is stored over it in another; then a value that is
  // output twice, the second time over an input of its group.
  for (const char* text :
       {"x, z: bf16[1,M,64]; v, w: const bf16[64,64]; out bf16(z @ v) over x, bf16(x @ w)",
        "x: bf16[1,M,64]; w: const bf16[64,64]; y = bf16(x @ w); out y, y over x"}) {
    const FormPtr form = Normal(ReadChain(text));
    ASSERT_TRUE(form->changed());
    ASSERT_EQ(form->chain->outputs().size(), 2u);
    int shared = 0;
    for (const ChainOutput& output : form->chain->outputs()) shared += output.alias_input >= 0;
    EXPECT_EQ(shared, 1) << form->chain->ToString();
    for (const Op& op : form->chain->ops()) {
      if (op.kind == OpKind::kMatmul) {
        EXPECT_TRUE(op.type.dims[0].symbolic) << form->chain->ToString();
      }
    }
  }
  // The input's rows stay as they are.
  const FormPtr form =
      Normal(ReadChain("x: bf16[1,24,64]; z: bf16[24,64]; w: const bf16[64,64]; "
                       "out reshape(bf16(z @ w), [1,24,64]) over x, bf16(exp(x))"));
  ASSERT_GE(form->chain->outputs()[0].alias_input, 0);
}

// Forms whose value has no axes, together with rows that have some.
TEST(NormalForm, KnowsFormsOfSingleNumbers) {
  for (const bool mean : {false, true}) {
    for (const bool silu : {false, true}) {
      ChainReader r(
          "x: bf16[1,8]; w: const bf16[8,8]; y = x @ w; number = sum(reshape(y, [8]), 0)");
      if (mean) r.Add("number = number / 8");
      if (silu) r.Add("number = number / (exp(neg(number)) + 1)");
      r.Add("out bf16(y * number)");
      const FormPtr form = Normal(r.Finish());
      EXPECT_EQ(Only(*form->chain, OpKind::kReduce).reduce,
                mean ? ReduceKind::kMean : ReduceKind::kSum);
      EXPECT_EQ(Only(*form->chain, OpKind::kReduce).type.rank(), 0);
    }
  }
}

TEST(NormalForm, ReducesFewLongRowsInParts) {
  const auto reduced = [](const char* dims, const char* axes) {
    return Normal(ReadChain("x: f32[$0]; out sum(square(x), $1)", dims, axes));
  };
  const FormPtr form = reduced("4,1048576", "1, keep");
  std::vector<std::vector<Dim>> results;
  for (const Op& op : form->chain->ops()) {
    if (op.kind == OpKind::kReduce) results.push_back(op.type.dims);
  }
  EXPECT_EQ(results, (std::vector<std::vector<Dim>>{{D(4), D(256)}, {D(4)}}));
  EXPECT_EQ(form->chain->output_type(0).dims, (std::vector<Dim>{D(4), D(1)}));
  EXPECT_EQ(Count(*reduced("1000000", "0")->chain, OpKind::kReduce), 2);
  EXPECT_EQ(Count(*reduced("2,256,384", "1, 2")->chain, OpKind::kReduce), 2);
  // Rows that are short, many or of an unknown number, and those that lie along other axes.
  EXPECT_FALSE(reduced("4,32768", "1")->changed());
  EXPECT_FALSE(reduced("32,1048576", "1")->changed());
  EXPECT_FALSE(reduced("M,1048576", "1")->changed());
  EXPECT_FALSE(reduced("1048576,4", "0")->changed());
  EXPECT_FALSE(reduced("1048573", "0")->changed());
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
