// Matcher: sequences of products recognised from primitives alone; everything else is refused with
// its reason.
#include "src/product/matcher.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

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
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
    ASSERT_TRUE(matched.ok()) << matched.status() << "\n" << chain.ToString();
    EXPECT_TRUE(matched->m.symbolic);
    EXPECT_EQ(matched->sequence.layout(), spec.layout);
    EXPECT_EQ(matched->sequence.element(), spec.dtype);
    EXPECT_TRUE(matched->contiguous);
    EXPECT_TRUE(matched->weights_constant);
    EXPECT_EQ(chain.InputName(chain.InputOrder()[matched->rows]), "a");
    ASSERT_EQ(matched->inputs.size(), spec.products.size());
    int64_t k = spec.k;
    for (size_t i = 0; i < spec.products.size(); ++i) {
      const MatrixProduct& step = matched->sequence[static_cast<int>(i)];
      const ProductInputs& in = matched->inputs[i];
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

// Both filters of one pixel: the pixels of an image are rows behind each index of M.
TEST(MatchProducts, TakesConvolutionsOfOnePixelAsProducts) {
  for (const char* weights : {"OHWI", "HWIO"}) {
    const auto problem = ParseProblem(
        std::string("conv_chain b=M ic=64 h=7 w=5 oc1=128 oc2=32 k1=1 k2=1 act=relu bias1=1 "
                    "weights=") +
        weights);
    const auto matched = MatchProducts(problem->chain, 3);
    ASSERT_TRUE(matched.ok()) << matched.status();
    const ProductSequence& s = matched->sequence;
    EXPECT_EQ(s.ToString().substr(0, 56),
              "gemm_chain m<=3 rows_per_m=35 n=128 k=64 l=32 act=relu b");
    EXPECT_EQ(s.rows(), 105);
    EXPECT_EQ(s.layout(), weights[0] == 'O' ? Layout::kOI : Layout::kIO);
    EXPECT_TRUE(matched->contiguous && matched->weights_constant && matched->m.symbolic);
    EXPECT_EQ(matched->rows_stride, 64);
    EXPECT_EQ(matched->output_stride, 32);
    EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
    EXPECT_EQ(s.Flop(3), problem->chain.MatmulFlops(3));
  }
}

// Pixels with a gap behind each are rows still; a gap behind each line of them is none.
TEST(MatchProducts, PixelsHaveOneStride) {
  const auto chain = [](const std::vector<Stride>& strides) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(7), C(5), C(16)}}, {false, strides, ""});
    const ValueId w = *b.Input({DType::kBF16, {C(8), C(1), C(1), C(16)}});
    EXPECT_TRUE(b.Output(*b.Cast(*b.Convolve(x, w), DType::kBF16)).ok());
    return *b.Finish();
  };
  const auto apart = MatchProducts(chain({{840, 0}, {120, 0}, {24, 0}, {1, 0}}));
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(apart->rows_stride, 24);
  EXPECT_FALSE(apart->contiguous);
  for (const std::vector<Stride>& strides :
       {std::vector<Stride>{{1000, 0}, {120, 0}, {24, 0}, {1, 0}},
        std::vector<Stride>{{700, 0}, {100, 0}, {16, 0}, {1, 0}},
        std::vector<Stride>{{280, 0}, {40, 0}, {8, 0}, {1, 0}},
        std::vector<Stride>{{560, 0}, {80, 0}, {16, 0}, {0, 0}}}) {
    const auto refused = MatchProducts(chain(strides));
    EXPECT_EQ(refused.status().message(),
              "strides of a are " + ToString(absl::MakeConstSpan(strides)) +
                  ", must be those of rows one behind the other, each at least 16 apart");
  }
}

TEST(MatchProducts, TakesARowResidualOfPixels) {
  const auto problem =
      ParseProblem("conv b=M ic=64 h=7 w=5 oc=32 k=1 act=relu bias=1 residual=behind");
  const auto matched = MatchProducts(problem->chain, 2);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_TRUE(matched->sequence.back().epilogue.has_residual());
  EXPECT_EQ(matched->inputs[0].residual_stride, 32);
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
    const auto matched = MatchProducts(problem->chain, 40);
    ASSERT_TRUE(matched.ok()) << matched.status();
    const MatrixProduct& p = matched->sequence.front();
    EXPECT_EQ(p.rows.element, DType::kE4M3);
    EXPECT_EQ(p.weights.element, DType::kE4M3);
    EXPECT_EQ(p.result, problem->chain.output_type(0).dtype);
    EXPECT_EQ(*p.epilogue.bias(), p.result);
    EXPECT_TRUE(p.rows.scales == c.rows) << ToString(p.rows.scales);
    EXPECT_TRUE(p.weights.scales == c.weights) << ToString(p.weights.scales);
    const ProductInputs& in = matched->InputsOf(0);
    const auto name = [&](int input) {
      return problem->chain.InputName(problem->chain.InputOrder()[input]);
    };
    EXPECT_EQ(name(in.scale_rows), "scale_a");
    EXPECT_EQ(name(in.scale_weights), "scale_w");
    EXPECT_TRUE(CheckSequence(matched->sequence).ok()) << CheckSequence(matched->sequence);
  }
}

// [1, k / 128] is a block of 128 x 128 that ends early.
TEST(MatchProducts, TakesGroupsOfNoMoreColumnsThanABlockHas) {
  for (const int n : {1, 8, 64, 120, 128, 129}) {
    const auto problem =
        ParseProblem("scaled_matmul m=M n=" + std::to_string(n) + " k=384 scales=group");
    const auto matched = MatchProducts(problem->chain, 40);
    ASSERT_TRUE(matched.ok()) << n << ": " << matched.status();
    const MatrixProduct& p = matched->sequence.front();
    EXPECT_TRUE(p.weights.scales == (Scales{ScaleKind::kBlock, 128, 128})) << n;
    EXPECT_TRUE(p.rows.scales == (Scales{ScaleKind::kBlock, 1, 128})) << n;
    EXPECT_TRUE(CheckSequence(matched->sequence).ok()) << CheckSequence(matched->sequence);
  }
}

// A pair has fast sums where both halves may.
TEST(MatchProducts, TakesFastSumsWhereTheChainAllowsThem) {
  const Dim m = Dim::M(), n = Dim::Constant(64), k = Dim::Constant(256), one = Dim::Constant(1);
  for (const Accumulate gate : {Accumulate::kPromoted, Accumulate::kFast}) {
    for (const Accumulate up : {Accumulate::kPromoted, Accumulate::kFast}) {
      ChainBuilder b;
      const auto codes = [&](Dim rows) {
        return Scaled{*b.Input({DType::kE4M3, {rows, k}}), *b.Input({DType::kF32, {rows, one}})};
      };
      const Scaled a = codes(m), w_gate = codes(n), w_up = codes(n);
      const ValueId g = *AddScaledLinear(b, a, w_gate, kNoValue, Activation::kSilu, gate);
      const ValueId u = *AddScaledLinear(b, a, w_up, kNoValue, Activation::kIdentity, up);
      ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kMul, g, u)).ok());
      const auto matched = MatchProducts(*b.Finish(), 40);
      ASSERT_TRUE(matched.ok()) << matched.status();
      ASSERT_TRUE(matched->sequence.front().pair);
      EXPECT_EQ(matched->sequence.front().accumulate, std::min(gate, up));
    }
  }
}

TEST(MatchProducts, TakesWindowsOfAFirstConvolution) {
  for (const bool ohwi : {true, false}) {
    const auto problem = ParseProblem(
        std::string("conv_chain b=M ic=64 h=9 w=7 oc1=128 oc2=40 k1=3,2 k2=1 act=relu stride=2,1 "
                    "pad=1,0,2,1 dilation=1,2 weights=") +
        (ohwi ? "OHWI" : "HWIO"));
    const auto matched = MatchProducts(problem->chain, 3);
    ASSERT_TRUE(matched.ok()) << matched.status();
    const ProductSequence& s = matched->sequence;
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
    EXPECT_EQ(matched->rows_stride, 64);
    EXPECT_EQ(matched->inputs[0].weights_stride, ohwi ? 6 * 64 : 128);
    EXPECT_EQ(window.LowerCorner(0), -1);
    EXPECT_EQ(window.UpperCorner(0), -2);
    EXPECT_EQ(window.LowerCorner(1), -2);
    EXPECT_EQ(window.UpperCorner(1), -1);
    EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
    EXPECT_EQ(s.Flop(3), problem->chain.MatmulFlops(3));
    ProductSequence code = s;
    code.m = 0;
    const auto back = ProductSequence::FromCanonical(code.Canonical());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, code);
    EXPECT_EQ(s.Part(0, 1)[0].rows.source, Source::kWindow);
    EXPECT_EQ(s.Part(1, 1)[0].rows.source, Source::kBuffer);
  }
}

TEST(MatchProducts, TakesConvolutionsInGroups) {
  const auto problem = ParseProblem("conv b=M ic=72 h=9 w=7 oc=144 k=3 groups=3 act=relu bias=1");
  const auto matched = MatchProducts(problem->chain, 4);
  ASSERT_TRUE(matched.ok()) << matched.status();
  const ProductSequence& s = matched->sequence;
  EXPECT_TRUE(CheckSequence(s).ok()) << CheckSequence(s);
  EXPECT_EQ(s[0].k, 9 * 24);
  EXPECT_EQ(s[0].n, 144);
  EXPECT_EQ(s[0].GroupColumns(), 48);
  EXPECT_EQ(s[0].rows.window.Bundle(), 2);  // 48 channels of 64
  EXPECT_EQ(s[0].BundleColumns(), 96);
  EXPECT_EQ(s[0].StagedK(), 9 * 64);
  EXPECT_EQ(matched->rows_stride, 72);
  EXPECT_EQ(matched->inputs[0].weights_stride, 9 * 24);
  EXPECT_EQ(s.Flop(4), problem->chain.MatmulFlops(4));
  ProductSequence code = s;
  code.m = 0;
  const auto back = ProductSequence::FromCanonical(code.Canonical());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, code);
  EXPECT_NE(code.ToString().find(" groups=3"), std::string::npos) << code.ToString();
  // The tap's channels are those of a bundle: 16 of 8 channels, 1 of 112.
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
  const std::pair<const char*, const char*> rows[] = {
      {"conv b=M ic=68 h=9 w=7 oc=8 k=3",
       "channels 68 are not a multiple of 8 (16-byte pixels of tensor maps)"},
      {"conv b=M ic=64 h=300 w=7 oc=8 k=3 pad=130",
       "padding 130 is not in [0, 128] (corners of im2col maps)"},
      {"conv b=M ic=64 h=900 w=7 oc=8 k=3,1 dilation=150,1 pad=0",
       "filter reach 300 is not in [0, 255] (offsets of im2col loads)"},
      {"conv b=M ic=64 h=900 w=7 oc=8 k=3,1 dilation=70,1 pad=0",
       "filter reach behind the padding 140 is not in [-127, 128] (corners of im2col maps)"},
      {"conv b=M ic=64 h=40 w=40 oc=8 k=3 stride=9",
       "stride 9 is not in [1, 8] (element strides of tensor maps)"},
      {"conv b=M ic=36 h=9 w=7 oc=72 k=3 groups=3",
       "channels 12 of a group are not a multiple of 8 (16-byte pixels of tensor maps)"},
      {"conv b=M ic=32 h=9 w=7 oc=12 k=3 groups=2",
       "n 12 is not a multiple of 8 in each of 2 groups"},
      {"conv b=M ic=32 h=9 w=7 oc=16 k=3 groups=2 weights=HWIO",
       "layout of weights is io, must be oi of 2 groups: give the filter as OHWI"},
  };
  for (const auto& [line, message] : rows) {
    const auto matched = MatchProducts(ParseProblem(line)->chain, 1);
    ASSERT_TRUE(matched.ok()) << matched.status();
    EXPECT_EQ(CheckSequence(matched->sequence).message(), message) << line;
  }
}

// The bytes of a chain that casts every intermediate differ; its products are the same.
TEST(MatchProducts, SeesRoundedIntermediates) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  for (int i = 0; i < 3; ++i) {
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
    x = *AddLinear(b, x, w, kNoValue, Layout::kOI, Activation::kRelu);
    if (i != 1) x = *b.Cast(x, DType::kBF16);
  }
  ASSERT_TRUE(b.Output(x).ok());
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(*b.Finish());
  ASSERT_TRUE(matched.ok()) << matched.status();
  ASSERT_EQ(matched->size(), 3);
  EXPECT_TRUE(matched->inputs[0].rounds);
  EXPECT_FALSE(matched->inputs[1].rounds);
  EXPECT_TRUE(matched->inputs[2].rounds);
}

// Two products over 16 columns; `sum` makes the output of the second one's result and of r[M,16].
Chain WithSum(const std::function<ValueId(ChainBuilder&, ValueId e, ValueId r)>& sum,
              std::vector<Dim> dims = {Dim::M(), C(16)}, DType dtype = DType::kBF16,
              std::vector<Stride> strides = {}) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
  const ValueId w1 = *b.Input({DType::kBF16, {C(16), C(16)}}),
                w2 = *b.Input({DType::kBF16, {C(16), C(16)}});
  const ValueId c = *AddLinear(b, a, w1, kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId e = *AddLinear(b, c, w2, kNoValue, Layout::kOI);
  const ValueId r = *b.Input({dtype, std::move(dims)}, {false, std::move(strides), "r"});
  EXPECT_TRUE(b.Output(sum(b, e, r)).ok());
  return *b.Finish();
}

TEST(MatchProducts, SeesAResidualInEverySpelling) {
  const struct {
    const char* what;
    bool rounds;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> sum;
  } cases[] = {
      {"widened", false,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Cast(*b.Binary(BinaryKind::kAdd, e, *b.Cast(r, DType::kF32)), DType::kBF16);
       }},
      {"the other way round", false,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Cast(*b.Binary(BinaryKind::kAdd, r, e), DType::kBF16);
       }},
      {"rounded and widened", true,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         const ValueId rounded = *b.Cast(*b.Cast(e, DType::kBF16), DType::kF32);
         return *b.Cast(*b.Binary(BinaryKind::kAdd, rounded, r), DType::kBF16);
       }},
      {"in bf16 alone", true,
       [](ChainBuilder& b, ValueId e, ValueId r) {
         return *b.Binary(BinaryKind::kAdd, r, *b.Cast(e, DType::kBF16));
       }},
  };
  for (const auto& c : cases) {
    const Chain chain = WithSum(c.sum);
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
    ASSERT_TRUE(matched.ok()) << c.what << matched.status();
    ASSERT_EQ(matched->size(), 2) << c.what;
    EXPECT_FALSE(matched->sequence[0].epilogue.has_residual());
    EXPECT_EQ(chain.InputName(chain.InputOrder()[matched->NumberOf(1, Role::kResidual)]), "r")
        << c.what;
    EXPECT_EQ(matched->sequence[1].epilogue.form().rounds, c.rounds) << c.what;
    EXPECT_TRUE(matched->contiguous);
  }
}

TEST(MatchProducts, AResidualHasRowsOfItsOwn) {
  const auto sum = [](ChainBuilder& b, ValueId e, ValueId r) {
    return *b.Cast(*b.Binary(BinaryKind::kAdd, e, r), DType::kBF16);
  };
  const MatchedSequence matched =
      *MatchProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kBF16, {{19, 0}, {1, 0}}));
  EXPECT_EQ(matched.inputs[1].residual_stride, 19);
  EXPECT_FALSE(matched.contiguous);
  const auto of_f32 = MatchProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kF32));
  ASSERT_TRUE(of_f32.ok()) << of_f32.status();
  EXPECT_TRUE(of_f32->sequence[1].epilogue.program.whole());
  EXPECT_EQ(MatchProducts(WithSum(sum, {Dim::M(), C(16)}, DType::kBF16, {{0, 0}, {1, 0}}))
                .status()
                .message(),
            "strides of residual2 are [0,1], must be [at least 16,1]");
}

// Whether the last product's program is one that the device library has no form of.
bool EndsInProgram(const absl::StatusOr<MatchedSequence>& matched) {
  return matched.ok() && matched->sequence.back().epilogue.program.written();
}

TEST(MatchProducts, AResidualThatIsAddedTwiceIsAPrograms) {
  const auto twice = [](ChainBuilder& b, ValueId e, ValueId r) {
    const ValueId once = *b.Binary(BinaryKind::kAdd, e, r);
    return *b.Cast(*b.Binary(BinaryKind::kAdd, once, r), DType::kBF16);
  };
  EXPECT_TRUE(EndsInProgram(MatchProducts(WithSum(twice))));
}

TEST(MatchProducts, SeesTheActivationOfASum) {
  for (const Activation act : kActivations) {
    for (const bool rounds : {false, true}) {
      const auto activated = [&](ChainBuilder& b, ValueId e, ValueId r) {
        if (rounds) e = *b.Cast(*b.Cast(e, DType::kBF16), DType::kF32);
        return *b.Cast(*AddActivation(b, act, *b.Binary(BinaryKind::kAdd, e, r)), DType::kBF16);
      };
      const Chain chain = WithSum(activated);
      const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
      ASSERT_TRUE(matched.ok()) << NameOf(act) << " " << matched.status();
      const ProductEpilogue& last = matched->sequence[1].epilogue;
      EXPECT_EQ(last.sum_activation(), act);
      EXPECT_EQ(last.activation(), Activation::kIdentity);
      EXPECT_EQ(last.form().rounds, rounds);
      EXPECT_EQ(chain.InputName(chain.InputOrder()[matched->NumberOf(1, Role::kResidual)]), "r");
      EXPECT_TRUE(CanPair(matched->sequence, 0)) << NameOf(act);
    }
  }
  // Of a sum that is rounded before its activation the activation is a program's.
  const auto rounded = [](ChainBuilder& b, ValueId e, ValueId r) {
    const ValueId sum = *b.Cast(*b.Binary(BinaryKind::kAdd, e, r), DType::kBF16);
    return *b.Unary(UnaryKind::kRelu, sum);
  };
  EXPECT_TRUE(EndsInProgram(MatchProducts(WithSum(rounded))));
}

TEST(MatchProducts, AResidualMayStandBetweenProductsAndBeTheRows) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  ValueId x = a;
  for (int i = 0; i < 2; ++i) {
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
    x = *AddLinear(b, x, w, kNoValue, Layout::kOI);
    x = *b.Cast(*b.Binary(BinaryKind::kAdd, x, a), DType::kBF16);
  }
  ASSERT_TRUE(b.Output(x).ok());
  const Chain chain = *b.Finish();
  const MatchedSequence matched = *MatchProducts(chain);
  ASSERT_EQ(matched.size(), 2);
  EXPECT_EQ(matched.NumberOf(0, Role::kResidual), matched.rows);
  EXPECT_EQ(matched.NumberOf(1, Role::kResidual), matched.rows);
  EXPECT_TRUE(matched.inputs[0].rounds);
  EXPECT_FALSE(CanPair(matched.sequence, 0)) << "the first product has a residual";
}

// One product of 16 columns, `scaled`, with a bias and relu behind it. Inputs: a, w, r, bias.
absl::StatusOr<MatchedSequence> WithScale(
    const std::function<ValueId(ChainBuilder&, ValueId product, ValueId r)>& scaled,
    const TensorType& r_type = {DType::kF32, {Dim::M(), C(1)}}) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
  const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, "w"});
  const ValueId r = *b.Input(r_type, {false, {}, "r"});
  const ValueId bias = *b.Input({DType::kBF16, {C(16)}}, {true, {}, "b"});
  ValueId y = scaled(b, *b.Matmul(a, w, false, true), r);
  y = *b.Binary(BinaryKind::kAdd, y, *b.Broadcast(bias, {Dim::M(), C(16)}));
  y = *b.Unary(UnaryKind::kRelu, y);
  EXPECT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
  SINTER_ASSIGN_OR_RETURN(const Chain chain, b.Finish());
  return MatchProducts(chain);
}

ValueId Mul(ChainBuilder& b, ValueId x, ValueId y) { return *b.Binary(BinaryKind::kMul, x, y); }
ValueId OverColumns(ChainBuilder& b, ValueId r) { return *b.Broadcast(r, {Dim::M(), C(16)}); }

TEST(MatchProducts, SeesScalarsAndAFactorOfRowsInEverySpelling) {
  const struct {
    const char* what;
    double scale;
    bool factor;
    DType dtype;
    std::vector<Dim> dims;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> scaled;
  } cases[] = {
      {"a factor",
       1,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) { return Mul(b, p, OverColumns(b, r)); }},
      {"the other way round, widened behind",
       1,
       true,
       DType::kBF16,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         return Mul(b, *b.Cast(OverColumns(b, r), DType::kF32), p);
       }},
      {"a vector, widened before",
       1,
       true,
       DType::kBF16,
       {Dim::M()},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         const ValueId column = *b.Reshape(*b.Cast(r, DType::kF32), {Dim::M(), C(1)});
         return Mul(b, p, OverColumns(b, column));
       }},
      {"a scalar, then a factor",
       0.125,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         return Mul(b, Mul(b, *b.Scalar(0.125), p), OverColumns(b, r));
       }},
      {"a factor, then two scalars",
       1.5,
       true,
       DType::kF32,
       {Dim::M(), C(1)},
       [](ChainBuilder& b, ValueId p, ValueId r) {
         const ValueId thrice = Mul(b, Mul(b, p, OverColumns(b, r)), *b.Scalar(3));
         return *b.Binary(BinaryKind::kDiv, thrice, *b.Scalar(2));
       }},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<MatchedSequence> matched = WithScale(c.scaled, {c.dtype, c.dims});
    ASSERT_TRUE(matched.ok()) << c.what << matched.status();
    const MatrixProduct& step = matched->sequence[0];
    EXPECT_EQ(step.epilogue.scale(), c.scale) << c.what;
    ASSERT_EQ(step.epilogue.factor().has_value(), c.factor) << c.what;
    EXPECT_EQ(*step.epilogue.factor(), c.dtype) << c.what;
    EXPECT_TRUE(step.epilogue.bias().has_value()) << c.what;
    EXPECT_EQ(step.epilogue.activation(), Activation::kRelu) << c.what;
    EXPECT_TRUE(matched->weights_constant) << c.what;
  }
}

TEST(MatchProducts, FactorsOfWhatIsRoundedOrHasOneAreAPrograms) {
  const std::function<ValueId(ChainBuilder&, ValueId, ValueId)> others[] = {
      [](ChainBuilder& b, ValueId p, ValueId r) {  // the chain rounds the product first
        return Mul(b, *b.Cast(p, DType::kBF16), OverColumns(b, r));
      },
      [](ChainBuilder& b, ValueId p, ValueId r) {
        return Mul(b, Mul(b, p, OverColumns(b, r)), OverColumns(b, r));
      },
      [](ChainBuilder& b, ValueId p, ValueId r) {  // divided by rows
        return *b.Binary(BinaryKind::kDiv, p, OverColumns(b, r));
      },
  };
  for (const auto& other : others) EXPECT_TRUE(EndsInProgram(WithScale(other)));
  // A product with nothing is an element-wise op as any.
  const auto with_nothing = [](ChainBuilder& b, ValueId p, ValueId r) {
    return Mul(b, Mul(b, p, OverColumns(b, r)), *b.Scalar(0));
  };
  EXPECT_TRUE(EndsInProgram(WithScale(with_nothing)));
  const auto times = [](ChainBuilder& b, ValueId p, ValueId r) {
    return Mul(b, p, OverColumns(b, r));
  };
  auto of_f16 = WithScale(times, {DType::kF16, {Dim::M(), C(1)}});
  ASSERT_TRUE(of_f16.ok()) << of_f16.status();
  of_f16->SetBucket(8);
  EXPECT_EQ(CheckSequence(of_f16->sequence).message(), "factor is f16, must be f32 or bf16");
}

// A folded batch norm: a scale of each column, then the bias and the activation.
ValueId OverRows(ChainBuilder& b, ValueId s) { return *b.Broadcast(s, {Dim::M(), C(16)}); }

TEST(MatchProducts, SeesAScaleOfColumnsInEverySpelling) {
  const struct {
    const char* what;
    DType dtype;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> scaled;
  } cases[] = {
      {"f32", DType::kF32,
       [](ChainBuilder& b, ValueId p, ValueId s) { return Mul(b, p, OverRows(b, s)); }},
      {"of the chain's dtype, on the left", DType::kBF16,
       [](ChainBuilder& b, ValueId p, ValueId s) { return Mul(b, OverRows(b, s), p); }},
      {"widened, and a scalar between", DType::kBF16,
       [](ChainBuilder& b, ValueId p, ValueId s) {
         const ValueId wide = OverRows(b, *b.Cast(s, DType::kF32));
         return Mul(b, Mul(b, p, *b.Scalar(0.5)), wide);
       }},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<MatchedSequence> matched = WithScale(c.scaled, {c.dtype, {C(16)}});
    ASSERT_TRUE(matched.ok()) << c.what << matched.status();
    const MatrixProduct& p = matched->sequence[0];
    EXPECT_TRUE(p.weights.scales == (Scales{ScaleKind::kVector, 0, 0, c.dtype})) << c.what;
    EXPECT_EQ(matched->OperandAt(matched->inputs[0].scale_weights).type.dtype, c.dtype) << c.what;
    EXPECT_FALSE(p.epilogue.factor().has_value()) << c.what;
    EXPECT_TRUE(p.epilogue.bias().has_value()) << c.what;
    EXPECT_FALSE(matched->weights_constant) << c.what;
  }
}

TEST(MatchProducts, ScalesOfColumnsThatAreNoneOfTheWeightsAreAPrograms) {
  const struct {
    const char* what;
    TensorType type;
    std::function<ValueId(ChainBuilder&, ValueId, ValueId)> scaled;
    bool taken = true;
  } cases[] = {
      {"rounded before",
       {DType::kF32, {C(16)}},
       [](ChainBuilder& b, ValueId p, ValueId s) {
         return Mul(b, *b.Cast(p, DType::kBF16), OverRows(b, s));
       }},
      {"two",
       {DType::kF32, {C(16)}},
       [](ChainBuilder& b, ValueId p, ValueId s) {
         return Mul(b, Mul(b, p, OverRows(b, s)), OverRows(b, s));
       }},
      {"one number for all",
       {DType::kF32, {C(1)}},
       [](ChainBuilder& b, ValueId p, ValueId s) { return Mul(b, p, OverRows(b, s)); },
       false},
      {"divided",
       {DType::kF32, {C(16)}},
       [](ChainBuilder& b, ValueId p, ValueId s) {
         return *b.Binary(BinaryKind::kDiv, p, OverRows(b, s));
       }},
      {"of another dtype",
       {DType::kF16, {C(16)}},
       [](ChainBuilder& b, ValueId p, ValueId s) { return Mul(b, p, OverRows(b, s)); },
       false},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<MatchedSequence> matched = WithScale(c.scaled, c.type);
    EXPECT_EQ(matched.ok(), c.taken) << c.what;
    EXPECT_EQ(EndsInProgram(matched), c.taken) << c.what;
  }
}

TEST(MatchProducts, ABiasIsANumberOfEachColumn) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
  const ValueId one = *b.Input({DType::kBF16, {C(1)}});
  const ValueId y = *b.Binary(BinaryKind::kAdd, *b.Matmul(a, w), OverRows(b, one));
  ASSERT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
  EXPECT_FALSE(MatchProducts(*b.Finish()).ok());
}

TEST(MatchProducts, BothHalvesOfAPairHaveScalesOfColumnsOrAProgramHasThem) {
  FfnSpec spec;
  spec.gated = true;
  spec.n = spec.k = spec.l = 16;
  spec.act = Activation::kSilu;
  spec.scale_w1 = spec.scale_w2 = true;
  spec.scale_w_dtype = DType::kBF16;
  const Chain chain = *MakeFfnChain(spec);
  const MatchedSequence matched = *MatchProducts(chain, 64);
  const auto name = [&](int i) { return i < 0 ? "" : chain.InputName(chain.InputOrder()[i]); };
  EXPECT_EQ(name(matched.inputs[0].scale_weights), "scale_gate");
  EXPECT_EQ(name(matched.inputs[0].scale_up), "scale_up");
  EXPECT_EQ(name(matched.inputs[1].scale_weights), "scale_w2");
  EXPECT_TRUE(matched.weights_constant);
  EXPECT_EQ(matched.sequence.ToString(),
            "gated_ffn m<=64 n=16 k=16 l=16 act=silu scale_w1=bf16 scale_w2=bf16 layout=oi "
            "dtype=bf16");
  const auto refused = [](const std::vector<DType>& of_halves) {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
    std::vector<ValueId> halves;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
      halves.push_back(*b.Matmul(a, w, false, true));
      if (i == of_halves.size()) break;
      halves[i] = Mul(b, halves[i], OverRows(b, *b.Input({of_halves[i], {C(16)}})));
    }
    EXPECT_TRUE(b.Output(*b.Cast(Mul(b, *AddSilu(b, halves[0]), halves[1]), DType::kBF16)).ok());
    return std::string(MatchProducts(*b.Finish()).status().message());
  };
  EXPECT_EQ(refused({DType::kF32}), "");
  EXPECT_EQ(refused({DType::kF32, DType::kBF16}), "dtype of scale_w of up is bf16, of gate's f32");
}

TEST(MatchProducts, ProductsOfCodesHaveScalesOfColumnsInF32) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kE4M3, {Dim::M(), C(32)}});
    const ValueId w = *b.Input({DType::kE4M3, {C(16), C(32)}}, {true, {}, ""});
    const ValueId s = *b.Input({dtype, {C(16)}}, {true, {}, ""});
    const ValueId y = Mul(b, *b.Matmul(a, w, false, true), OverRows(b, s));
    ASSERT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(*b.Finish(), 64);
    ASSERT_EQ(matched.ok(), dtype == DType::kF32) << matched.status();
    if (!matched.ok()) continue;
    EXPECT_TRUE(CheckSequence(matched->sequence).ok()) << CheckSequence(matched->sequence);
    EXPECT_TRUE(matched->sequence[0].weights.scales == (Scales{ScaleKind::kVector, 0, 0}));
    EXPECT_TRUE(matched->sequence[0].rows.scales == Scales{});
  }
}

TEST(MatchProducts, ConvolutionsHaveScalesOfColumns) {
  const auto problem =
      ParseProblem("conv b=M ic=8 h=5 w=4 oc=16 k=3 act=relu scale=1 bias=1 residual=before");
  ASSERT_TRUE(problem.ok()) << problem.status();
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(problem->chain, 2);
  ASSERT_TRUE(matched.ok()) << matched.status();
  const MatrixProduct& p = matched->sequence[0];
  EXPECT_TRUE(p.HasColumnScales());
  EXPECT_EQ(p.weights.scales.element, DType::kBF16);
  EXPECT_TRUE(p.epilogue.bias().has_value() && p.epilogue.has_residual());
  EXPECT_EQ(p.epilogue.sum_activation(), Activation::kRelu);
}

TEST(MatchProducts, AFactorOfUnroundedRowsIsOneOfTheProduct) {
  for (const bool rounds : {false, true}) {
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "a"});
    const ValueId r = *b.Input({DType::kF32, {Dim::M(), C(1)}}, {false, {}, "r"});
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, "w"});
    ValueId x = Mul(b, *b.Cast(a, DType::kF32), OverColumns(b, r));
    x = Mul(b, x, *b.Scalar(4));
    if (rounds) x = *b.Cast(x, DType::kBF16);
    ASSERT_TRUE(b.Output(*b.Cast(*b.Matmul(x, w, false, true), DType::kBF16)).ok());
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(*b.Finish());
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
      ChainBuilder b;
      const Dim k = over_m ? Dim::M() : C(24);
      const ValueId x =
          *b.Input({DType::kBF16, {k, C(rows)}}, {false, {{2 * rows, 0}, {1, 0}}, ""});
      const ValueId dy = *b.Input({DType::kBF16, {k, C(32)}});
      ASSERT_TRUE(b.Output(*b.Cast(*b.Matmul(x, dy, true), DType::kBF16)).ok());
      const Chain chain = *b.Finish();
      const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain, 512);
      ASSERT_TRUE(matched.ok()) << matched.status();
      const ProductSequence& sequence = matched->sequence;
      EXPECT_EQ(sequence.rows(), rows);
      EXPECT_EQ(sequence.m, std::min<int64_t>(rows, kLargestBucket));
      EXPECT_EQ(matched->m, C(sequence.m));
      EXPECT_TRUE(sequence[0].HasTransposedRows());
      EXPECT_EQ(sequence[0].k_is_m, over_m);
      EXPECT_EQ(sequence[0].k, over_m ? 512 : 24);
      EXPECT_EQ(sequence[0].n, 32);
      EXPECT_EQ(sequence.layout(), Layout::kIO);
      EXPECT_EQ(matched->rows_stride, 2 * rows);
      // Their number is no launch's.
      EXPECT_EQ(MatchWhole(chain, 512).status().message(), "its rows are transposed");
    }
  }
}

// A factor of what is summed over is none of the result's rows; one of the result's rows is.
TEST(MatchProducts, FactorsOfTransposedRowsAreOfTheResult) {
  for (const bool before : {true, false}) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kBF16, {C(16), C(16)}});
    const ValueId r = *b.Input({DType::kF32, {C(16), C(1)}});
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}});
    const ValueId spread = *b.Broadcast(r, {C(16), C(16)});
    const ValueId scaled = before ? Mul(b, *b.Cast(x, DType::kF32), spread) : x;
    ValueId y = *b.Matmul(scaled, w, true);
    if (!before) y = Mul(b, y, spread);
    ASSERT_TRUE(b.Output(*b.Cast(y, DType::kBF16)).ok());
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(*b.Finish());
    EXPECT_EQ(matched.ok(), !before);
    if (!before && matched.ok()) {
      EXPECT_TRUE(matched->sequence[0].epilogue.factor().has_value());
    }
  }
}

TEST(MatchProducts, RefusesTransposedRowsThatItCannotRead) {
  const auto refusal = [](const std::function<ValueId(ChainBuilder&)>& make) {
    ChainBuilder b;
    EXPECT_TRUE(b.Output(*b.Cast(make(b), DType::kBF16)).ok());
    return std::string(MatchProducts(*b.Finish()).status().message());
  };
  const auto in = [](ChainBuilder& b, Dim rows, Dim columns) {
    return *b.Input({DType::kBF16, {rows, columns}});
  };
  EXPECT_EQ(refusal([&](ChainBuilder& b) {
              return *b.Matmul(in(b, C(16), Dim::M()), in(b, C(16), C(8)), true);
            }),
            "rows are M and transposed, must be contiguous along k");
  EXPECT_EQ(refusal([&](ChainBuilder& b) {
              return *b.Matmul(in(b, C(16), Dim::M()), in(b, Dim::M(), C(8)));
            }),
            "k is M, of rows that are contiguous along it: kernels sum over M where both operands "
            "have it first, [M, rows] and [M, n]");
  EXPECT_EQ(refusal([&](ChainBuilder& b) {
              return *b.Matmul(in(b, Dim::M(), C(16)), in(b, C(8), Dim::M()), true, true);
            }),
            "a weight has dimension M");
  EXPECT_EQ(refusal([&](ChainBuilder& b) {
              const ValueId first = *b.Matmul(in(b, C(24), C(16)), in(b, C(16), C(8)));
              return *b.Matmul(*b.Cast(first, DType::kBF16), in(b, C(24), C(8)), true);
            }),
            "op 3 (cast) is transposed, so it must lie in memory");
}

TEST(MatchProducts, AGatedPairHasOneScalingForBoth) {
  FfnSpec spec;
  spec.gated = true;
  spec.n = spec.k = spec.l = 16;
  spec.act = Activation::kSilu;
  spec.factor1 = spec.factor2 = true;
  spec.scale1 = 0.5;
  const Chain chain = *MakeFfnChain(spec);
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
    ChainBuilder b;
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
    const ValueId r = *b.Input({DType::kF32, {Dim::M(), C(1)}});
    const auto half = [&](double scale) {
      const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, ""});
      return Mul(b, *b.Matmul(a, w, false, true), *b.Scalar(scale));
    };
    const ValueId gate = Mul(b, half(2), OverColumns(b, r));
    ValueId up = half(both ? 3 : 2);
    if (both) up = Mul(b, up, OverColumns(b, r));
    ASSERT_TRUE(b.Output(*b.Cast(Mul(b, *AddSilu(b, gate), up), DType::kBF16)).ok());
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(*b.Finish());
    ASSERT_TRUE(EndsInProgram(matched)) << matched.status();
    EXPECT_EQ(ToString(matched->sequence[0].epilogue.program),
              both ? "t1=mul(mul(y,s),2);mul(mul(t1,sigmoid(t1)),mul(mul(up,s),3))"
                   : "t1=mul(mul(y,s),2);mul(mul(t1,sigmoid(t1)),mul(up,2))");
  }
}

// relu of one product times the other, plus a matrix; the first weight's is `first_is_gate` or up.
Chain PairWithMatrix(bool first_is_gate, bool gate_is_left, Layout second = Layout::kOI) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  std::vector<ValueId> halves;
  for (const char* name : {"first", "second"}) {
    const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}}, {true, {}, name});
    halves.push_back(*b.Matmul(a, w, false, halves.empty() || second == Layout::kOI));
  }
  ValueId& gate = halves[first_is_gate ? 0 : 1];
  gate = *b.Unary(UnaryKind::kRelu, gate);
  const ValueId up = halves[first_is_gate ? 1 : 0];
  const ValueId y = gate_is_left ? Mul(b, gate, up) : Mul(b, up, gate);
  const ValueId r = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, {false, {}, "r"});
  EXPECT_TRUE(b.Output(*b.Cast(*b.Binary(BinaryKind::kAdd, r, y), DType::kBF16)).ok());
  return *b.Finish();
}

TEST(MatchProducts, TheGateOfAPairIsTheHalfThatIsActivatedWhereverItStands) {
  for (const bool first : {false, true}) {
    for (const bool left : {false, true}) {
      const Chain chain = PairWithMatrix(first, left);
      const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
      ASSERT_TRUE(matched.ok()) << matched.status();
      EXPECT_TRUE(matched->sequence[0].epilogue.form() ==
                  (EpilogueForm{Activation::kRelu, true, false, true}));
      const auto name = [&](int input) { return chain.InputName(chain.InputOrder()[input]); };
      EXPECT_EQ(name(matched->inputs[0].weights), first ? "first" : "second");
      EXPECT_EQ(name(matched->inputs[0].weights_up), first ? "second" : "first");
    }
  }
  EXPECT_NE(MatchProducts(PairWithMatrix(true, true, Layout::kIO))
                .status()
                .message()
                .find("has two products below it whose weights differ in layout"),
            absl::string_view::npos);
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

// Three products, with something done to the second one's result.
Chain Broken(const std::function<ValueId(ChainBuilder&, ValueId first, ValueId second)>& change,
             Layout third = Layout::kOI) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  std::vector<ValueId> w;
  for (int i = 0; i < 3; ++i) w.push_back(*b.Input({DType::kBF16, {C(16), C(16)}}));
  const ValueId first = *AddLinear(b, a, w[0], kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId second = *AddLinear(b, first, w[1], kNoValue, Layout::kOI);
  const ValueId e = *AddLinear(b, change(b, first, second), w[2], kNoValue, third);
  EXPECT_TRUE(b.Output(*b.Cast(e, DType::kBF16)).ok());
  return *b.Finish();
}

TEST(MatchProducts, RefusesWhatIsNoSequenceWithTheOp) {
  const auto same = [](ChainBuilder&, ValueId, ValueId second) { return second; };
  const struct {
    const char* what;
    Chain chain;
    const char* message;
  } cases[] = {
      {"a residual", Broken([](ChainBuilder& b, ValueId first, ValueId second) {
         return *b.Binary(BinaryKind::kAdd, first, second);
       }),
       "op 6 (add) has products of different rows below it"},
      {"a norm between products", Broken([](ChainBuilder& b, ValueId, ValueId second) {
         return *AddRmsNorm(b, second, 1e-6);
       }),
       "the norm of its rows is another kernel's"},
      {"mixed layouts", Broken(same, Layout::kIO), "w3 is io, w1 oi: all weights must be alike"},
  };
  for (const auto& c : cases) {
    const absl::Status status = MatchProducts(c.chain).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.what;
    EXPECT_NE(status.message().find(c.message), absl::string_view::npos) << c.what << status;
  }
}

// What lies in memory is an operand, whatever computes it there.
TEST(MatchProducts, ReadsAPartOfAGraphBetweenValuesInMemory) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::M(), C(32)}});
  const ValueId w = *b.Input({DType::kBF16, {C(16), C(32)}}, {true, {}, ""});
  const ValueId rows = *b.Unary(UnaryKind::kTanh, x);
  const ValueId y = *AddLinear(b, rows, w, kNoValue, Layout::kOI, Activation::kRelu);
  ASSERT_TRUE(b.Output(*b.Unary(UnaryKind::kExp, y)).ok());
  const Chain chain = *b.Finish();
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
  const absl::StatusOr<MatchedSequence> matched = MatchProducts(graph);
  ASSERT_TRUE(matched.ok()) << matched.status();
  EXPECT_EQ(matched->ValueOf(matched->rows), tanh);
  EXPECT_EQ(matched->ValueOf(matched->inputs[0].weights), chain.input(1));
  EXPECT_EQ(matched->inputs[0].weights_stride, 40);
  EXPECT_EQ(matched->output_stride, 20);
  EXPECT_EQ(matched->sequence[0].epilogue.activation(), Activation::kRelu);
  EXPECT_TRUE(matched->weights_constant);
}

TEST(MatchProducts, TakesAsManyProductsAsAPlanHasKernels) {
  ProductsSpec spec;
  spec.k = 8;
  spec.products.assign(kMaxProducts, {false, Activation::kIdentity, 8, false});
  EXPECT_EQ(MatchProducts(*MakeProductsChain(spec))->size(), kMaxProducts);
  spec.products.push_back(spec.products.back());
  EXPECT_EQ(MatchProducts(*MakeProductsChain(spec)).status().message(), "more than 64 products");
}

}  // namespace
}  // namespace sinter
