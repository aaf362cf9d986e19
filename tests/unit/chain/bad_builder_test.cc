// Bad calls of the builder and the composites: every case with its exact message.
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

constexpr char kValues[] =
    "x: f32[M,8]; w: bf16[4,8]; t: s32[M,8]; p: pred[M,8]; v: const f32[8]; b: f32[2,3,4]; s = "
    "1:f32";

// With values more than kValues.
std::string With(const char* more) { return absl::StrCat(kValues, "; ", more); }

// Calls that no text writes.
struct BadCall {
  absl::Status (*call)(ChainBuilder&);
  const char* message;
};

const BadCall kBadCalls[] = {
    {[](ChainBuilder& b) {
       return b.Input({static_cast<DType>(9), {C(2)}}).status();
     },
     "op 7 (input): dtype is 9, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) { return b.Scalar(1, static_cast<DType>(0)).status(); },
     "op 7 (scalar): dtype is 0, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) { return b.Unary(static_cast<UnaryKind>(0), 0).status(); },
     "op 7 (unary): kind is 0, which does not exist"},
    {[](ChainBuilder& b) { return b.Binary(static_cast<BinaryKind>(77), 0, 0).status(); },
     "op 7 (binary): kind is 77, which does not exist"},
    {[](ChainBuilder& b) { return b.Compare(static_cast<CompareKind>(-1), 0, 0).status(); },
     "op 7 (compare): kind is -1, which does not exist"},
    {[](ChainBuilder& b) { return b.Cast(0, static_cast<DType>(99)).status(); },
     "op 7 (cast): dtype is 99, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) { return b.Reduce(static_cast<ReduceKind>(5), 0, {1}).status(); },
     "op 7 (reduce): kind is 5, which does not exist"},
    {[](ChainBuilder& b) { return b.Scan(static_cast<ReduceKind>(9), 0).status(); },
     "op 7 (scan): kind is 9, which does not exist"},
    {[](ChainBuilder& b) { return AddActivation(b, static_cast<Activation>(8), 0).status(); },
     "op 7 (activation): act is 8, which does not exist"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 1, kNoValue, static_cast<Layout>(0)).status(); },
     "op 7 (linear): layout is 0, must be oi or io"},
    {[](ChainBuilder& b) { return b.TopK(0, -(int64_t{1} << 62)).status(); },
     "op 7 (top_k): count is -4611686018427387904, must be in [1, 8]: a row has no more elements"},
};

TEST(Builder, RefusesBadCallsWithTheirMessageAndStaysAsItWas) {
  ExpectRefusedCalls("calls", kValues);
  for (const BadCall& bad : kBadCalls) {
    ChainReader r(kValues);
    EXPECT_EQ(bad.call(r.builder()).message(), bad.message);
    EXPECT_EQ(r.builder().size(), 7) << bad.message;
  }
}

TEST(Builder, RefusesBadGathersAndScattersAndOtherUsesOfTheirIds) {
  ExpectRefusedCalls("gathers and scatters",
                     With("wide_ids: s64[M]; ids: s32[M]; ids_of_one = reshape(wide_ids, [M,1])"));
}

TEST(Builder, RefusesBadStepsOfRowsAndRandomNumbers) {
  ExpectRefusedCalls(
      "steps of rows",
      With("seed: s64[]; yes = lt(x, x); turned = transpose(x, 1, 0); wide_ids: s64[M]; "
           "grid: s32[M,3]"));
}

TEST(Builder, RefusesBadDrawsOfTokens) {
  ExpectRefusedCalls("draws of tokens",
                     "logits: bf16[M,64]; few: f32[M,7]; seed: s64[]; heat: f32[M]; k: s32[M]");
}

TEST(Builder, RefusesBadWindowsAndWhatIsMadeOfThem) {
  ExpectRefusedCalls("windows", With("pixels: f32[M,5,4,8]; fill = 0:f32; filter: f32[8,3,3,1]"));
}

TEST(Builder, RefusesArithmeticOnE4M3) {
  ExpectRefusedCalls("e4m3", With("q: e4m3[M,8]"));
  ChainReader(With("q: e4m3[M,8]; select(p, q, q); concat(q, q, 1)"));
}

TEST(Builder, RefusesAnOperandBeforeTheFirstValue) {
  ChainBuilder b;
  EXPECT_EQ(b.Unary(UnaryKind::kExp, 0).status().message(),
            "op 0 (exp): a is value 0, none exists yet");
}

TEST(Builder, NamesTheOperandOfAGatedFfnThatDoesNotFit) {
  constexpr char kOperands[] =
      "a: bf16[M,8]; w_gate, w_up: bf16[4,8]; w_down: bf16[8,4]; four: bf16[4]; eight: bf16[8];"
      "other: s32[4]; five: bf16[5,8]";
  ExpectRefusedCalls("gated ffn", kOperands);
  ChainReader(kOperands).Add("gated_ffn(a, w_gate, w_up, none, none, w_down, none, silu)");
}

TEST(Builder, NamesTheOperandOfACellThatDoesNotFit) {
  constexpr char kOperands[] = "gates: f32[M,12]; wide: bf16[M,6]; state: bf16[M,4]";
  ExpectRefusedCalls("cells", kOperands);
  ChainReader(kOperands).Add("gru_cell(gates, gates, state)");
}

TEST(Builder, FinishRefusesNoOutputAndDeadValues) {
  ChainBuilder b;
  EXPECT_EQ(b.Finish().status().message(), "the chain has no output");
  ChainReader r(kValues);
  r.Out(r["x"]);
  EXPECT_EQ(r.builder().Finish().status().message(), "op 1 (input): no output needs its value");
  ChainBuilder dead;
  const ValueId x = *dead.Input({DType::kF32, {kM}});
  ASSERT_TRUE(dead.Unary(UnaryKind::kExp, x).ok());
  ASSERT_TRUE(dead.Output(x).ok());
  EXPECT_EQ(dead.Finish().status().message(), "op 1 (exp): no output needs its value");
}

// Launch recipes number no more.
TEST(ChainBuilder, RefusesMoreBuffersThanLaunchesTake) {
  ChainBuilder b;
  for (int i = 0; i < 4095; ++i) ASSERT_TRUE(b.Input({DType::kF32, {C(8)}}).ok());
  ASSERT_TRUE(b.Output(0).ok());
  const std::string why =
      "a chain has at most 4096 inputs and outputs: give slices of one input, or several chains";
  EXPECT_EQ(b.Input({DType::kF32, {C(8)}}).status().message(), "op 4095 (input): " + why);
  EXPECT_EQ(b.Output(0).message(), "output 1: " + why);
}

TEST(MakeFfnChain, RefusesBadSpecs) {
  FfnSpec spec{.products = 3, .n = 8, .k = 8, .l = 8};
  EXPECT_EQ(MakeFfnChain(spec).status().message(), "products is 3, must be 1 or 2");
  spec.products = 1;
  spec.bias2 = true;
  EXPECT_EQ(MakeFfnChain(spec).status().message(), "bias2 is set, but there is one product");
  spec.bias2 = false;
  spec.n = 0;
  EXPECT_EQ(MakeFfnChain(spec).status().message(),
            "op 1 (input): dimension 0 is 0, must be in [1, 2^31 - 1] or M");
}

}  // namespace
}  // namespace sinter
