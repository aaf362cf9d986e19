// conv2d: shapes, the canonical form, and the ways to write it.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// An expression of an image x and a filter w of `dims`.
Chain ChainOf(absl::string_view dims, absl::string_view y) {
  return ReadChain("x: bf16[M,8,6,24]; w: const bf16[$0]; out bf16($1)", dims, y);
}

TEST(Conv2d, OfOneTapIsAProductOverTheChannels) {
  const struct {
    const char *dims, *conv, *product;
  } cases[] = {
      {"40,1,1,24", "conv(x, w, dilations=[7,3])", "x @ reshape(w, [40,24]).T"},
      {"1,1,24,40", "conv(x, w, dilations=[7,3], layout=hwio)", "x @ reshape(w, [24,40])"}};
  for (const auto& c : cases) {
    const Chain conv = ChainOf(c.dims, c.conv), product = ChainOf(c.dims, c.product);
    EXPECT_EQ(conv.CanonicalBytes(), product.CanonicalBytes()) << conv.ToString();
    EXPECT_EQ(conv.MatmulFlops(3), 2.0 * 3 * 8 * 6 * 24 * 40);
  }
}

TEST(Conv2d, OfOneTapWithAStrideOrPadStaysOne) {
  for (const char* conv : {"conv(x, w, strides=[2,1])", "conv(x, w, pads=[0,0,0,1])"}) {
    EXPECT_EQ(ChainOf("40,1,1,24", conv).op(2).kind, OpKind::kConv2d);
  }
}

Chain ThreeByThree(absl::string_view attributes = "") {
  return ChainOf("40,3,3,24", absl::StrCat("conv(x, w", attributes, ")"));
}

TEST(Conv2d, OfGroupsReadsBack) {
  const auto of = [&](int groups) {
    return ChainOf(
        absl::StrCat("40,3,1,", 24 / groups),
        absl::Substitute("conv2d(x, w, groups=$0, strides=[2,1], pads=[1,1,0,2])", groups));
  };
  const Chain chain = of(4);
  EXPECT_EQ(ToString(chain.op(2).type), "f32[M,4,8,40]");
  EXPECT_EQ(chain.op(2).conv.groups, 4);
  EXPECT_EQ(chain.MatmulFlops(2), 2.0 * 2 * 4 * 8 * 40 * 3 * 6);
  EXPECT_EQ(ChainFromCanonicalBytes(chain.CanonicalBytes()).value(), chain);
  EXPECT_EQ(ChainFromJson(ChainToJson(chain)).value(), chain);
  EXPECT_THAT(ChainToJson(of(1)), Not(HasSubstr("groups")));
  // The same holds for a single tap: each part of the result is a separate GEMM.
  EXPECT_EQ(ChainOf("40,1,1,12", "conv2d(x, w, groups=2)").op(2).kind, OpKind::kConv2d);
  // As many as x has channels, of which each gives several of the result.
  EXPECT_EQ(ChainOf("48,3,3,1", "conv2d(x, w, groups=24)").op(2).conv.groups, 24);
}

TEST(Conv2d, KeysDifferByEveryAttribute) {
  const Chain plain = ThreeByThree();
  for (const char* spec : {", strides=[1,2]", ", dilations=[2,1]", ", pads=[0,0,1,0]"}) {
    EXPECT_NE(ThreeByThree(spec).CanonicalBytes(), plain.CanonicalBytes());
  }
  EXPECT_EQ(ThreeByThree().CanonicalBytes(), plain.CanonicalBytes());
  EXPECT_EQ(plain.MatmulFlops(2), 2.0 * 2 * 6 * 4 * 40 * 9 * 24);
}

TEST(Conv2d, CanonicalBytesAndJsonReadBack) {
  const Conv2d spec{FilterLayout::kOHWI, {2, 1}, {1, 2}, {1, 0, 3, 2}};
  const Chain chain = ThreeByThree(", strides=[2,1], dilations=[1,2], pads=[1,0,3,2]");
  EXPECT_EQ(Got(ChainFromCanonicalBytes(chain.CanonicalBytes())).op(2).conv, spec);
  EXPECT_EQ(Got(ChainFromJson(ChainToJson(chain))), chain);
}

TEST(Conv2d, CanonicalBytesOfAnUnknownFilterAreRefused) {
  std::string bytes = ThreeByThree().CanonicalBytes();
  const std::string attributes("\x01\x01\0\0\0\0\0\0\0", 9);  // OHWI, and a stride of 1
  const size_t at = bytes.rfind(attributes);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 7;
  EXPECT_EQ(ChainFromCanonicalBytes(bytes).status().message(),
            "op 2 (conv2d): filter is 7, must be OHWI or HWIO");
}

TEST(Conv2d, JsonNamesAOneTapConvolutionAndTheOpsBehindIt) {
  const char text[] =
      R"({"schema":1,"inputs":[{"id":0,"dtype":"bf16","dims":["M",4,4,8]},)"
      R"({"id":1,"dtype":"bf16","dims":[16,1,1,8]}],"ops":[{"id":2,"op":"conv2d","in":[0,1]},)"
      R"({"id":3,"op":"unary","in":[2],"kind":"relu"}],"outputs":[{"value":3}]})";
  EXPECT_EQ(Got(ChainFromJson(text)).op(3).kind, OpKind::kMatmul);
}

TEST(Conv2d, AFinishThatFailsLeavesTheBuilderAsItWas) {
  ChainReader r("x: bf16[M,4,4,8]; w: bf16[8,1,1,8]; spare = relu(x)");
  ChainBuilder& b = r.builder();
  const ValueId y = *b.Convolve(r["x"], r["w"]), spare = r["spare"];
  ASSERT_TRUE(b.Output(y).ok());
  EXPECT_FALSE(b.Finish().ok());
  EXPECT_EQ(b.OpOf(y).kind, OpKind::kConv2d);
  EXPECT_EQ(b.size(), 4);
  ASSERT_TRUE(b.Output(spare).ok());
  EXPECT_TRUE(b.Finish().ok());
}

TEST(Conv2d, SamePadsKeepTheExtent) {
  for (const int64_t taps : {1, 2, 3, 4, 5, 7}) {
    for (const int64_t dilation : {1, 2, 3}) {
      const auto [low, high] = SamePads(taps, dilation);
      Conv2d conv{.dilations = {dilation, 1}, .pads = {low, high, 0, 0}};
      EXPECT_EQ(conv.ResultPixels(0, 9, taps), 9) << taps << " " << dilation;
      EXPECT_LE(high - low, 1);
      EXPECT_GE(high, low);
    }
  }
}

TEST(ConvText, WritesTheCanonicalLine) {
  const auto problem = Got(ParseProblem(
      "C conv_chain b=8 ic=64 h=56 w=56 oc1=64 oc2=256 k1=3,3 k2=1 act=relu stride=2,2 "
      "pad=1,1,1,1"));
  EXPECT_EQ(problem.m, 8);
  EXPECT_EQ(WriteProblem(problem),
            "C conv_chain b=8 ic=64 h=56 w=56 oc1=64 oc2=256 k1=3 k2=1 act=relu stride=2 pad=1 "
            "dilation=1 weights=OHWI format=NHWC groups=1 dtype=bf16 bias1=0 bias2=0");
  EXPECT_EQ(Got(ParseProblem(WriteProblem(problem))).chain, problem.chain);
  EXPECT_EQ(ToString(problem.chain.output_type(0)), "bf16[M,28,28,256]");
}

TEST(ConvText, HasGroups) {
  const auto problem = Got(ParseProblem("conv b=M ic=32 h=5 w=4 oc=48 k=3 groups=4 bias=1"));
  EXPECT_EQ(problem.chain.op(problem.chain.CallerOrder()[1]).type.dims.back(), C(8));
  EXPECT_EQ(ParseProblem(WriteProblem(problem))->chain, problem.chain);
  EXPECT_EQ(ParseProblem("conv b=M ic=32 h=5 w=4 oc=48 k=3 groups=5").status().message(),
            "conv: op 2 (conv2d): groups is 5, must divide the channels of x, 32");
}

TEST(ConvText, HasScaleBiasAndResidualOnEitherSideOfTheActivation) {
  const std::string line = "conv b=M ic=16 h=5 w=4 oc=8 k=3,1 act=relu scale=1 bias=1 residual=";
  const auto before = ParseProblem(line + "before"), behind = ParseProblem(line + "behind");
  ASSERT_TRUE(before.ok() && behind.ok());
  for (const auto* problem : {&*before, &*behind}) {
    const Chain& chain = problem->chain;
    ASSERT_EQ(chain.num_inputs(), 5);
    const std::vector<int32_t> order = chain.CallerOrder();
    const char* names[] = {"x", "w1", "s1", "bias1", "r"};
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(chain.InputName(i), names[i]);
      EXPECT_EQ(chain.input_op(order[static_cast<size_t>(i)]).constant, i >= 1 && i <= 3);
    }
  }
  const auto last = [](const Chain& chain) {
    return chain.op(chain.op(chain.outputs()[0].value).operands[0]);
  };
  EXPECT_EQ(last(before->chain).kind, OpKind::kUnary);
  EXPECT_EQ(last(behind->chain).kind, OpKind::kBinary);
}

}  // namespace
}  // namespace sinter
