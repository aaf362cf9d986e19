#include "src/stitch/precision.h"

#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// The precision of the first op of that kind.
Precision Of(const Chain& chain, UnaryKind kind) {
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  for (size_t id = 0; id < precisions.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kUnary && op.unary == kind) return precisions[id];
  }
  ADD_FAILURE() << "no such op";
  return Precision::kFast;
}
bool IsExact(const Chain& chain, UnaryKind kind) { return Of(chain, kind) == Precision::kExact; }

Precision OfQuotient(const Chain& chain) {
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  for (size_t id = 0; id < precisions.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kBinary && op.binary == BinaryKind::kDiv) return precisions[id];
  }
  ADD_FAILURE() << "no division";
  return Precision::kFast;
}

// The last value of `text` about x, f32[4,8], cast to `dtype`.
Chain Cast(DType dtype, const std::string& text) {
  ChainReader r("x: f32[4,8]; " + text);
  r.Add(dtype == DType::kF32 ? "out _" : absl::StrCat("out ", NameOf(dtype), "(_)"));
  return r.Finish();
}
std::string Of(UnaryKind kind, absl::string_view x) {
  return absl::StrCat(NameOf(kind), "(", x, ")");
}

// Exponentials of [4, 8] about what `reduce` makes of axis `about`, summed over the last; and, if
// `given`, an output themselves.
Chain SummedExponentials(const char* reduce, int32_t about, bool given) {
  return ReadChain("x: f32[4,8]; e = exp(x - spread($0(x, $1, keep), x)); out sum(e, 1) $2", reduce,
                   about, given ? ", e" : "");
}

TEST(Precision, ExponentialsAboutTheLargestNeedNotBeExactForTheirSum) {
  EXPECT_FALSE(IsExact(SummedExponentials("reduce_max", 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials("reduce_max", 1, true), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials("mean", 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials("reduce_max", 0, false), UnaryKind::kExp))
      << "the largest of others: all terms may be small";
}

TEST(Precision, WhatTheyAreMadeOfIsExactAllTheSame) {
  const Chain chain = SummedExponentials("reduce_max", 1, false);
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  for (size_t id = 0; id < precisions.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    EXPECT_EQ(precisions[id] == Precision::kExact, op.kind != OpKind::kUnary) << id;
  }
}

TEST(Precision, StoredTypesTakeWhatIsFinerThanThey) {
  for (const UnaryKind kind : {UnaryKind::kExp, UnaryKind::kSigmoid, UnaryKind::kReciprocal,
                               UnaryKind::kTanh, UnaryKind::kErf, UnaryKind::kLog}) {
    const auto precision = [&](DType dtype) { return Of(Cast(dtype, Of(kind, "x")), kind); };
    const bool always =
        kind == UnaryKind::kErf || kind == UnaryKind::kLog;  // here: of an f32 input
    EXPECT_EQ(precision(DType::kF32), Precision::kExact);
    EXPECT_EQ(precision(DType::kBF16), always ? Precision::kExact : Precision::kFast);
    EXPECT_EQ(precision(DType::kF16),
              always || kind == UnaryKind::kTanh ? Precision::kExact : Precision::kFast);
  }
}

TEST(Precision, LogarithmsOfNarrowValuesAreFastForNarrowResults) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Chain chain = ReadChain("x: $0[4,8]; out $0(log(x))", NameOf(dtype));
    EXPECT_EQ(IsExact(chain, UnaryKind::kLog), dtype == DType::kF16);
  }
}

// What feeds a step: on which side of it a value falls shows any error.
TEST(Precision, WhatFeedsAStepIsExact) {
  for (const char* step : {"s32(q)", "s8(q)", "pred(q)", "bf16(floor(q))", "bf16(ceil_pow2(q))",
                           "ge(q, 1)", "eq(q, 1)", "bf16(floor(square(min(q, 4))))"}) {
    EXPECT_EQ(OfQuotient(ReadChain("x, y: f32[4,8]; q = x / y; out $0", step)), Precision::kExact)
        << step;
  }
  EXPECT_EQ(OfQuotient(ReadChain("x, y: f32[4,8]; out bf16(x / y)")), Precision::kFast);
}

TEST(Precision, WhatMayCancelIsExact) {
  for (const UnaryKind kind :
       {UnaryKind::kExp, UnaryKind::kSigmoid, UnaryKind::kTanh, UnaryKind::kReciprocal}) {
    for (const char* sum : {"+", "-"}) {
      const Chain chain =
          Cast(DType::kBF16, absl::StrCat("y: f32[4,8]; x * ", Of(kind, "x"), " ", sum, " y"));
      EXPECT_TRUE(IsExact(chain, kind));
    }
  }
}

TEST(Precision, SumsOfWhatIsNotNegativeCancelNothing) {
  const Chain chain = Cast(DType::kBF16, "reciprocal(1 + exp(x))");
  EXPECT_FALSE(IsExact(chain, UnaryKind::kExp));
  EXPECT_FALSE(IsExact(chain, UnaryKind::kReciprocal));
  EXPECT_TRUE(IsExact(Cast(DType::kBF16, "-1 + exp(x)"), UnaryKind::kExp));
}

// s32 wraps: a sum of numbers that are not negative may be negative, and cancel what is added to
// it.
TEST(Precision, SumsOfS32MayBeNegative) {
  const auto exponentials_beside = [](const char* sum) {
    return IsExact(
        ReadChain("x: f32[4,8]; n: s32[4,8]; out bf16(exp(x) + spread(f32($0), x))", sum),
        UnaryKind::kExp);
  };
  for (const char* sum : {"abs(n)", "square(n)", "n * n", "relu(n) + relu(n)",
                          "sum(relu(n), 1, keep)", "cumsum(relu(n))"}) {
    EXPECT_TRUE(exponentials_beside(sum)) << sum;
  }
  EXPECT_FALSE(exponentials_beside("relu(n)"));
  EXPECT_FALSE(exponentials_beside("reduce_max(relu(n), 1, keep)"));
}

// The gradient of a cross entropy: exp(x) - [the label's place].
TEST(Precision, ExponentialsBesidePredicatesCancelNearOneAlone) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Chain chain = Cast(dtype, "y, z: f32[4,8]; exp(x) - f32(eq(y, z))");
    EXPECT_EQ(IsExact(chain, UnaryKind::kExp), dtype == DType::kF32);
  }
}

// Softmax times values: the error of each term is below the sum's own roundings.
TEST(Precision, SumsOverAnAxisTakeFastTermsButNoTanh) {
  for (const UnaryKind kind : {UnaryKind::kExp, UnaryKind::kTanh}) {
    const Chain chain = Cast(DType::kBF16, absl::StrCat("sum(x * ", Of(kind, "x"), ", 1, keep)"));
    EXPECT_EQ(IsExact(chain, kind), kind == UnaryKind::kTanh);
  }
}

TEST(Precision, FunctionsThatGrowErrorsHaveExactOperands) {
  for (const UnaryKind outer : {UnaryKind::kExp, UnaryKind::kLog, UnaryKind::kSin, UnaryKind::kCos,
                                UnaryKind::kSigmoid, UnaryKind::kErf}) {
    EXPECT_TRUE(IsExact(Cast(DType::kBF16, Of(outer, "10 * tanh(x)")), UnaryKind::kTanh));
  }
}

TEST(Precision, TanhAndErfHaveAFormBesideOne) {
  for (const UnaryKind kind : {UnaryKind::kTanh, UnaryKind::kErf}) {
    const auto of = [&](DType dtype, const char* text) {
      return Of(Cast(dtype, absl::StrCat("t = ", Of(kind, "x"), "; ", text)), kind);
    };
    const Precision alone = kind == UnaryKind::kTanh ? Precision::kTaken : Precision::kBesideOne;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      EXPECT_EQ(of(dtype, "1 + t"), alone);
      EXPECT_EQ(of(dtype, "1 - t * t"), alone);
      EXPECT_EQ(of(dtype, "(1 + t) * (1 - t * t)"), Precision::kBesideOne);
    }
    EXPECT_EQ(of(DType::kF32, "1 + t"), Precision::kExact);
    EXPECT_EQ(of(DType::kF32, "1 - t * t"), Precision::kExact);
    // Near zero it is not exact.
    EXPECT_EQ(of(DType::kBF16, "(1 + t) * t"), Precision::kExact);
    EXPECT_EQ(of(DType::kBF16, "0.125 + t"), Precision::kExact);
  }
}

// x / 3, of rows of 8, as codes; `spread`: once a row.
Precision OfDivisor(DType codes, bool spread) {
  const Chain chain =
      ReadChain("x: f32[4,8]; by: f32[4,$0]; inverse = reciprocal(by); out $1(x * $2)",
                spread ? 1 : 8, NameOf(codes), spread ? "spread(inverse, x)" : "inverse");
  return Of(chain, UnaryKind::kReciprocal);
}

TEST(Precision, DivisorsOfCodesAreExactWhereTheyAreMadeOnceARow) {
  EXPECT_EQ(OfDivisor(DType::kE4M3, true), Precision::kExact);
  EXPECT_EQ(OfDivisor(DType::kS8, true), Precision::kExact);
  EXPECT_EQ(OfDivisor(DType::kE4M3, false), Precision::kFast);
  EXPECT_EQ(OfDivisor(DType::kBF16, true), Precision::kFast);
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

// log(1 - tanh(x)^2) is log1p of the square: no sum is rounded, which would hide its errors.
TEST(Precision, TanhBelowALogarithmOfOnePlusIsExact) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const bool squared : {false, true}) {
      for (const char* sum : {"1 + ", "1 - "}) {
        const Chain chain =
            Cast(dtype, absl::StrCat("log(", sum, squared ? "square(tanh(x))" : "tanh(x)", ")"));
        EXPECT_TRUE(IsExact(chain, UnaryKind::kTanh)) << NameOf(dtype) << " " << squared;
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
