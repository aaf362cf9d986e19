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

// A matched chain in one line: the sequence, then what ToString() leaves out.
std::string InFull(const Chain& chain, MatchedSequence matched) {
  matched.SetBucket(64);
  const ProductSequence& s = matched.sequence;
  std::string text = s.ToString();
  const auto name = [&](int input) {
    return input < 0 ? "" : chain.InputName(chain.InputOrder()[static_cast<size_t>(input)]);
  };
  for (int i = 0; i < matched.size(); ++i) {
    const MatrixProduct& p = s[i];
    const ProductInputs& in = matched.InputsOf(i);
    const std::pair<const char*, std::string> facts[] = {
        {" weights=", name(in.weights)},
        {" up=", name(in.weights_up)},
        {" scales=", p.weights.scales == Scales() ? "" : ToString(p.weights.scales)},
        {" of=", name(in.scale_weights)},
        {" residual=", name(matched.NumberOf(i, Role::kResidual))},
        {" apart=", in.residual_stride == 0 ? "" : absl::StrCat(in.residual_stride)},
        {" rounded=", in.rounds ? "1" : ""}};
    absl::StrAppend(&text, "; ", i + 1, ":");
    for (const auto& [what, value] : facts) {
      if (!value.empty()) absl::StrAppend(&text, what, value);
    }
  }
  absl::StrAppend(&text, "; rows=", name(matched.rows), " ", matched.rows_stride, " apart",
                  matched.contiguous ? "" : ", not contiguous",
                  matched.weights_constant ? ", constant" : "",
                  s.size() == 2 && CanPair(s, 0) ? ", one kernel" : "");
  const absl::Status status = CheckSequence(s);
  if (!status.ok()) absl::StrAppend(&text, ", but ", status.message());
  return text;
}

TEST(MatchProducts, ReadsChainsAsTheFileSays) {
  for (const auto& [text, message] : RefusalsOf(kRefused, "matched")) {
    const Chain chain = ReadChain(text);
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain);
    EXPECT_EQ(matched.ok() ? InFull(chain, *matched) : std::string(matched.status().message()),
              message)
        << text;
    if (!matched.ok()) {
      EXPECT_EQ(matched.status().code(), absl::StatusCode::kInvalidArgument) << text;
    }
  }
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
