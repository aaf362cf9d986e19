#include "src/product/sequence.h"

#include "tests/support/sequences.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

void SetScales(Operand* operand, ScaleKind kind, int64_t block_rows, int64_t block_columns) {
  operand->scales = {kind, block_rows, block_columns};
}
void Quantize(ProductSequence& s, int64_t columns, float eps, float bound = 0) {
  SetQuantized(&s, {columns, eps, bound});
}

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
  ProductSequence s = Gated();
  s[1].n = 768;
  SetBias(&s, 1);
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
  ProductSequence s = Gated();
  SetResidual(&s, Residual::kAdded);
  EXPECT_FALSE(s.Part(0, 1).back().epilogue.has_residual());
  EXPECT_TRUE(s.Part(1, 1).back().epilogue.has_residual());
  EXPECT_EQ(s.ToString(),
            "gated_ffn m<=128 n=3072 k=1024 l=1024 act=silu residual=added layout=oi dtype=bf16");
  SetResidual(&s, Residual::kAddedRounded);
  EXPECT_THAT(s.ToString(), HasSubstr(" residual=rounded "));
  s = Gated();
  SetScale(&s, 0, 0.125f);
  SetFactor(&s, 0, RowFactor::kF32);
  SetFactor(&s, 1, RowFactor::kElement);
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

EpilogueForm WithMatrix(const MatrixProduct& p) {
  EpilogueForm form = p.epilogue.form();
  form.residual = true;
  return form;
}

using Change = std::function<void(ProductSequence&)>;

// Each differs from Gated() in what its name says.
const std::pair<const char*, void (*)(ProductSequence&)> kChanges[] = {
    {"pair", [](ProductSequence& s) { SetPair(&s, false); }},
    {"activation", [](ProductSequence& s) { SetActivation(&s, Activation::kRelu); }},
    {"bias", [](ProductSequence& s) { SetBias(&s, 0); }},
    {"bias of the second", [](ProductSequence& s) { SetBias(&s, 1); }},
    {"layout", [](ProductSequence& s) { SetLayout(&s, Layout::kIO); }},
    {"element", [](ProductSequence& s) { SetElement(&s, DType::kF16); }},
    {"element of weights", [](ProductSequence& s) { s[1].weights.element = DType::kF16; }},
    {"element of a result", [](ProductSequence& s) { s[1].result = DType::kF16; }},
    {"scales", [](ProductSequence& s) { s[0].weights.scales.kind = ScaleKind::kTensor; }},
    {"scales of columns", [](ProductSequence& s) { SetColumnScale(&s, 0, DType::kF32); }},
    {"narrow scales of columns", [](ProductSequence& s) { SetColumnScale(&s, 0, DType::kBF16); }},
    {"scales of the second's columns",
     [](ProductSequence& s) { SetColumnScale(&s, 1, DType::kF32); }},
    {"blocks of scales",
     [](ProductSequence& s) { SetScales(&s[0].rows, ScaleKind::kBlock, 1, 128); }},
    {"source", [](ProductSequence& s) { s[1].rows.source = Source::kBuffer; }},
    {"rows per m", [](ProductSequence& s) { s.rows_per_m = 4; }},
    {"n", [](ProductSequence& s) { SetColumns(&s, 0, 3080); }},
    {"k", [](ProductSequence& s) { s[0].k += 8; }},
    {"n of the second", [](ProductSequence& s) { s[1].n += 8; }},
    {"one product", [](ProductSequence& s) { s.products.pop_back(); }},
    {"residual", [](ProductSequence& s) { SetResidual(&s, Residual::kAdded); }},
    {"activated sum",
     [](ProductSequence& s) {
       SetResidual(&s, Residual::kAdded);
       SetSumActivation(&s, Activation::kRelu);
     }},
    {"rounded", [](ProductSequence& s) { SetResidual(&s, Residual::kAddedRounded); }},
    {"scale", [](ProductSequence& s) { SetScale(&s, 0, 0.5f); }},
    {"factor", [](ProductSequence& s) { SetFactor(&s, 0, RowFactor::kF32); }},
    {"factor as element", [](ProductSequence& s) { SetFactor(&s, 0, RowFactor::kElement); }},
    {"scale of the second", [](ProductSequence& s) { SetScale(&s, 1, 0.5f); }},
    {"transposed rows", [](ProductSequence& s) { s[0].rows.layout = Layout::kIO; }},
    {"a k that is M", [](ProductSequence& s) { s[0].k_is_m = true; }},
    {"norm", [](ProductSequence& s) { SetNorm(&s, 0, 1e-6f); }},
    {"another eps", [](ProductSequence& s) { SetNorm(&s, 0, 1e-5f); }},
    {"factor of the second", [](ProductSequence& s) { SetFactor(&s, 1, RowFactor::kF32); }},
};

TEST(Sequence, CanonicalBytesLeaveMOutAndKeepEverythingElse) {
  const ProductSequence base = Gated();
  ProductSequence other = base;
  other.m = 64;
  EXPECT_EQ(base.Canonical(), other.Canonical());
  EXPECT_FALSE(base == other);
  std::set<std::string> all = {base.Canonical()};
  for (const auto& [name, change] : kChanges) {
    ProductSequence s = base;
    change(s);
    EXPECT_FALSE(s == base) << name;
    EXPECT_TRUE(all.insert(s.Canonical()).second) << name;
  }
}

TEST(CheckSequence, NamesProductFieldValueAndBound) {
  struct Case {
    Change change;
    const char* message;
  };
  const auto second = [](std::function<void(MatrixProduct&)> change) {
    return [change](ProductSequence& s) { change(s[1]); };
  };
  const Case cases[] = {
      {[](ProductSequence& s) { s[0].k = 1020; }, "product 1: k 1020 is not a multiple of 8"},
      {[](ProductSequence& s) { SetColumns(&s, 0, 3071); }, "product 2: k 3071 is not a multiple"},
      {[](ProductSequence& s) { s[0].n = 3080; }, "product 2: k 3072 is not the n 3080"},
      {[](ProductSequence& s) { SetLayout(&s, Layout::kIO), s[1].n = 1001; },
       "product 2: n 1001 is not a multiple of 8"},
      {[](ProductSequence& s) { s[1].n = 0; }, "product 2: n 0 is not in 1.."},
      {[](ProductSequence& s) { SetColumns(&s, 0, kLargestExtent + 8); },
       "product 1: n 16777224 is not in 1.."},
      {[](ProductSequence& s) { s[0].k = -8; }, "product 1: k -8 is not in 1.."},
      {[](ProductSequence& s) { SetElement(&s, DType::kF32); },
       "product 1: element 1 (f32) of rows is not bf16, f16, e4m3 or s8"},
      {[](ProductSequence& s) { SetElement(&s, DType::kS32); },
       "of rows is not bf16, f16, e4m3 or s8"},
      {[](ProductSequence& s) { SetElement(&s, DType::kS8); },
       "element of the result is s8, of s8 operands it must be f32, f16, bf16 or e4m3"},
      {[](ProductSequence& s) { SetElement(&s, DType::kE4M3); },
       "products: 2 are not 1, of e4m3 operands"},
      {[](ProductSequence& s) { s[1].weights.element = DType::kE4M3; },
       "product 2: element of weights is e4m3, of the rows bf16"},
      {[](ProductSequence& s) { s[0].result = DType::kF16; },
       "product 1: element of the result is f16, of the rows bf16"},
      {[](ProductSequence& s) { s[0].rows.scales.kind = ScaleKind::kTensor; },
       "product 1: scales of rows are tensor, must be none"},
      {[](ProductSequence& s) { s[0].rows.scales.kind = ScaleKind::kVector; },
       "product 1: scales of rows are vector, must be none"},
      {[](ProductSequence& s) { s[1].weights.scales.kind = ScaleKind::kTensor; },
       "product 2: scales of weights are tensor, must be none, vector or vector of bf16"},
      {[](ProductSequence& s) { SetColumnScale(&s, 1, DType::kF16); },
       "product 2: scales of weights are vector of f16, must be none, vector or vector of bf16"},
      {[](ProductSequence& s) { s[0].weights.scales.element = DType::kBF16; },
       "product 1: scales of weights are none, must be none"},
      {[](ProductSequence& s) { SetScales(&s[0].weights, ScaleKind::kBlock, 128, 128); },
       "product 1: scales of weights are block 128x128, must be none"},
      {[](ProductSequence& s) { s[1].rows.source = Source::kBuffer; },
       "product 2: source 0 of rows is not 1"},
      {[](ProductSequence& s) { s[0].weights.source = Source::kProduct; },
       "product 1: source 1 of weights is not 0"},
      {[](ProductSequence& s) { s.m = 0; }, "products: m 0 is not in 1..8192"},
      {[](ProductSequence& s) { s.m = 8193; }, "products: m 8193 is not in 1..8192"},
      {[](ProductSequence& s) { s.rows_per_m = 0; },
       "products: rows_per_m 0 is not in 1..131072 at m 128"},
      {[](ProductSequence& s) { s.rows_per_m = 131073; },
       "products: rows_per_m 131073 is not in 1..131072 at m 128"},
      {[](ProductSequence& s) { s.products.clear(); }, "products: 0 are not 1 to 2"},
      {[](ProductSequence& s) { SetLayout(&s, static_cast<Layout>(7)); },
       "product 1: layout 7 of weights is not oi or io"},
      {[](ProductSequence& s) { s[1].weights.layout = Layout::kIO; },
       "product 2: layout of weights is io, must be oi"},
      {[](ProductSequence& s) { s[0].rows.layout = Layout::kIO; },
       "product 1: products: 2 are not 1, of transposed rows"},
      {[](ProductSequence& s) { s[1].rows.layout = Layout::kIO; },
       "product 2: layout of rows is io, must be oi"},
      {[](ProductSequence& s) { s[0].pair = false; },
       "product 1: program reads up, the product is not a pair"},
      {[](ProductSequence& s) { s[0].epilogue.program = {}; },
       "product 1: program is missing, the product is a pair"},
      {[](ProductSequence& s) {
         s[0].epilogue.program = ProgramOf({Activation::kSilu}, DType::kBF16);
       },
       "product 1: program reads no up, the product is a pair"},
      {second([](MatrixProduct& p) { p.epilogue.quantize = QuantizeRule{}; }),
       "product 2: quantize is there, the result is bf16, must be e4m3"},
      {[](ProductSequence& s) { SetNorm(&s, 1, -1); },
       "product 2: products: 2 are not 1, of a norm of the rows"},
      {second([](MatrixProduct& p) { ChangeForm(&p, [](FormSpec& f) { f.bias = DType::kS32; }); }),
       "product 2: program reads a vector or a number of s32, must be f32, f16 or bf16"},
      {second(
           [](MatrixProduct& p) { ChangeForm(&p, [](FormSpec& f) { f.factor = DType::kS32; }); }),
       "product 2: factor is s32, must be f32 or bf16"},
      {second([](MatrixProduct& p) {
         p.epilogue.program = ProgramOf({Activation::kRelu}, DType::kF16);
       }),
       "product 2: program gives f16, the result is bf16"},
      {second([](MatrixProduct& p) { p.pair = true, SetForm(&p, {}); }),
       "products: the first has a residual, or the second is a pair"},
      {[](ProductSequence& s) { s[0].epilogue.program = ProgramOf(WithMatrix(s[0]), s[0].result); },
       "products: the first has a residual"},
  };
  ASSERT_TRUE(CheckSequence(Gated()).ok()) << CheckSequence(Gated());
  for (const Case& c : cases) {
    ProductSequence s = Gated();
    c.change(s);
    const absl::Status status = CheckSequence(s);
    EXPECT_FALSE(status.ok()) << c.message;
    EXPECT_TRUE(Says(status, c.message));
  }
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
  const auto refused = [&](const Change& change, absl::string_view why) {
    ProductSequence changed = one;
    change(changed);
    EXPECT_EQ(CheckSequence(changed).message(), why);
  };
  refused([](ProductSequence& p) { SetLayout(&p, Layout::kOI); },
          "k is M, of operands that are contiguous along k: transpose both");
  refused([](ProductSequence& p) { p[0].rows.layout = Layout::kOI; },
          "k is M, of operands that are contiguous along k: transpose both");
  refused([](ProductSequence& p) { SetLayout(&p, Layout::kOI), p[0].k_is_m = false; },
          "k 1023 is not a multiple of 8 (16-byte rows of tensor maps): pad it to 1024");
  refused([](ProductSequence& p) { SetNorm(&p, 0, 1e-6f); }, "norm is there, of transposed rows");
  refused(
      [](ProductSequence& p) {
        SetCodes(&p, DType::kBF16, ScaleKind::kTensor, ScaleKind::kTensor);
        SetLayout(&p, Layout::kOI);
        p[0].k_is_m = false;
      },
      "rows are transposed, must be a matrix in memory of bf16 or f16");
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
  const auto refused = [&](const Change& change, absl::string_view why) {
    ProductSequence changed = s.Part(0, 1);
    change(changed);
    EXPECT_EQ(CheckSequence(changed).message(), why);
  };
  refused([](ProductSequence& p) { SetNorm(&p, 0, -1); },
          "norm has eps -1, must be finite and not below 0");
  refused([](ProductSequence& p) { SetNorm(&p, 0, INFINITY); },
          "norm has eps inf, must be finite and not below 0");
  refused([](ProductSequence& p) { SetFactor(&p, 0, RowFactor::kF32); },
          "norm and factor are both there");
  refused([](ProductSequence& p) { SetColumnScale(&p, 0, DType::kF32); },
          "norm and scales of the weights are both there");
  refused([](ProductSequence& p) { SetElement(&p, DType::kE4M3), p[0].result = DType::kBF16; },
          "norm is there, the rows are e4m3, must be a matrix of bf16 or f16");
}

TEST(Sequence, WeightsOf16BitsMayHaveAScaleOfEachColumn) {
  ProductSequence s = Gated();
  SetColumnScale(&s, 0, DType::kBF16);
  SetColumnScale(&s, 1, DType::kF32);
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
  ProductSequence s = OfCodes();
  s[0].result = DType::kBF16;
  KeepForm(&s[0]);
  s[0].n = 77;
  s[0].k = 1040;
  s[0].rows.scales.kind = s[0].weights.scales.kind = ScaleKind::kNone;
  ChangeForm(&s[0], [](FormSpec& f) { f.bias = f.factor = DType::kF32; });
  SetResidual(&s, Residual::kAdded);
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
}

// Tuning sets know kernels by their text.
TEST(ProductSequence, SaysWhichTypeABiasHas) {
  ProductSequence s = MakeSequence(8, MakeProduct(64, 64));
  SetBias(&s, 0);
  EXPECT_EQ(s.ToString(), "product m<=8 n=64 k=64 act=identity bias1=1 layout=oi dtype=bf16");
  ChangeForm(&s[0], [](FormSpec& f) { f.bias = DType::kF16; });
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
  const auto refused = [](const Scales& of_rows, const Scales& of_weights) {
    ProductSequence s = OfCodes();
    s[0].rows.scales = of_rows;
    s[0].weights.scales = of_weights;
    return std::string(CheckSequence(s).message());
  };
  const Scales tensor{ScaleKind::kTensor}, blocks{ScaleKind::kBlock, 1, 128};
  EXPECT_THAT(refused({ScaleKind::kTensor, 0, 0, DType::kF32, 1, 0}, tensor),
              HasSubstr("strides of scales of rows are"));
  EXPECT_THAT(refused({ScaleKind::kBlock, 1, 128, DType::kF32, 1, 0}, tensor),
              HasSubstr("are 1 and 0, must be in 1.."));
  EXPECT_THAT(refused({ScaleKind::kBlock, 1, 128, DType::kF32, 0, 4}, tensor),
              HasSubstr("are 0 and 4, must be in"));
  EXPECT_THAT(refused({ScaleKind::kBlock, 1, 128, DType::kF32, 1, kLargestScaleStride + 1}, tensor),
              HasSubstr("are 1 and 16777217, must be in 1..16777216"));
  EXPECT_THAT(refused({ScaleKind::kVector, 0, 0, DType::kF32, 4, 1}, tensor),
              HasSubstr("and 0, without M"));
  EXPECT_THAT(refused(blocks, {ScaleKind::kBlock, 128, 128, DType::kF32, 1, 1, true}),
              HasSubstr("1 times M, must be"));
}

TEST(CheckSequence, NamesWhatAProductOfCodesCannotHave) {
  struct Case {
    void (*change)(ProductSequence&);
    const char* message;
  };
  const Case cases[] = {
      {[](ProductSequence& s) { s[0].k = 1032; }, "k 1032 is not a multiple of 16"},
      {[](ProductSequence& s) { SetScales(&s[0].weights, ScaleKind::kBlock, 1, 128); },
       "scales of weights are block 1x128, must be none, tensor, vector or block 128x128"},
      {[](ProductSequence& s) {
         SetScales(&s[0].rows, ScaleKind::kBlock, 1, 128);
         s[0].k = 1040;
       },
       "k 1040 is not a multiple of 128, with scales of blocks"},
      {[](ProductSequence& s) { SetLayout(&s, Layout::kIO); },
       "layout of weights is io, must be oi for e4m3: wgmma reads them along k; transpose"},
      {[](ProductSequence& s) { s[0].result = DType::kS32; }, "element of the result is s32"},
      {[](ProductSequence& s) { s[0].weights.element = DType::kBF16; },
       "element of weights is bf16, of the rows e4m3"},
      {[](ProductSequence& s) { SetScales(&s[0].rows, ScaleKind::kVector, 1, 0); },
       "scales of rows are vector, must be none, tensor, vector or block 1x128"},
      {[](ProductSequence& s) { SetColumnScale(&s, 0, DType::kE4M3); },
       "scales of weights are vector of e4m3, must be none, tensor, vector or block 128x128"},
      {[](ProductSequence& s) { SetFactor(&s, 0, RowFactor::kF32); },
       "factor and scales of the rows are both there"},
      {[](ProductSequence& s) { ChangeForm(&s[0], [](FormSpec& f) { f.bias = DType::kS32; }); },
       "program reads a vector or a number of s32, must be f32, f16 or bf16"},
      {[](ProductSequence& s) {
         s.products.push_back(s[0]);
         s[1].rows.source = Source::kProduct;
       },
       "product 1: products: 2 are not 1, of e4m3 operands"},
      {[](ProductSequence& s) { s[0].rows.source = Source::kWindow; },
       "source of rows is a window, of e4m3 operands"},
      {[](ProductSequence& s) { s[0].result = DType::kE4M3; },
       "quantize is missing, the result is e4m3"},
      {[](ProductSequence& s) { Quantize(s, 128, 1), s[0].n = 3008; },
       "n 3008 is not a multiple of 128, of results in codes"},
      {[](ProductSequence& s) { SetQuantized(&s, {}), s[0].n = 3000; },
       "n 3000 is not a multiple of 16, of results in codes"},
      {[](ProductSequence& s) { Quantize(s, 64, 1); },
       "quantize columns 64 are not 128, or 0 alone"},
      {[](ProductSequence& s) {
         s[0].accumulate = Accumulate::kFast;
         SetScales(&s[0].rows, ScaleKind::kBlock, 1, 128);
       },
       "accumulate is fast, must be promoted with scales of blocks"},
      {[](ProductSequence& s) {
         SetElement(&s, DType::kF16);
         s[0].rows.scales = s[0].weights.scales = {};
         s[0].accumulate = Accumulate::kFast;
       },
       "accumulate is fast, must be promoted for f16"},
      {[](ProductSequence& s) {
         SetCodes(&s, DType::kF32, ScaleKind::kBlock, ScaleKind::kVector, DType::kS8);
       },
       "scales of rows are block 1x128, must be none, tensor or vector"},
      {[](ProductSequence& s) {
         SetCodes(&s, DType::kF32, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
         s[0].k = 131072;
       },
       "k is 131072, must be at most 131071 for s8: sums are exact in s32"},
      {[](ProductSequence& s) {
         SetCodes(&s, DType::kF32, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
         s[0].accumulate = Accumulate::kFast;
       },
       "accumulate is fast, must be promoted for s8"},
      {[](ProductSequence& s) { s[0].accumulate = static_cast<Accumulate>(2); },
       "accumulate 2 is not 0 or 1"},
      {[](ProductSequence& s) { Quantize(s, 0, 1); }, "quantize columns 0 are not 128, or 0 alone"},
      {[](ProductSequence& s) { Quantize(s, 128, NAN); }, "quantize eps nan is not in (0, 1]"},
      {[](ProductSequence& s) { Quantize(s, 128, 1e-3f, 1e-4f); },
       "quantize bound 0.0001 is not 0, nor finite and at least eps 0.001"},
      {[](ProductSequence& s) {
         Quantize(s, 128, 1);
         SetResidual(&s, Residual::kAdded);
       },
       "program reads a matrix, the result is e4m3: only one of f32, f16 or bf16 has one"},
  };
  for (const Case& c : cases) {
    ProductSequence s = OfCodes();
    c.change(s);
    const absl::Status status = CheckSequence(s);
    EXPECT_FALSE(status.ok()) << c.message;
    EXPECT_TRUE(Says(status, c.message));
  }
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
