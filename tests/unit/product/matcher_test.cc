// Matcher: sequences of GEMMs are recognised from primitives only; every other graph is refused
// with its reason.
#include "src/product/matcher.h"

#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

constexpr char kRefused[] = "tests/unit/product/refused_chains.txt";

ProductsSpec RandomSpec(std::mt19937* random) {
  ProductsSpec spec;
  spec.k = 8 * (1 + (*random)() % 4);
  spec.layout = (*random)() % 2 ? Layout::kIO : Layout::kOI;
  spec.dtype = (*random)() % 2 ? DType::kF16 : DType::kBF16;
  for (uint32_t i = 0, count = 1 + (*random)() % 6; i < count; ++i) {
    ProductSpec product;
    product.gated = (*random)() % 3 == 0;
    product.act = kActivations[(*random)() % 5];
    product.bias = (*random)() % 2;
    product.n = 8 * (1 + (*random)() % 4);
    spec.products.push_back(product);
  }
  return spec;
}

TEST(MatchProducts, ReadsBackEverySpec) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const ProductsSpec spec = RandomSpec(&random);
    const Chain chain = *MakeProductsChain(spec);
    const MatchedSequence matched = Got(MatchProducts(chain), chain.ToString());
    EXPECT_TRUE(matched.m.symbolic);
    EXPECT_EQ(matched.sequence.layout(), spec.layout);
    EXPECT_EQ(matched.sequence.element(), spec.dtype);
    EXPECT_TRUE(matched.contiguous);
    EXPECT_TRUE(matched.weights_constant);
    EXPECT_EQ(chain.InputName(chain.InputOrder()[matched.rows]), "a");
    ASSERT_EQ(matched.inputs.size(), spec.products.size());
    int64_t k = spec.k;
    for (size_t i = 0; i < spec.products.size(); ++i) {
      const MatrixProduct& step = matched.sequence[static_cast<int>(i)];
      const ProductInputs& in = matched.inputs[i];
      const ProductSpec& want = spec.products[i];
      EXPECT_EQ(step.pair, want.gated);
      EXPECT_EQ(step.epilogue.activation(), want.act);
      EXPECT_EQ(step.epilogue.bias().has_value(), want.bias);
      EXPECT_EQ(step.n, want.n);
      EXPECT_EQ(step.k, k);
      EXPECT_EQ(in.rounds, i + 1 == spec.products.size());
      const std::string name = chain.InputName(chain.InputOrder()[in.weights]);
      EXPECT_EQ(name, (want.gated ? "w_gate" : "w") + std::to_string(i + 1));
      k = want.n;
    }
  }
}

// Both filters have one pixel: the pixels of an image are rows within each index of M.
TEST(MatchProducts, TakesConvolutionsOfOnePixelAsProducts) {
  for (const char* weights : {"OHWI", "HWIO"}) {
    const auto problem = ParseProblem(
        std::string("conv_chain b=M ic=64 h=7 w=5 oc1=128 oc2=32 k1=1 k2=1 act=relu bias1=1 "
                    "weights=") +
        weights);
    const auto matched = Got(MatchProducts(problem->chain, 3));
    const ProductSequence& s = matched.sequence;
    EXPECT_EQ(s.ToString().substr(0, 56),
              "gemm_chain m<=3 rows_per_m=35 n=128 k=64 l=32 act=relu b");
    EXPECT_EQ(s.rows(), 105);
    EXPECT_EQ(s.layout(), weights[0] == 'O' ? Layout::kOI : Layout::kIO);
    EXPECT_TRUE(matched.contiguous && matched.weights_constant && matched.m.symbolic);
    EXPECT_EQ(matched.rows_stride, 64);
    EXPECT_EQ(matched.output_stride, 32);
    EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
    EXPECT_EQ(s.Flop(3), problem->chain.MatmulFlops(3));
  }
}

// Pixels that each have a gap after them are still rows; lines of pixels with a gap after each are
// not.
TEST(MatchProducts, PixelsHaveOneStride) {
  const auto match = [](const char* strides) {
    return MatchProducts(ReadChain(
        "x: bf16[M,7,5,16] strides($0); w: bf16[8,1,1,16]; out bf16(conv(x, w))", strides));
  };
  const auto apart = Got(match("840,120,24,1"));
  EXPECT_EQ(apart.rows_stride, 24);
  EXPECT_FALSE(apart.contiguous);
  for (const char* strides : {"1000,120,24,1", "700,100,16,1", "280,40,8,1", "560,80,16,0"}) {
    EXPECT_EQ(match(strides).status().message(),
              absl::StrCat("strides of a are [", strides,
                           "], must be those of rows one after the other, each at least 16 apart"));
  }
}

TEST(MatchProducts, TakesARowResidualOfPixels) {
  const auto problem =
      ParseProblem("conv b=M ic=64 h=7 w=5 oc=32 k=1 act=relu bias=1 residual=behind");
  const auto matched = Got(MatchProducts(problem->chain, 2));
  EXPECT_TRUE(matched.sequence.back().epilogue.has_residual());
  EXPECT_EQ(matched.inputs[0].residual_stride, 32);
}

TEST(MatchProducts, TakesProductsOfCodesWithTheirScales) {
  struct Case {
    const char* keys;
    Scales rows, weights;
  };
  const Case cases[] = {
      {"scales=tensor dtype=f32", {ScaleKind::kTensor, 0, 0}, {ScaleKind::kTensor, 0, 0}},
      {"scales=row dtype=f16", {ScaleKind::kVector, 0, 0}, {ScaleKind::kVector, 0, 0}},
      {"scales=group", {ScaleKind::kBlock, 1, 128}, {ScaleKind::kBlock, 128, 128}},
  };
  for (const Case& c : cases) {
    const auto problem =
        ParseProblem(std::string("scaled_matmul m=M n=200 k=384 act=silu bias1=1 ") + c.keys);
    const auto matched = Got(MatchProducts(problem->chain, 40));
    const MatrixProduct& p = matched.sequence.front();
    EXPECT_EQ(p.rows.element, DType::kE4M3);
    EXPECT_EQ(p.weights.element, DType::kE4M3);
    EXPECT_EQ(p.result, problem->chain.output_type(0).dtype);
    EXPECT_EQ(*p.epilogue.bias(), p.result);
    EXPECT_TRUE(p.rows.scales == c.rows) << ToString(p.rows.scales);
    EXPECT_TRUE(p.weights.scales == c.weights) << ToString(p.weights.scales);
    const ProductInputs& in = matched.InputsOf(0);
    const auto name = [&](int input) {
      return problem->chain.InputName(problem->chain.InputOrder()[input]);
    };
    EXPECT_EQ(name(in.scale_rows), "scale_a");
    EXPECT_EQ(name(in.scale_weights), "scale_w");
    EXPECT_TRUE(CheckSequence(matched.sequence).ok()) << CheckSequence(matched.sequence);
  }
}

// [1, k / 128] is a block of 128 x 128 that ends early.
TEST(MatchProducts, TakesGroupsOfNoMoreColumnsThanABlockHas) {
  for (const int n : {1, 8, 64, 120, 128, 129}) {
    const auto problem =
        ParseProblem("scaled_matmul m=M n=" + std::to_string(n) + " k=384 scales=group");
    const auto matched = Got(MatchProducts(problem->chain, 40), n);
    const MatrixProduct& p = matched.sequence.front();
    EXPECT_TRUE(p.weights.scales == (Scales{ScaleKind::kBlock, 128, 128})) << n;
    EXPECT_TRUE(p.rows.scales == (Scales{ScaleKind::kBlock, 1, 128})) << n;
    EXPECT_TRUE(CheckSequence(matched.sequence).ok()) << CheckSequence(matched.sequence);
  }
}

// A pair has fast sums where both halves may.
TEST(MatchProducts, TakesFastSumsWhereTheChainAllowsThem) {
  for (const Accumulate gate : {Accumulate::kPromoted, Accumulate::kFast}) {
    for (const Accumulate up : {Accumulate::kPromoted, Accumulate::kFast}) {
      const Chain chain = ReadChain(
          "a: e4m3[M,256]; s: f32[M,1]; w, v: e4m3[64,256]; p, q: f32[64,1];"
          "out scaled_linear(a, s, w, p, act=silu, accumulate=$0) * "
          "scaled_linear(a, s, v, q, accumulate=$1)",
          NameOf(gate), NameOf(up));
      const auto matched = Got(MatchProducts(chain, 40));
      ASSERT_TRUE(matched.sequence.front().pair);
      EXPECT_EQ(matched.sequence.front().accumulate, std::min(gate, up));
    }
  }
}

TEST(MatchProducts, TakesWindowsOfAFirstConvolution) {
  for (const bool ohwi : {true, false}) {
    const auto problem = ParseProblem(
        std::string("conv_chain b=M ic=64 h=9 w=7 oc1=128 oc2=40 k1=3,2 k2=1 act=relu stride=2,1 "
                    "pad=1,0,2,1 dilation=1,2 weights=") +
        (ohwi ? "OHWI" : "HWIO"));
    const auto matched = Got(MatchProducts(problem->chain, 3));
    const ProductSequence& s = matched.sequence;
    ASSERT_EQ(s.size(), 2);
    EXPECT_EQ(s[0].rows.source, Source::kWindow);
    EXPECT_EQ(s[1].rows.source, Source::kProduct);
    const PixelWindow& window = s[0].rows.window;
    EXPECT_EQ(window.Pixels(0), 4);
    EXPECT_EQ(window.Pixels(1), 8);
    EXPECT_EQ(s.rows_per_m, 32);
    EXPECT_EQ(s[0].k, 6 * 64);
    EXPECT_EQ(s[0].n, 128);
    EXPECT_EQ(s[1].n, 40);
    EXPECT_EQ(matched.rows_stride, 64);
    EXPECT_EQ(matched.inputs[0].weights_stride, ohwi ? 6 * 64 : 128);
    EXPECT_EQ(window.LowerCorner(0), -1);
    EXPECT_EQ(window.UpperCorner(0), -2);
    EXPECT_EQ(window.LowerCorner(1), -2);
    EXPECT_EQ(window.UpperCorner(1), -1);
    EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
    EXPECT_EQ(s.Flop(3), problem->chain.MatmulFlops(3));
    ProductSequence code = s;
    code.m = 0;
    EXPECT_EQ(Got(ProductSequence::FromCanonical(code.Canonical())), code);
    EXPECT_EQ(s.Part(0, 1)[0].rows.source, Source::kWindow);
    EXPECT_EQ(s.Part(1, 1)[0].rows.source, Source::kBuffer);
  }
}

TEST(MatchProducts, TakesConvolutionsInGroups) {
  const auto problem = ParseProblem("conv b=M ic=72 h=9 w=7 oc=144 k=3 groups=3 act=relu bias=1");
  const auto matched = Got(MatchProducts(problem->chain, 4));
  const ProductSequence& s = matched.sequence;
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
  EXPECT_EQ(s[0].k, 9 * 24);
  EXPECT_EQ(s[0].n, 144);
  EXPECT_EQ(s[0].GroupColumns(), 48);
  EXPECT_EQ(s[0].rows.window.Bundle(), 2);  // 48 channels of 64
  EXPECT_EQ(s[0].BundleColumns(), 96);
  EXPECT_EQ(s[0].StagedK(), 9 * 64);
  EXPECT_EQ(matched.rows_stride, 72);
  EXPECT_EQ(matched.inputs[0].weights_stride, 9 * 24);
  EXPECT_EQ(s.Flop(4), problem->chain.MatmulFlops(4));
  ProductSequence code = s;
  code.m = 0;
  EXPECT_EQ(Got(ProductSequence::FromCanonical(code.Canonical())), code);
  EXPECT_THAT(code.ToString(), HasSubstr(" groups=3"));
  // The tap's channels are split into bundles: 16 of 8 channels, 1 of 112.
  const auto window = [](const char* line) {
    return MatchProducts(ParseProblem(line)->chain, 1)->sequence[0].rows.window;
  };
  EXPECT_EQ(window("conv b=M ic=128 h=5 w=5 oc=128 k=3 groups=16").Bundle(), 8);
  EXPECT_EQ(window("conv b=M ic=16 h=5 w=5 oc=16 k=3 groups=2").Bundle(), 2);
  EXPECT_EQ(window("conv b=M ic=224 h=5 w=5 oc=224 k=3 groups=2").Bundle(), 1);
  EXPECT_EQ(window("conv b=M ic=224 h=5 w=5 oc=224 k=3 groups=2").StagedTap(), 128);
}

TEST(MatchProducts, RefusesWindowsOfAResult) {
  const auto problem =
      ParseProblem("conv_chain b=M ic=64 h=9 w=7 oc1=128 oc2=40 k1=1 k2=3 act=relu");
  EXPECT_EQ(MatchProducts(problem->chain).status().message(),
            "product 2 takes windows of what the one before writes");
}

TEST(MatchProducts, WindowsThatNoLoadTakesAreRefusedByName) {
  for (const auto& [line, message] : RefusalsOf(kRefused, "windows")) {
    const auto matched = Got(MatchProducts(ParseProblem(line)->chain, 1));
    EXPECT_EQ(CheckSequence(matched.sequence).message(), message) << line;
  }
}

// The bytes of a chain that casts every intermediate differ; its products are the same.
TEST(MatchProducts, SeesRoundedIntermediates) {
  const MatchedSequence matched = Got(MatchProducts(
      ReadChain("x: bf16[M,16]; w1, w2, w3: const bf16[16,16]; c = bf16(linear(x, w1, none, relu));"
                "d = linear(c, w2, none, relu); out bf16(linear(d, w3, none, relu))")));
  ASSERT_EQ(matched.size(), 3);
  EXPECT_TRUE(matched.inputs[0].rounds);
  EXPECT_FALSE(matched.inputs[1].rounds);
  EXPECT_TRUE(matched.inputs[2].rounds);
}

// Two products over 16 columns; the output is `sum`, of the second one's result e and of r.
Chain WithSum(absl::string_view sum, absl::string_view type_of_r = "bf16[M,16]") {
  return ReadChain(
      "a: bf16[M,16]; w1, w2: bf16[16,16]; r: $1; e = linear(linear(a, w1, none, relu), w2, none);"
      "out $0",
      sum, type_of_r);
}

TEST(MatchProducts, SeesAResidualInEverySpelling) {
  const std::pair<const char*, bool> cases[] = {{"bf16(e + f32(r))", false},
                                                {"bf16(r + e)", false},
                                                {"bf16(f32(bf16(e)) + r)", true},
                                                {"r + bf16(e)", true}};
  for (const auto& [sum, rounds] : cases) {
    const Chain chain = WithSum(sum);
    const MatchedSequence matched = Got(MatchProducts(chain), sum);
    ASSERT_EQ(matched.size(), 2) << sum;
    EXPECT_FALSE(matched.sequence[0].epilogue.has_residual());
    EXPECT_EQ(chain.InputName(chain.InputOrder()[matched.NumberOf(1, Role::kResidual)]), "r")
        << sum;
    EXPECT_EQ(matched.sequence[1].epilogue.form().rounds, rounds) << sum;
    EXPECT_TRUE(matched.contiguous);
  }
}

TEST(MatchProducts, AResidualHasRowsOfItsOwn) {
  const MatchedSequence matched =
      *MatchProducts(WithSum("bf16(e + r)", "bf16[M,16] strides(19, 1)"));
  EXPECT_EQ(matched.inputs[1].residual_stride, 19);
  EXPECT_FALSE(matched.contiguous);
  const auto of_f32 = Got(MatchProducts(WithSum("bf16(e + r)", "f32[M,16]")));
  EXPECT_TRUE(of_f32.sequence[1].epilogue.program.whole());
  EXPECT_EQ(MatchProducts(WithSum("bf16(e + r)", "bf16[M,16] strides(0, 1)")).status().message(),
            "strides of residual2 are [0,1], must be [at least 16,1]");
}

// Whether the last product's program is one that the device library has no form of.
bool EndsInProgram(const absl::StatusOr<MatchedSequence>& matched) {
  return matched.ok() && matched->sequence.back().epilogue.program.written();
}

TEST(MatchProducts, AResidualThatIsAddedTwiceIsAPrograms) {
  EXPECT_TRUE(EndsInProgram(MatchProducts(WithSum("bf16(e + r + r)"))));
}

TEST(MatchProducts, SeesTheActivationOfASum) {
  for (const Activation act : kActivations) {
    for (const bool rounds : {false, true}) {
      const Chain chain = WithSum(absl::Substitute("bf16(activation($0 + r, $1))",
                                                   rounds ? "f32(bf16(e))" : "e", NameOf(act)));
      const MatchedSequence matched = Got(MatchProducts(chain), NameOf(act));
      const ProductEpilogue& last = matched.sequence[1].epilogue;
      EXPECT_EQ(last.sum_activation(), act);
      EXPECT_EQ(last.activation(), Activation::kIdentity);
      EXPECT_EQ(last.form().rounds, rounds);
      EXPECT_EQ(chain.InputName(chain.InputOrder()[matched.NumberOf(1, Role::kResidual)]), "r");
      EXPECT_TRUE(CanPair(matched.sequence, 0)) << NameOf(act);
    }
  }
  // If a sum is rounded before its activation, the activation is a program's op.
  EXPECT_TRUE(EndsInProgram(MatchProducts(WithSum("relu(bf16(e + r))"))));
}

TEST(MatchProducts, AResidualMayStandBetweenProductsAndBeTheRows) {
  const Chain chain = ReadChain(
      "a: bf16[M,16]; w1, w2: const bf16[16,16]; x = bf16(linear(a, w1, none) + a);"
      "out bf16(linear(x, w2, none) + a)");
  const MatchedSequence matched = *MatchProducts(chain);
  ASSERT_EQ(matched.size(), 2);
  EXPECT_EQ(matched.NumberOf(0, Role::kResidual), matched.rows);
  EXPECT_EQ(matched.NumberOf(1, Role::kResidual), matched.rows);
  EXPECT_TRUE(matched.inputs[0].rounds);
  EXPECT_FALSE(CanPair(matched.sequence, 0)) << "the first product has a residual";
}

// One product p of 16 columns, `scaled` by r; then a bias and relu.
absl::StatusOr<MatchedSequence> WithScale(absl::string_view scaled,
                                          absl::string_view type_of_r = "f32[M,1]") {
  return MatchProducts(
      ReadChain("a: bf16[M,16]; w: const bf16[16,16]; r: $1; b: const bf16[16]; p = a @ w.T;"
                "out bf16(relu($0 + spread(b, p)))",
                scaled, type_of_r));
}

TEST(MatchProducts, SeesScalarsAndAFactorOfRowsInEverySpelling) {
  const struct {
    double scale;
    DType dtype;
    const char *type, *scaled;
  } cases[] = {{1, DType::kF32, "f32[M,1]", "p * spread(r, p)"},
               {1, DType::kBF16, "bf16[M,1]", "f32(spread(r, p)) * p"},
               {1, DType::kBF16, "bf16[M]", "p * spread(reshape(f32(r), [M,1]), p)"},
               {0.125, DType::kF32, "f32[M,1]", "0.125 * p * spread(r, p)"},
               {1.5, DType::kF32, "f32[M,1]", "p * spread(r, p) * 3 / 2"}};
  for (const auto& c : cases) {
    const MatchedSequence matched = Got(WithScale(c.scaled, c.type), c.scaled);
    const MatrixProduct& step = matched.sequence[0];
    EXPECT_EQ(step.epilogue.scale(), c.scale) << c.scaled;
    ASSERT_TRUE(step.epilogue.factor().has_value()) << c.scaled;
    EXPECT_EQ(*step.epilogue.factor(), c.dtype) << c.scaled;
    EXPECT_TRUE(step.epilogue.bias().has_value()) << c.scaled;
    EXPECT_EQ(step.epilogue.activation(), Activation::kRelu) << c.scaled;
    EXPECT_TRUE(matched.weights_constant) << c.scaled;
  }
}

TEST(MatchProducts, FactorsOfWhatIsRoundedOrHasOneAreAPrograms) {
  // A product with nothing is an element-wise op as any.
  for (const char* scaled : {"bf16(p) * spread(r, p)", "p * spread(r, p) * spread(r, p)",
                             "p / spread(r, p)", "p * spread(r, p) * 0"}) {
    EXPECT_TRUE(EndsInProgram(WithScale(scaled))) << scaled;
  }
  auto of_f16 = Got(WithScale("p * spread(r, p)", "f16[M,1]"));
  of_f16.SetBucket(8);
  EXPECT_EQ(CheckSequence(of_f16.sequence).message(), "factor is f16, must be f32 or bf16");
}

// A folded batch norm: a scale of each column, then the bias and the activation.
TEST(MatchProducts, SeesAScaleOfColumnsInEverySpelling) {
  const std::pair<DType, const char*> cases[] = {{DType::kF32, "p * spread(r, p)"},
                                                 {DType::kBF16, "spread(r, p) * p"},
                                                 {DType::kBF16, "p * 0.5 * spread(f32(r), p)"}};
  for (const auto& [dtype, scaled] : cases) {
    const auto matched = Got(WithScale(scaled, absl::StrCat(NameOf(dtype), "[16]")), scaled);
    const MatrixProduct& p = matched.sequence[0];
    EXPECT_TRUE(p.weights.scales == (Scales{ScaleKind::kVector, 0, 0, dtype})) << scaled;
    EXPECT_EQ(matched.OperandAt(matched.inputs[0].scale_weights).type.dtype, dtype) << scaled;
    EXPECT_FALSE(p.epilogue.factor().has_value()) << scaled;
    EXPECT_TRUE(p.epilogue.bias().has_value()) << scaled;
    EXPECT_FALSE(matched.weights_constant) << scaled;
  }
}

TEST(MatchProducts, ScalesOfColumnsThatAreNoneOfTheWeightsAreAPrograms) {
  const struct {
    const char *type, *scaled;
    bool taken;
  } cases[] = {{"f32[16]", "bf16(p) * spread(r, p)", true},
               {"f32[16]", "p * spread(r, p) * spread(r, p)", true},
               {"f32[1]", "p * spread(r, p)", false},  // one number for all
               {"f32[16]", "p / spread(r, p)", true},
               {"f16[16]", "p * spread(r, p)", false}};
  for (const auto& c : cases) {
    const absl::StatusOr<MatchedSequence> matched = WithScale(c.scaled, c.type);
    EXPECT_EQ(matched.ok(), c.taken) << c.scaled;
    EXPECT_EQ(EndsInProgram(matched), c.taken) << c.scaled;
  }
}

TEST(MatchProducts, ABiasIsANumberOfEachColumn) {
  EXPECT_FALSE(MatchProducts(ReadChain("a: bf16[M,16]; w: const bf16[16,16]; one: bf16[1];"
                                       "out bf16(a @ w + spread(one, [M,16]))"))
                   .ok());
}

TEST(MatchProducts, BothHalvesOfAPairHaveScalesOfColumnsOrAProgramHasThem) {
  const Chain chain = *MakeFfnChain({.gated = true,
                                     .n = 16,
                                     .k = 16,
                                     .l = 16,
                                     .act = Activation::kSilu,
                                     .scale_w1 = true,
                                     .scale_w2 = true,
                                     .scale_w_dtype = DType::kBF16});
  const MatchedSequence matched = *MatchProducts(chain, 64);
  const auto name = [&](int i) { return i < 0 ? "" : chain.InputName(chain.InputOrder()[i]); };
  EXPECT_EQ(name(matched.inputs[0].scale_weights), "scale_gate");
  EXPECT_EQ(name(matched.inputs[0].scale_up), "scale_up");
  EXPECT_EQ(name(matched.inputs[1].scale_weights), "scale_w2");
  EXPECT_TRUE(matched.weights_constant);
  EXPECT_EQ(matched.sequence.ToString(),
            "gated_ffn m<=64 n=16 k=16 l=16 act=silu scale_w1=bf16 scale_w2=bf16 layout=oi "
            "dtype=bf16");
  const auto refused = [](const char* up, const char* type_of_t = "") {
    ChainReader r("a: bf16[M,16]; w1, w2: const bf16[16,16]; s: f32[16]");
    if (*type_of_t != 0) r.Add("t: $0", type_of_t);
    r.Add("out bf16(silu(a @ w1.T * spread(s, [M,16])) * ($0))", up);
    return std::string(MatchProducts(r.Finish()).status().message());
  };
  EXPECT_EQ(refused("a @ w2.T"), "");
  EXPECT_EQ(refused("a @ w2.T * spread(t, [M,16])", "bf16[16]"),
            "dtype of scale_w of up is bf16, of gate's f32");
}

TEST(MatchProducts, ProductsOfCodesHaveScalesOfColumnsInF32) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Chain chain = ReadChain(
        "a: e4m3[M,32]; w: const e4m3[16,32]; s: const $0[16];"
        "out bf16(a @ w.T * spread(s, [M,16]))",
        NameOf(dtype));
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain, 64);
    ASSERT_EQ(matched.ok(), dtype == DType::kF32) << matched.status();
    if (!matched.ok()) continue;
    EXPECT_TRUE(CheckSequence(matched->sequence).ok()) << CheckSequence(matched->sequence);
    EXPECT_TRUE(matched->sequence[0].weights.scales == (Scales{ScaleKind::kVector, 0, 0}));
    EXPECT_TRUE(matched->sequence[0].rows.scales == Scales{});
  }
}

TEST(MatchProducts, ConvolutionsHaveScalesOfColumns) {
  const auto problem =
      Got(ParseProblem("conv b=M ic=8 h=5 w=4 oc=16 k=3 act=relu scale=1 bias=1 residual=before"));
  const MatchedSequence matched = Got(MatchProducts(problem.chain, 2));
  const MatrixProduct& p = matched.sequence[0];
  EXPECT_TRUE(p.HasColumnScales());
  EXPECT_EQ(p.weights.scales.element, DType::kBF16);
  EXPECT_TRUE(p.epilogue.bias().has_value() && p.epilogue.has_residual());
  EXPECT_EQ(p.epilogue.sum_activation(), Activation::kRelu);
}

TEST(MatchProducts, AFactorOfUnroundedRowsIsOneOfTheProduct) {
  for (const bool rounds : {false, true}) {
    const Chain chain = ReadChain(
        "a: bf16[M,16]; r: f32[M,1]; w: const bf16[16,16]; x = f32(a) * spread(r, [M,16]) * 4;"
        "out bf16($0 @ w.T)",
        rounds ? "bf16(x)" : "x");
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
    EXPECT_EQ(matched.ok(), !rounds) << "(a r) W rounds where (a W) r does not";
    if (!matched.ok()) continue;
    EXPECT_EQ(matched->sequence[0].epilogue.scale(), 4);
    EXPECT_TRUE(matched->sequence[0].epilogue.factor().has_value());
  }
}

// Rows that lie as columns, of a number of tokens or of M of them.
TEST(MatchProducts, TakesTransposedRows) {
  for (const bool over_m : {false, true}) {
    for (const int64_t rows : {40, 16384}) {
      const Chain chain =
          ReadChain("x: bf16[$0,$1] strides($2, 1); dy: bf16[$0,32]; out bf16(x.T @ dy)",
                    over_m ? "M" : "24", rows, 2 * rows);
      const MatchedSequence matched = Got(MatchProducts(chain, 512));
      const ProductSequence& sequence = matched.sequence;
      EXPECT_EQ(sequence.rows(), rows);
      EXPECT_EQ(sequence.m, std::min<int64_t>(rows, kLargestBucket));
      EXPECT_EQ(matched.m, C(sequence.m));
      EXPECT_TRUE(sequence[0].HasTransposedRows());
      EXPECT_EQ(sequence[0].k_is_m, over_m);
      EXPECT_EQ(sequence[0].k, over_m ? 512 : 24);
      EXPECT_EQ(sequence[0].n, 32);
      EXPECT_EQ(sequence.layout(), Layout::kIO);
      EXPECT_EQ(matched.rows_stride, 2 * rows);
      // A launch does not set their number.
      EXPECT_EQ(MatchWhole(chain, 512).status().message(), "its rows are transposed");
    }
  }
}

// A factor of the summed axis does not belong to the result's rows; a factor of the result's rows
// does.
TEST(MatchProducts, FactorsOfTransposedRowsAreOfTheResult) {
  for (const bool before : {true, false}) {
    const auto matched = MatchProducts(
        ReadChain("x, w: bf16[16,16]; r: f32[16,1]; out bf16($0)",
                  before ? "(f32(x) * spread(r, x)).T @ w" : "x.T @ w * spread(r, x)"));
    EXPECT_EQ(matched.ok(), !before);
    if (!before && matched.ok()) {
      EXPECT_TRUE(matched->sequence[0].epilogue.factor().has_value());
    }
  }
}

TEST(MatchProducts, RefusesTransposedRowsThatItCannotRead) {
  for (const auto& [text, message] : RefusalsOf(kRefused, "transposed rows")) {
    EXPECT_EQ(MatchProducts(ReadChain(text)).status().message(), message);
  }
}

TEST(MatchProducts, AGatedPairHasOneScalingForBoth) {
  const Chain chain = *MakeFfnChain({.gated = true,
                                     .n = 16,
                                     .k = 16,
                                     .l = 16,
                                     .act = Activation::kSilu,
                                     .scale1 = 0.5,
                                     .factor1 = true,
                                     .factor2 = true});
  const MatchedSequence matched = *MatchProducts(chain, 64);
  EXPECT_NE(matched.NumberOf(0, Role::kFactor), matched.NumberOf(1, Role::kFactor));
  EXPECT_TRUE(matched.sequence[0].epilogue.factor().has_value());
  EXPECT_TRUE(matched.sequence[1].epilogue.factor().has_value());
  EXPECT_EQ(matched.sequence.ToString(),
            "gated_ffn m<=64 n=16 k=16 l=16 act=silu scale1=0.5 factor1=f32 factor2=f32 layout=oi "
            "dtype=bf16");
}

TEST(MatchProducts, HalvesThatAreScaledApartAreAPrograms) {
  for (const bool both : {false, true}) {
    const auto matched = MatchProducts(
        ReadChain("a: bf16[M,16]; r: f32[M,1]; w1, w2: const bf16[16,16]; s = spread(r, [M,16]);"
                  "out bf16(silu(a @ w1.T * 2 * s) * (a @ w2.T * $0))",
                  both ? "3 * s" : "2"));
    ASSERT_TRUE(EndsInProgram(matched)) << matched.status();
    EXPECT_EQ(ToString(matched->sequence[0].epilogue.program),
              both ? "t1=mul(mul(y,s),2);mul(mul(t1,sigmoid(t1)),mul(mul(up,s),3))"
                   : "t1=mul(mul(y,s),2);mul(mul(t1,sigmoid(t1)),mul(up,2))");
  }
}

// relu of one product times the other, plus a matrix; the first weight's is `first_is_gate` or up.
Chain PairWithMatrix(bool first_is_gate, bool gate_is_left, absl::string_view second = "second.T") {
  const char* gate = first_is_gate ? "relu(x)" : "relu(y)";
  const char* up = first_is_gate ? "y" : "x";
  return ReadChain(
      "a, r: bf16[M,16]; first, second: const bf16[16,16]; x = a @ first.T; y = a @ $0;"
      "out bf16(r + $1 * $2)",
      second, gate_is_left ? gate : up, gate_is_left ? up : gate);
}

TEST(MatchProducts, TheGateOfAPairIsTheHalfThatIsActivatedWhereverItStands) {
  for (const bool first : {false, true}) {
    for (const bool left : {false, true}) {
      const Chain chain = PairWithMatrix(first, left);
      const MatchedSequence matched = Got(MatchProducts(chain));
      EXPECT_TRUE(matched.sequence[0].epilogue.form() ==
                  (EpilogueForm{Activation::kRelu, true, false, true}));
      const auto name = [&](int input) { return chain.InputName(chain.InputOrder()[input]); };
      EXPECT_EQ(name(matched.inputs[0].weights), first ? "first" : "second");
      EXPECT_EQ(name(matched.inputs[0].weights_up), first ? "second" : "first");
    }
  }
  EXPECT_TRUE(Says(MatchProducts(PairWithMatrix(true, true, "second")),
                   "has two products below it whose weights differ in layout"));
}

TEST(MatchProducts, APairHasNothingBehindTheSecond) {
  const struct {
    const char* line;
    bool pair;
  } cases[] = {{"products m=M k=8 n=8,8", true},
               {"products m=M k=8 n=8,8 act=relu,identity", true},
               {"products m=M k=8 n=8,8 act=relu", true},
               {"products m=M k=8 n=8,8 gated=0,1", false}};
  for (const auto& c : cases) {
    EXPECT_EQ(CanPair(MatchProducts(ParseProblem(c.line)->chain)->sequence, 0), c.pair) << c.line;
  }
}

TEST(MatchProducts, RefusesWhatIsNoSequenceWithTheOp) {
  // Three products, with something done to the second one's result.
  const std::pair<const char*, const char*> cases[] = {
      {"linear(c + d, w3, none)", "op 6 (add) has products of different rows below it"},
      {"linear(rmsnorm(d, 1e-6), w3, none)", "the norm of its rows is another kernel's"},
      {"linear(d, w3, none, layout=io)", "w3 is io, w1 oi: all weights must be alike"},
  };
  for (const auto& [third, message] : cases) {
    const Chain chain = ReadChain(
        "a: bf16[M,16]; w1, w2, w3: bf16[16,16]; c = linear(a, w1, none, relu);"
        "d = linear(c, w2, none); out bf16($0)",
        third);
    EXPECT_TRUE(Fails(MatchProducts(chain), absl::StatusCode::kInvalidArgument, message)) << third;
  }
}

// A value in memory is an operand, whatever computes it there.
TEST(MatchProducts, ReadsAPartOfAGraphBetweenValuesInMemory) {
  const Chain chain =
      ReadChain("x: f32[M,32]; w: const bf16[16,32]; out exp(linear(tanh(x), w, none, relu))");
  ValueId tanh = -1;
  const ValueId end = chain.op(chain.outputs()[0].value).operands[0];
  for (ValueId v = 0; v < end; ++v) {
    const Op& op = chain.op(v);
    if (op.kind == OpKind::kUnary && op.unary == UnaryKind::kTanh) tanh = v;
  }
  EXPECT_FALSE(MatchProducts(chain).ok());
  Subgraph graph(chain, end, {DType::kBF16, {Dim::M(), C(16)}}, {{20, 0}, {1, 0}});
  graph.AddOperand(tanh, DType::kBF16, {{32, 0}, {1, 0}});
  graph.AddOperand(chain.input(1), DType::kBF16, {{40, 0}, {1, 0}});
  const MatchedSequence matched = Got(MatchProducts(graph));
  EXPECT_EQ(matched.ValueOf(matched.rows), tanh);
  EXPECT_EQ(matched.ValueOf(matched.inputs[0].weights), chain.input(1));
  EXPECT_EQ(matched.inputs[0].weights_stride, 40);
  EXPECT_EQ(matched.output_stride, 20);
  EXPECT_EQ(matched.sequence[0].epilogue.activation(), Activation::kRelu);
  EXPECT_TRUE(matched.weights_constant);
}

TEST(MatchProducts, TakesAsManyProductsAsAPlanHasKernels) {
  ProductsSpec spec{.k = 8};
  spec.products.assign(kMaxProducts, {false, Activation::kIdentity, 8, false});
  EXPECT_EQ(MatchProducts(*MakeProductsChain(spec))->size(), kMaxProducts);
  spec.products.push_back(spec.products.back());
  EXPECT_EQ(MatchProducts(*MakeProductsChain(spec)).status().message(), "more than 64 products");
}

}  // namespace
}  // namespace sinter
