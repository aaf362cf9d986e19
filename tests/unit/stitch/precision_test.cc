#include "src/stitch/precision.h"

#include "tests/support/refusals.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// The last value of `text` about x, f32[4,8], cast to `dtype`.
Chain Cast(DType dtype, const std::string& text) {
  ChainReader r("x: f32[4,8]; " + text);
  r.Add(dtype == DType::kF32 ? "out _" : absl::StrCat("out ", NameOf(dtype), "(_)"));
  return r.Finish();
}
// The precision of each op, in order, without inputs and scalars that are exact.
std::string Told(const Chain& chain) {
  constexpr const char* kNames[] = {"fast", "beside one", "taken", "exact"};
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  std::vector<std::string> told;
  for (size_t id = 0; id < precisions.size(); ++id) {
    const Op& op = chain.ops()[id];
    const bool computes = op.kind != OpKind::kInput && op.kind != OpKind::kScalar;
    if (!computes && precisions[id] == Precision::kExact) continue;
    told.push_back(absl::StrCat(NameOf(op), " ", kNames[static_cast<size_t>(precisions[id])]));
  }
  return absl::StrJoin(told, ", ");
}

TEST(Precision, IsWhatTheFileSays) {
  for (const auto& [text, told] : RefusalsOf("tests/unit/stitch/precisions.txt", "precisions")) {
    EXPECT_EQ(Told(ReadChain(text)), told) << text;
  }
}

// What f32 results are made of is exact, unless codes are all that is made of them.
TEST(Precision, OfF32ResultsForCodesIsThatOfF16) {
  const Chain f32 = Cast(DType::kF32, "s = sigmoid(x); tanh(s) * s");
  const auto of = [](const std::vector<Precision>& precisions, const Chain& chain, UnaryKind kind) {
    for (size_t id = 0; id < precisions.size(); ++id) {
      if (IsUnary(chain.op(static_cast<ValueId>(id)), kind)) return precisions[id];
    }
    return Precision::kTaken;
  };
  for (const bool for_codes : {false, true}) {
    const std::vector<Precision> found = PrecisionsOf(f32, for_codes);
    EXPECT_EQ(of(found, f32, UnaryKind::kTanh), Precision::kExact);
    EXPECT_EQ(of(found, f32, UnaryKind::kSigmoid), Precision::kExact) << "tanh reads it";
    const Chain alone = Cast(DType::kF32, "sigmoid(x)");
    EXPECT_EQ(of(PrecisionsOf(alone, for_codes), alone, UnaryKind::kSigmoid),
              for_codes ? Precision::kFast : Precision::kExact);
  }
}

TEST(Precision, LogarithmsOfOnePlusAreKnown) {
  const Chain chain = ReadChain("x: f32[4,8]; out log(1 + x), log(1 - x), log(2 + x), log(x)");
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  const auto found = [&](size_t i) {
    return CompoundAt(chain, precisions, chain.outputs()[i].value);
  };
  for (const size_t i : {size_t{0}, size_t{1}}) {
    ASSERT_EQ(found(i).function, Compound::kLog1p) << i;
    const auto [inner, operand] = found(i).path.back();
    const Op& sum = chain.op(inner);
    EXPECT_EQ(sum.binary, i == 0 ? BinaryKind::kAdd : BinaryKind::kSub);
    EXPECT_EQ(chain.op(sum.operands[operand]).kind, OpKind::kInput);
    EXPECT_EQ(found(i).minus, i == 1);
    EXPECT_FALSE(found(i).negative);
  }
  EXPECT_EQ(found(2).function, Compound::kNone);
  EXPECT_EQ(found(3).function, Compound::kNone);
}

// Every way to write a sum of 1 or -1 and tanh(x) or its square.
TEST(Precision, TanhBesideOneIsOneFunctionWithTheSum) {
  for (const double one : {1.0, -1.0, 2.0}) {
    for (const bool square : {false, true}) {
      for (const bool first : {false, true}) {
        for (const BinaryKind kind : {BinaryKind::kAdd, BinaryKind::kSub}) {
          ValueId sum = -1;
          const std::string y = square ? "square(tanh(x))" : "tanh(x)", number = absl::StrCat(one);
          const char* sign = kind == BinaryKind::kAdd ? " + " : " - ";
          const Chain chain = Cast(
              DType::kBF16, first ? number + sign + y : absl::StrCat(y, sign, "(", number, ")"));
          for (size_t id = 0; id < chain.ops().size(); ++id) {
            if (chain.ops()[id].kind == OpKind::kBinary) sum = static_cast<ValueId>(id);
          }
          const Compound compound = CompoundAt(chain, PrecisionsOf(chain), sum);
          const double sign_of_one = kind == BinaryKind::kSub && !first ? -one : one;
          const double sign_of_tanh = kind == BinaryKind::kSub && first ? -1 : 1;
          const bool opposite = sign_of_one * sign_of_tanh < 0;
          if (one == 2 || (square && !opposite)) {
            EXPECT_EQ(compound.function, Compound::kNone);
            continue;
          }
          ASSERT_EQ(compound.function,
                    square ? Compound::kOneMinusTanhSquare : Compound::kOnePlusTanh);
          // At tanh(x) = 0.5: what the compound says is what the sum is.
          const double t = compound.minus ? -0.5 : 0.5;
          const double value = (square ? 1 - t * t : 1 + t) * (compound.negative ? -1 : 1);
          EXPECT_EQ(value, sign_of_one + sign_of_tanh * (square ? 0.25 : 0.5));
          EXPECT_EQ(chain.op(compound.path.back().first).unary, UnaryKind::kTanh);
          EXPECT_EQ(compound.path.size(), square ? 3u : 2u);
        }
      }
    }
  }
}

// How many subtractions must not be fused.
int AloneOf(const Chain& chain) {
  const std::vector<bool> alone = SubtractsAlone(chain, false);
  return static_cast<int>(std::count(alone.begin(), alone.end(), true));
}

// exp(z - max z) of z, `text` about x, f32[4,8], before it is divided by its sum.
Chain PowersAboutLargest(const char* text) {
  return ReadChain("x: f32[4,8]; z = $0; out exp(z - spread(reduce_max(z, 1, keep), z))", text);
}

TEST(Precision, SubtractionsOfProductsBelowExponentialsAreNotFused) {
  EXPECT_EQ(AloneOf(PowersAboutLargest("x")), 0);
  EXPECT_EQ(AloneOf(PowersAboutLargest("x * 1e14")), 1);
  EXPECT_EQ(AloneOf(PowersAboutLargest("square(x)")), 1);
  EXPECT_EQ(AloneOf(PowersAboutLargest("x + 3")), 0);
  // No exponential is taken: a layer norm may be fused.
  EXPECT_EQ(AloneOf(Cast(DType::kF32, "y = x * 2; y - spread(mean(y, 1, keep), y)")), 0);
}

TEST(Precision, SharesOfAMeanOverflowNothing) {
  for (const int64_t count :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{1000}, int64_t{4096}, int64_t{1} << 40}) {
    const double share = MeanShare(count);
    EXPECT_LE(share * static_cast<double>(count), 1) << count;
    EXPECT_GT(share * static_cast<double>(count), 0.5) << count;
    EXPECT_EQ(std::exp2(std::round(std::log2(share))), share) << count;
  }
}

}  // namespace
}  // namespace sinter
