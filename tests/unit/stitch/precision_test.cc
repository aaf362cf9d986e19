#include "src/stitch/precision.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "gtest/gtest.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {
namespace {

using testing::Body;

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

// What `make` makes of f32 [4, 8], cast to `dtype`.
Chain Cast(DType dtype, const std::function<ValueId(Body&, ValueId)>& make) {
  Body body;
  const ValueId x = body.In({4, 8});
  const ValueId y = make(body, x);
  return body.Finish({dtype == DType::kF32 ? y : body.Take(body.b.Cast(y, dtype))});
}
ValueId Unary(Body& body, UnaryKind kind, ValueId x) { return body.Take(body.b.Unary(kind, x)); }
ValueId Binary(Body& body, BinaryKind kind, ValueId x, ValueId y) {
  return body.Take(body.b.Binary(kind, x, y));
}
ValueId Number(Body& body, double value) { return body.Take(body.b.Scalar(value)); }

// Exponentials of [4, 8] about what `reduce` makes of axis `about`, summed over the last; and, if
// `given`, an output themselves.
Chain SummedExponentials(ReduceKind reduce, int32_t about, bool given) {
  Body body;
  const ValueId x = body.In({4, 8});
  const ValueId e = body.Exp(body.Sub(body.Reduce(x, {about}, true, reduce), x));
  std::vector<ValueId> outputs = {body.Reduce(e, {1}, false)};
  if (given) outputs.push_back(e);
  return body.Finish(outputs);
}

TEST(Precision, ExponentialsAboutTheLargestNeedNotBeExactForTheirSum) {
  EXPECT_FALSE(IsExact(SummedExponentials(ReduceKind::kMax, 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMax, 1, true), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMean, 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMax, 0, false), UnaryKind::kExp))
      << "the largest of others: all terms may be small";
}

TEST(Precision, WhatTheyAreMadeOfIsExactAllTheSame) {
  const Chain chain = SummedExponentials(ReduceKind::kMax, 1, false);
  const std::vector<Precision> precisions = PrecisionsOf(chain);
  for (size_t id = 0; id < precisions.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    EXPECT_EQ(precisions[id] == Precision::kExact, op.kind != OpKind::kUnary) << id;
  }
}

TEST(Precision, StoredTypesTakeWhatIsFinerThanThey) {
  for (const UnaryKind kind : {UnaryKind::kExp, UnaryKind::kSigmoid, UnaryKind::kReciprocal,
                               UnaryKind::kTanh, UnaryKind::kErf, UnaryKind::kLog}) {
    const auto precision = [&](DType dtype) {
      return Of(Cast(dtype, [&](Body& body, ValueId x) { return Unary(body, kind, x); }), kind);
    };
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
    Body body;
    const ValueId log = Unary(body, UnaryKind::kLog, body.In({4, 8}, dtype));
    const Chain chain = body.Finish({body.Take(body.b.Cast(log, dtype))});
    EXPECT_EQ(IsExact(chain, UnaryKind::kLog), dtype == DType::kF16);
  }
}

// What feeds a step: on which side of it a value falls shows any error.
TEST(Precision, WhatFeedsAStepIsExact) {
  using Make = std::function<ValueId(Body&, ValueId)>;
  const auto quotient = [](Body& body, ValueId x) {
    return Binary(body, BinaryKind::kDiv, x, body.In({4, 8}));
  };
  const std::pair<const char*, Make> steps[] = {
      {"cast to s32", [](Body& body, ValueId q) { return body.Take(body.b.Cast(q, DType::kS32)); }},
      {"cast to s8", [](Body& body, ValueId q) { return body.Take(body.b.Cast(q, DType::kS8)); }},
      {"cast to pred",
       [](Body& body, ValueId q) { return body.Take(body.b.Cast(q, DType::kPred)); }},
      {"floor", [](Body& body, ValueId q) { return Unary(body, UnaryKind::kFloor, q); }},
      {"power of two", [](Body& body, ValueId q) { return Unary(body, UnaryKind::kCeilPow2, q); }},
      {"ge",
       [](Body& body, ValueId q) {
         return body.Take(body.b.Compare(CompareKind::kGe, q, Number(body, 1)));
       }},
      {"eq",
       [](Body& body, ValueId q) {
         return body.Take(body.b.Compare(CompareKind::kEq, q, Number(body, 1)));
       }},
      {"under a square and a minimum",
       [](Body& body, ValueId q) {
         const ValueId least = Binary(body, BinaryKind::kMin, q, Number(body, 4));
         return Unary(body, UnaryKind::kFloor, Unary(body, UnaryKind::kSquare, least));
       }},
  };
  for (const auto& [name, step] : steps) {
    Body body;
    const ValueId y = step(body, quotient(body, body.In({4, 8})));
    const DType dtype = body.b.TypeOf(y).dtype;
    const Chain chain =
        body.Finish({dtype == DType::kF32 ? body.Take(body.b.Cast(y, DType::kBF16)) : y});
    EXPECT_EQ(OfQuotient(chain), Precision::kExact) << name;
  }
  const Chain plain = Cast(DType::kBF16, quotient);
  EXPECT_EQ(OfQuotient(plain), Precision::kFast);
}

TEST(Precision, WhatMayCancelIsExact) {
  for (const UnaryKind kind :
       {UnaryKind::kExp, UnaryKind::kSigmoid, UnaryKind::kTanh, UnaryKind::kReciprocal}) {
    for (const BinaryKind sum : {BinaryKind::kAdd, BinaryKind::kSub}) {
      const Chain chain = Cast(DType::kBF16, [&](Body& body, ValueId x) {
        const ValueId product = Binary(body, BinaryKind::kMul, x, Unary(body, kind, x));
        return Binary(body, sum, product, body.In({4, 8}));
      });
      EXPECT_TRUE(IsExact(chain, kind));
    }
  }
}

TEST(Precision, SumsOfWhatIsNotNegativeCancelNothing) {
  const Chain chain = Cast(DType::kBF16, [](Body& body, ValueId x) {
    const ValueId sum = Binary(body, BinaryKind::kAdd, Number(body, 1), body.Exp(x));
    return Unary(body, UnaryKind::kReciprocal, sum);
  });
  EXPECT_FALSE(IsExact(chain, UnaryKind::kExp));
  EXPECT_FALSE(IsExact(chain, UnaryKind::kReciprocal));
  const Chain minus = Cast(DType::kBF16, [](Body& body, ValueId x) {
    return Binary(body, BinaryKind::kAdd, Number(body, -1), body.Exp(x));
  });
  EXPECT_TRUE(IsExact(minus, UnaryKind::kExp));
}

// s32 wraps: a sum of numbers that are not negative may be negative, and cancel what is added to
// it.
TEST(Precision, SumsOfS32MayBeNegative) {
  using Make = std::function<ValueId(Body&, ValueId)>;
  const std::pair<const char*, Make> sums[] = {
      {"abs", [](Body& body, ValueId n) { return Unary(body, UnaryKind::kAbs, n); }},
      {"square", [](Body& body, ValueId n) { return Unary(body, UnaryKind::kSquare, n); }},
      {"product with itself",
       [](Body& body, ValueId n) { return Binary(body, BinaryKind::kMul, n, n); }},
      {"add",
       [](Body& body, ValueId n) {
         const ValueId m = Unary(body, UnaryKind::kRelu, n);
         return Binary(body, BinaryKind::kAdd, m, m);
       }},
      {"reduce",
       [](Body& body, ValueId n) {
         return body.Reduce(Unary(body, UnaryKind::kRelu, n), {1}, true);
       }},
      {"scan",
       [](Body& body, ValueId n) {
         return body.Take(body.b.Scan(ReduceKind::kSum, Unary(body, UnaryKind::kRelu, n)));
       }},
  };
  const auto exponentials_beside = [](const Make& make) {
    return IsExact(Cast(DType::kBF16,
                        [&](Body& body, ValueId x) {
                          const ValueId n = make(body, body.In({4, 8}, DType::kS32));
                          const ValueId wide = body.Take(body.b.Cast(n, DType::kF32));
                          return Binary(body, BinaryKind::kAdd, body.Exp(x), body.Spread(wide, x));
                        }),
                   UnaryKind::kExp);
  };
  for (const auto& [name, make] : sums) EXPECT_TRUE(exponentials_beside(make)) << name;
  EXPECT_FALSE(
      exponentials_beside([](Body& body, ValueId n) { return Unary(body, UnaryKind::kRelu, n); }));
  EXPECT_FALSE(exponentials_beside([](Body& body, ValueId n) {
    return body.Reduce(Unary(body, UnaryKind::kRelu, n), {1}, true, ReduceKind::kMax);
  }));
}

// The gradient of a cross entropy: exp(x) - [the label's place].
TEST(Precision, ExponentialsBesidePredicatesCancelNearOneAlone) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Chain chain = Cast(dtype, [](Body& body, ValueId x) {
      const ValueId label =
          body.Take(body.b.Compare(CompareKind::kEq, body.In({4, 8}), body.In({4, 8})));
      const ValueId one = body.Take(body.b.Cast(label, DType::kF32));
      return Binary(body, BinaryKind::kSub, body.Exp(x), one);
    });
    EXPECT_EQ(IsExact(chain, UnaryKind::kExp), dtype == DType::kF32);
  }
}

// Of softmax times values: each term errs by less than the sum's own roundings.
TEST(Precision, SumsOverAnAxisTakeFastTermsButNoTanh) {
  for (const UnaryKind kind : {UnaryKind::kExp, UnaryKind::kTanh}) {
    const Chain chain = Cast(DType::kBF16, [&](Body& body, ValueId x) {
      return body.Reduce(Binary(body, BinaryKind::kMul, x, Unary(body, kind, x)), {1});
    });
    EXPECT_EQ(IsExact(chain, kind), kind == UnaryKind::kTanh);
  }
}

TEST(Precision, FunctionsThatGrowErrorsHaveExactOperands) {
  for (const UnaryKind outer : {UnaryKind::kExp, UnaryKind::kLog, UnaryKind::kSin, UnaryKind::kCos,
                                UnaryKind::kSigmoid, UnaryKind::kErf}) {
    const Chain chain = Cast(DType::kBF16, [&](Body& body, ValueId x) {
      const ValueId tanh = Unary(body, UnaryKind::kTanh, x);
      return Unary(body, outer, Binary(body, BinaryKind::kMul, Number(body, 10), tanh));
    });
    EXPECT_TRUE(IsExact(chain, UnaryKind::kTanh));
  }
}

ValueId PlusOne(Body& body, ValueId x) {
  return Binary(body, BinaryKind::kAdd, Number(body, 1), x);
}

TEST(Precision, TanhAndErfHaveAFormBesideOne) {
  for (const UnaryKind kind : {UnaryKind::kTanh, UnaryKind::kErf}) {
    const auto of = [&](DType dtype, const std::function<ValueId(Body&, ValueId)>& make) {
      return Of(
          Cast(dtype, [&](Body& body, ValueId x) { return make(body, Unary(body, kind, x)); }),
          kind);
    };
    const auto one_minus_square = [](Body& body, ValueId t) {
      return Binary(body, BinaryKind::kSub, Number(body, 1), Binary(body, BinaryKind::kMul, t, t));
    };
    const Precision alone = kind == UnaryKind::kTanh ? Precision::kTaken : Precision::kBesideOne;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      EXPECT_EQ(of(dtype, PlusOne), alone);
      EXPECT_EQ(of(dtype, one_minus_square), alone);
      EXPECT_EQ(of(dtype,
                   [&](Body& body, ValueId t) {
                     return Binary(body, BinaryKind::kMul, PlusOne(body, t),
                                   one_minus_square(body, t));
                   }),
                Precision::kBesideOne);
    }
    EXPECT_EQ(of(DType::kF32, PlusOne), Precision::kExact);
    EXPECT_EQ(of(DType::kF32, one_minus_square), Precision::kExact);
    // Near zero it is not exact.
    EXPECT_EQ(of(DType::kBF16,
                 [](Body& body, ValueId t) {
                   return Binary(body, BinaryKind::kMul, PlusOne(body, t), t);
                 }),
              Precision::kExact);
    EXPECT_EQ(of(DType::kBF16,
                 [](Body& body, ValueId t) {
                   return Binary(body, BinaryKind::kAdd, Number(body, 0.125), t);
                 }),
              Precision::kExact);
  }
}

// x / 3, of rows of 8, as codes; `spread`: once a row.
Precision OfDivisor(DType codes, bool spread) {
  Body body;
  const ValueId x = body.In({4, 8}),
                by = body.In(spread ? std::vector<int64_t>{4, 1} : std::vector<int64_t>{4, 8});
  const ValueId inverse = body.Take(body.b.Unary(UnaryKind::kReciprocal, by));
  const ValueId wide =
      spread ? body.Take(body.b.Broadcast(inverse, {Dim::Constant(4), Dim::Constant(8)})) : inverse;
  const ValueId scaled = body.Take(body.b.Binary(BinaryKind::kMul, x, wide));
  return Of(body.Finish({body.Take(body.b.Cast(scaled, codes))}), UnaryKind::kReciprocal);
}

TEST(Precision, DivisorsOfCodesAreExactWhereTheyAreMadeOnceARow) {
  EXPECT_EQ(OfDivisor(DType::kE4M3, true), Precision::kExact);
  EXPECT_EQ(OfDivisor(DType::kS8, true), Precision::kExact);
  EXPECT_EQ(OfDivisor(DType::kE4M3, false), Precision::kFast);
  EXPECT_EQ(OfDivisor(DType::kBF16, true), Precision::kFast);
}

// What f32 results are made of is exact, unless codes are all that is made of them.
TEST(Precision, OfF32ResultsForCodesIsThatOfF16) {
  const auto make = [](Body& body, ValueId x) {
    const ValueId sigmoid = Unary(body, UnaryKind::kSigmoid, x);
    return Binary(body, BinaryKind::kMul, Unary(body, UnaryKind::kTanh, sigmoid), sigmoid);
  };
  const Chain f32 = Cast(DType::kF32, make);
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
    const Chain alone =
        Cast(DType::kF32, [](Body& b, ValueId x) { return Unary(b, UnaryKind::kSigmoid, x); });
    EXPECT_EQ(of(PrecisionsOf(alone, for_codes), alone, UnaryKind::kSigmoid),
              for_codes ? Precision::kFast : Precision::kExact);
  }
}

TEST(Precision, LogarithmsOfOnePlusAreKnown) {
  Body body;
  const ValueId x = body.In({4, 8});
  const ValueId plus = PlusOne(body, x);
  const ValueId minus = Binary(body, BinaryKind::kSub, Number(body, 1), x);
  const ValueId two = Binary(body, BinaryKind::kAdd, Number(body, 2), x);
  const std::vector<ValueId> logs = {
      Unary(body, UnaryKind::kLog, plus), Unary(body, UnaryKind::kLog, minus),
      Unary(body, UnaryKind::kLog, two), Unary(body, UnaryKind::kLog, x)};
  const Chain chain = body.Finish(logs);
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
          const Chain chain = Cast(DType::kBF16, [&](Body& body, ValueId x) {
            const ValueId t = Unary(body, UnaryKind::kTanh, x);
            const ValueId y = square ? Unary(body, UnaryKind::kSquare, t) : t;
            const ValueId number = Number(body, one);
            return Binary(body, kind, first ? number : y, first ? y : number);
          });
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
      for (const BinaryKind kind : {BinaryKind::kAdd, BinaryKind::kSub}) {
        const Chain chain = Cast(dtype, [&](Body& body, ValueId x) {
          const ValueId t = Unary(body, UnaryKind::kTanh, x);
          const ValueId of = squared ? Unary(body, UnaryKind::kSquare, t) : t;
          return Unary(body, UnaryKind::kLog, Binary(body, kind, Number(body, 1), of));
        });
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

// exp(z - max z), of what `make` makes of f32 [4, 8], before it is divided by its sum.
Chain PowersAboutLargest(const std::function<ValueId(Body&, ValueId)>& make) {
  Body body;
  const ValueId z = make(body, body.In({4, 8}));
  const ValueId e = body.Exp(body.Sub(body.Reduce(z, {1}, true, ReduceKind::kMax), z));
  return body.Finish({e});
}

TEST(Precision, SubtractionsOfProductsBelowExponentialsAreNotFused) {
  EXPECT_EQ(AloneOf(PowersAboutLargest([](Body&, ValueId x) { return x; })), 0);
  EXPECT_EQ(AloneOf(PowersAboutLargest([](Body& b, ValueId x) {
              return Binary(b, BinaryKind::kMul, x, Number(b, 1e14));
            })),
            1);
  EXPECT_EQ(AloneOf(PowersAboutLargest(
                [](Body& b, ValueId x) { return Unary(b, UnaryKind::kSquare, x); })),
            1);
  EXPECT_EQ(AloneOf(PowersAboutLargest(
                [](Body& b, ValueId x) { return Binary(b, BinaryKind::kAdd, x, Number(b, 3)); })),
            0);
  // No exponential is taken: a layer norm may be fused.
  EXPECT_EQ(AloneOf(Cast(DType::kF32,
                         [](Body& b, ValueId x) {
                           const ValueId y = Binary(b, BinaryKind::kMul, x, Number(b, 2));
                           return b.Sub(b.Reduce(y, {1}, true, ReduceKind::kMean), y);
                         })),
            0);
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
