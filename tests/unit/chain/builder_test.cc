#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

// Types that the builder infers, and what it keeps of inputs and outputs.

TEST(Builder, InfersTheTypesOfTheFile) {
  for (const auto& [text, types] : RefusalsOf("tests/unit/chain/types.txt", "types")) {
    const Chain chain = ReadChain(text);
    std::vector<std::string> found;
    for (size_t i = 0; i < chain.outputs().size(); ++i) {
      found.push_back(ToString(chain.output_type(static_cast<int>(i))));
    }
    EXPECT_EQ(absl::StrJoin(found, " "), types) << text;
  }
}

TEST(Builder, ScalarsAreRoundedToTheirDType) {
  ChainBuilder b;
  EXPECT_EQ(b.OpOf(*b.Scalar(1e-5)).scalar, static_cast<double>(1e-5f));
  EXPECT_EQ(b.OpOf(*b.Scalar(1.0 / 3, DType::kBF16)).scalar, 0.333984375);
  EXPECT_EQ(b.OpOf(*b.Scalar(-7, DType::kS32)).scalar, -7);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(b.OpOf(*b.Scalar(-inf)).scalar, -inf);
}

TEST(TensorType, ContiguousStridesCarryPowersOfM) {
  EXPECT_EQ(ToString(absl::MakeConstSpan(ContiguousStrides({C(2), kM, C(4)}))), "[4*M,4,1]");
  EXPECT_EQ(ToString(absl::MakeConstSpan(ContiguousStrides({kM, kM, kM}))), "[M^2,M,1]");
}

TEST(TensorType, BytesSpanTheLastElement) {
  const TensorType type{DType::kBF16, {kM, C(8)}};
  EXPECT_EQ(*BufferBytes(type, ContiguousStrides(type.dims), 4), 64);
  EXPECT_EQ(*BufferBytes(type, {{16, 0}, {1, 0}}, 4), 2 * (3 * 16 + 7 + 1));
  EXPECT_EQ(*BufferBytes(type, {{0, 0}, {1, 0}}, 4), 16);
  EXPECT_EQ(*BufferBytes(type, ContiguousStrides(type.dims), 0), 0);
  EXPECT_EQ(ElementCount(type.dims, -1).status().message(), "m is -1, must be in [0, 2^31 - 1]");
  EXPECT_FALSE(ElementCount({kM, kM, kM}, kMaxExtent).ok());
  EXPECT_FALSE(BufferBytes(type, {{int64_t{1} << 40, 4}, {1, 0}}, kMaxExtent).ok());
}

TEST(Builder, ResolvesStridesSoThatEqualMeaningIsEqual) {
  const auto canonical = [](std::vector<Stride> in, std::vector<Stride> out) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF32, {kM, C(1), C(8)}}, {false, in, ""});
    EXPECT_TRUE(b.Output(x, {out, -1}).ok());
    return *b.Finish();
  };
  const Chain plain = canonical({}, {});
  EXPECT_EQ(plain, canonical({{8, 0}, {77, 0}, {1, 0}}, {{8, 0}, {3, 0}, {1, 0}}));
  EXPECT_FALSE(plain == canonical({{9, 0}, {8, 0}, {1, 0}}, {}));
  EXPECT_FALSE(plain == canonical({}, {{9, 0}, {8, 0}, {1, 0}}));
}

TEST(Builder, TakesTheLargestPowerOfMInAStride) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {kM, C(4)}}, {false, {{4, 5}, {1, 0}}, ""});
  EXPECT_TRUE(b.Output(x).ok());
  EXPECT_EQ(b.Finish()->op(x).strides[0], (Stride{4, 5}));
}

// Any number holds few rows: M may be larger.
TEST(Builder, ElementsOverlapUnlessAnAxisOutsideOfMHasAStrideOfM) {
  for (const Stride stride : {Stride{4, 0}, Stride{1 << 20, 0}, Stride{1, 1}}) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF32, {C(8), kM}});
    const absl::Status given = b.Output(x, {{stride, {1, 0}}, -1});
    EXPECT_EQ(given.ok(), stride.m_power == 1) << given;
  }
}

TEST(Builder, ScansOfFloatsAreF32) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kS32}) {
    ChainBuilder b;
    const ValueId sums = *b.Scan(ReduceKind::kSum, *b.Input({dtype, {kM, C(8)}}));
    EXPECT_EQ(b.TypeOf(sums).dtype, IsFloat(dtype) ? DType::kF32 : dtype) << NameOf(dtype);
  }
}

// Just beyond the middle of two neighbours, by less than f32 holds.
TEST(Builder, ScalarsAreRoundedOnce) {
  const double little = 0x1p-40;
  const auto rounded = [](double value, DType dtype) {
    ChainBuilder b;
    return b.OpOf(*b.Scalar(value, dtype)).scalar;
  };
  for (const auto& [dtype, step] : std::vector<std::pair<DType, double>>{
           {DType::kBF16, 0x1p-7}, {DType::kF16, 0x1p-10}, {DType::kE4M3, 0x1p-3}}) {
    const double middle = 1 + step / 2, next = middle + step;
    EXPECT_EQ(rounded(middle, dtype), 1) << NameOf(dtype);
    EXPECT_EQ(rounded(middle + little, dtype), 1 + step) << NameOf(dtype);
    EXPECT_EQ(rounded(-middle - little, dtype), -1 - step) << NameOf(dtype);
    EXPECT_EQ(rounded(next, dtype), 1 + 2 * step) << NameOf(dtype);
    EXPECT_EQ(rounded(next - little, dtype), 1 + step) << NameOf(dtype);
    EXPECT_EQ(rounded(step * little, dtype), dtype == DType::kBF16 ? step * little : 0);
  }
  EXPECT_EQ(rounded(1 + 0x1p-24 + little, DType::kF32), 1 + 0x1p-23);
  EXPECT_EQ(rounded(1 + 0x1p-24 - little, DType::kF32), 1);
}

TEST(Builder, HugeStridesOfOutputsAreComparedWithoutOverflow) {
  const Stride most{int64_t{1} << 40, 0};
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {C(2), C(1 << 30)}});
  EXPECT_TRUE(b.Output(*b.Reshape(x, {C(1 << 30), C(2)}), {{{1, 0}, most}, -1}).ok());
  EXPECT_FALSE(b.Output(x, {{most, most}, -1}).ok());
}

TEST(Builder, AnOutputAliasesOnlyADeclaredInputOnce) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {kM}}), y = *b.Input({DType::kF32, {kM}});
  const ValueId sum = *b.Binary(BinaryKind::kAdd, x, y);
  ASSERT_TRUE(b.Output(sum, {{}, y}).ok());
  EXPECT_EQ(b.Output(sum, {{}, y}).message(), "output 1: alias is value 1, taken already");
  const Chain chain = Finished(b, {sum});
  EXPECT_EQ(chain.outputs()[0].alias_input, 1);
  EXPECT_EQ(chain.outputs()[1].alias_input, -1);
  EXPECT_EQ(b.size(), 0);
}

// Composites expand to the primitives that their definitions name.

TEST(Composites, AnIdentityAddsNothing) {
  ChainReader r("x: bf16[M,12]");
  EXPECT_EQ(*AddActivation(r.builder(), Activation::kIdentity, r["x"]), r["x"]);
}

TEST(Composites, FfnsRoundOnlyTheirResult) {
  FfnSpec spec;
  spec.n = 4, spec.k = 8, spec.l = 2;
  spec.act = Activation::kSilu;
  for (bool gated : {false, true}) {
    for (int products : {1, 2}) {
      spec.gated = gated;
      spec.products = products;
      const Chain chain = *MakeFfnChain(spec);
      int casts = 0;
      for (const Op& op : chain.ops()) casts += op.kind == OpKind::kCast;
      EXPECT_EQ(casts, 1);
      EXPECT_EQ(chain.op(chain.outputs()[0].value).kind, OpKind::kCast);
      EXPECT_EQ(ToString(chain.output_type(0)), products == 2 ? "bf16[M,2]" : "bf16[M,4]");
      EXPECT_EQ(chain.num_inputs(), 1 + products + (gated ? 1 : 0));
      for (int i = 1; i < chain.num_inputs(); ++i) EXPECT_TRUE(chain.input_op(i).constant);
      EXPECT_FALSE(chain.input_op(0).constant);
    }
  }
}

TEST(Composites, LayoutDecidesHowWeightsLie) {
  FfnSpec spec;
  spec.n = 4, spec.k = 8, spec.l = 2;
  const Chain oi = *MakeFfnChain(spec);
  EXPECT_EQ(ToString(oi.input_op(1).type), "bf16[4,8]");
  EXPECT_EQ(ToString(oi.input_op(2).type), "bf16[2,4]");
  spec.layout = Layout::kIO;
  const Chain io = *MakeFfnChain(spec);
  EXPECT_EQ(ToString(io.input_op(1).type), "bf16[8,4]");
  EXPECT_EQ(ToString(io.input_op(2).type), "bf16[4,2]");
}

}  // namespace
}  // namespace sinter
