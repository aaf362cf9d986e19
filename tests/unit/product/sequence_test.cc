#include "src/product/sequence.h"

#include "tests/support/changed_sequence.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

constexpr char kRefusedSequences[] = "tests/unit/product/refused_sequences.txt";

ProductSequence Gated() {
  return MakeSequence(128, MakeProduct(3072, 1024, Activation::kSilu, true), 1024);
}

TEST(ElementTable, AgreesWithTheWidthsOfTheChip) {
  for (const ElementRow& row : kElementRows) {
    EXPECT_EQ(row.bytes, SizeOf(row.element)) << NameOf(row.element);
    EXPECT_EQ(row.wgmma_k * row.bytes, 32) << NameOf(row.element);
    EXPECT_EQ(row.swizzle_span * row.bytes, 128) << NameOf(row.element);
    EXPECT_EQ(row.vector * row.bytes, 16) << NameOf(row.element);
    EXPECT_EQ(FindElement(row.element), &row);
  }
  for (DType element : {DType::kF32, DType::kS32, DType::kPred}) {
    EXPECT_EQ(FindElement(element), nullptr) << NameOf(element);
    EXPECT_EQ(ElementOf(element).bytes, 0) << NameOf(element);
  }
}

TEST(Sequence, CountsWeightsAndFlop) {
  const ProductSequence s = Gated();
  EXPECT_EQ(s.WeightBytes(), 2 * (2 * 3072 * 1024 + 3072 * 1024));
  EXPECT_EQ(s.Flop(128), 2.0 * 128 * 3072 * (2 * 1024 + 1024));
  EXPECT_EQ(s.Flop(0), 0);
  EXPECT_EQ(s.Part(0, 1).WeightBytes(), 2 * 2 * 3072 * 1024);
}

TEST(Sequence, PartsAreTheKernelsOfTheUnfusedPlan) {
  const ProductSequence s = Changed(Gated(), "2.n=768 bias2=true");
  const ProductSequence first = s.Part(0, 1), second = s.Part(1, 1);
  EXPECT_EQ(first.ToString(), "gated_product m<=128 n=3072 k=1024 act=silu layout=oi dtype=bf16");
  EXPECT_EQ(second.ToString(),
            "product m<=128 n=768 k=3072 act=identity bias1=1 layout=oi dtype=bf16");
  EXPECT_EQ(first.Flop(128) + second.Flop(128), s.Flop(128));
  EXPECT_EQ(first.WeightBytes() + second.WeightBytes(), s.WeightBytes());
  EXPECT_TRUE(CheckSequence(first).ok()) << CheckSequence(first);
  EXPECT_TRUE(CheckSequence(second).ok()) << CheckSequence(second);
  EXPECT_EQ(second[0].rows.source, Source::kBuffer) << "what a kernel hands over lies in memory";
  EXPECT_TRUE(s.Part(0, 2) == s);
}

TEST(Sequence, TellsResidualsAndScalings) {
  ProductSequence s = Changed(Gated(), "residual=added");
  EXPECT_FALSE(s.Part(0, 1).back().epilogue.has_residual());
  EXPECT_TRUE(s.Part(1, 1).back().epilogue.has_residual());
  EXPECT_EQ(s.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu residual=added layout=oi dtype=bf16");
  SetResidual(&s, Residual::kAddedRounded);
  EXPECT_THAT(s.ToString(), HasSubstr(" residual=rounded "));
  s = Changed(Gated(), "scale1=0.125 factor1=f32 factor2=element");
  EXPECT_EQ(s.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu scale1=0.125 factor1=f32 factor2=bf16 "
            "layout=oi dtype=bf16");
}

TEST(Sequence, TellsLongOnesAsLists) {
  ProductSequence s = Gated();
  MatrixProduct third = MakeProduct(512, 1024, Activation::kRelu);
  third.rows.source = Source::kProduct;
  s.products.push_back(third);
  SetBias(&s, 2);
  EXPECT_EQ(s.ToString(),
            "products m<=128 n=3072,1024,512 k=1024 act=silu,identity,relu bias3=1 layout=oi "
            "dtype=bf16");
  EXPECT_EQ(CheckSequence(s).message(), "products: 3 are not 1 to 2");
}

// Each makes another sequence of Gated().
constexpr char kChanges[] =
    "pair=false; act=relu; bias1=true; bias2=true; layout=io; element=f16; 2.weights.element=f16; "
    "2.result=f16; 1.weights.scales.kind=1; scale_w1=f32; scale_w1=bf16; scale_w2=f32; "
    "rows1=block,1,128; 2.rows.source=0; rows_per_m=4; n1=3080; 1.k+=8; 2.n+=8; products.size=1; "
    "residual=added; residual=added sum_act=relu; residual=rounded; scale1=0.5; factor1=f32; "
    "factor1=element; scale2=0.5; 1.rows.layout=io; 1.k_is_m=true; 1.epilogue.norm=1e-6; "
    "1.epilogue.norm=1e-5; factor2=f32";

TEST(Sequence, CanonicalBytesLeaveMOutAndKeepEverythingElse) {
  const ProductSequence base = Gated();
  ProductSequence other = base;
  other.m = 64;
  EXPECT_EQ(base.Canonical(), other.Canonical());
  EXPECT_FALSE(base == other);
  std::set<std::string> all = {base.Canonical()};
  for (const absl::string_view words : absl::StrSplit(kChanges, ";")) {
    const ProductSequence s = Changed(base, words);
    EXPECT_FALSE(s == base) << words;
    EXPECT_TRUE(all.insert(s.Canonical()).second) << words;
  }
}

TEST(CheckSequence, NamesProductFieldValueAndBound) {
  ExpectRefusedChanges(kRefusedSequences, "gated_ffn", Gated(), CheckSequence);
}

TEST(Sequence, TransposedRowsAreOfOneProductInAKernel) {
  ProductSequence s = Gated();
  s[0].rows.layout = Layout::kIO;
  EXPECT_FALSE(CanPair(s, 0));
  ProductSequence one = s.Part(0, 1);
  EXPECT_TRUE(CheckSequence(one).ok()) << CheckSequence(one);
  EXPECT_EQ(one.ToString(),
            "gated_product m<=128 n=3072 k=1024 act=silu rows=transposed layout=oi dtype=bf16");
  SetTransposedRows(&one, true);
  one[0].k = 1023;  // no rows of a matrix are along it
  EXPECT_TRUE(CheckSequence(one).ok()) << CheckSequence(one);
  EXPECT_EQ(one.ToString(),
            "gated_product m<=128 n=3072 k<=1023 act=silu rows=transposed layout=io dtype=bf16");
  const RoleShape a = ShapeOf(one, Role::kA), w = ShapeOf(one, Role::kW);
  for (const RoleShape& shape : {a, w}) {
    EXPECT_EQ(shape.rows, 1023);
    EXPECT_TRUE(shape.of_k && !shape.of_launch);
  }
  EXPECT_EQ(a.columns, 128);
  one.m = 0;
  const ProductSequence back = Got(ProductSequence::FromCanonical(one.Canonical()));
  EXPECT_TRUE(back == one);
  one.m = 128;
  ExpectRefusedChanges(kRefusedSequences, "transposed", one, CheckSequence);
}

TEST(Sequence, NormsOfRowsAreOfOneProductInAKernel) {
  ProductSequence s = Gated();
  SetNorm(&s, 0, 0.5f);
  EXPECT_FALSE(CanPair(s, 0));
  ProductSequence one = s.Part(0, 1);
  EXPECT_EQ(one.ToString(),
            "gated_product m<=128 n=3072 k=1024 act=silu norm1=0.5 layout=oi dtype=bf16");
  one.m = 0;
  const ProductSequence back = Got(ProductSequence::FromCanonical(one.Canonical()));
  EXPECT_TRUE(back == one);
  ExpectRefusedChanges(kRefusedSequences, "norm", s.Part(0, 1), CheckSequence);
}

TEST(Sequence, WeightsOf16BitsMayHaveAScaleOfEachColumn) {
  ProductSequence s = Changed(Gated(), "scale_w1=bf16 scale_w2=f32");
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
  EXPECT_TRUE(s.scaled());
  EXPECT_EQ(s.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu scale_w1=bf16 scale_w2=f32 layout=oi "
            "dtype=bf16");
  s.m = 0;
  const ProductSequence back = Got(ProductSequence::FromCanonical(s.Canonical()));
  EXPECT_TRUE(back == s);
  EXPECT_EQ(ShapeOf(s, Role::kScaleUp).columns, 3072);
  EXPECT_EQ(ShapeOf(s, Role::kScaleUp).element, DType::kBF16);
  EXPECT_EQ(ShapeOf(s, Role(Role::kScaleW, 1)).columns, 1024);
  EXPECT_EQ(ShapeOf(s, Role(Role::kScaleW, 1)).element, DType::kF32);
}

ProductSequence OfCodes() {
  ProductSequence s = Gated().Part(0, 1);
  SetCodes(&s, DType::kF32, ScaleKind::kVector, ScaleKind::kTensor);
  return s;
}

TEST(CheckSequence, TakesOneProductOfCodesWithWiderResults) {
  EXPECT_TRUE(CheckSequence(OfCodes()).ok()) << CheckSequence(OfCodes());
  const ProductSequence s = Changed(OfCodes(),
                                    "1.result=bf16 1.n=77 1.k=1040 rows1=none weights1=none "
                                    "form1.bias=f32 form1.factor=f32 residual=added");
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
}

// Tuning sets know kernels by their text.
TEST(ProductSequence, SaysWhichTypeABiasHas) {
  ProductSequence s = Changed(MakeSequence(8, MakeProduct(64, 64)), "bias1=true");
  EXPECT_EQ(s.ToString(), "product m<=8 n=64 k=64 act=identity bias1=1 layout=oi dtype=bf16");
  s = Changed(s, "form1.bias=f16");
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
  EXPECT_EQ(s.ToString(),
            "product m<=8 n=64 k=64 act=identity bias1=1 bias1_dtype=f16 layout=oi dtype=bf16");
}

// Sequences that differ in where scales lie differ in all that names them.
TEST(ProductSequence, SaysWhereScalesLie) {
  ProductSequence s = OfCodes();
  SetCodes(&s, DType::kF32, ScaleKind::kBlock, ScaleKind::kVector);
  std::set<std::string> bytes = {s.Canonical()}, texts = {s.ToString()};
  const Scales places[] = {{ScaleKind::kBlock, 1, 128, DType::kF32, 1, 512},
                           {ScaleKind::kBlock, 1, 128, DType::kF32, 512, 1},
                           {ScaleKind::kBlock, 1, 128, DType::kF32, 1, 1, true}};
  for (const Scales& place : places) {
    s[0].rows.scales = place;
    ASSERT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
    EXPECT_TRUE(Got(ProductSequence::FromCanonical(s.Canonical())).front() == s.front());
    EXPECT_TRUE(bytes.insert(s.Canonical()).second);
    EXPECT_TRUE(texts.insert(s.ToString()).second);
  }
  s[0].weights.scales.row_stride = 3;
  EXPECT_THAT(s.ToString(), HasSubstr("scales=block 1x128[1,M],vector[3]"));
}

TEST(CheckSequence, NamesStridesOfScalesThatNoKernelReads) {
  ExpectRefusedChanges(kRefusedSequences, "strides of scales", OfCodes(), CheckSequence);
}

TEST(CheckSequence, NamesWhatAProductOfCodesCannotHave) {
  ExpectRefusedChanges(kRefusedSequences, "codes", OfCodes(), CheckSequence);
}

TEST(CheckSequence, TakesRaggedColumnsWhereNoTensorMapReadsThem) {
  ProductSequence s = Gated();
  s[1].n = 1001;
  EXPECT_TRUE(CheckSequence(s).ok()) << "oi: the columns of E are rows of W2";
  ProductSequence one = s.Part(0, 1);
  one[0].n = 77;
  EXPECT_TRUE(CheckSequence(one).ok());
  SetLayout(&one, Layout::kIO);
  EXPECT_FALSE(CheckSequence(one).ok());
}

}  // namespace
}  // namespace sinter
