#include "src/stitch/exact_ops.h"

#include "gtest/gtest.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {
namespace {

using testing::Body;

// Whether the only op of that kind has to be exact.
bool IsExact(const Chain& chain, UnaryKind kind) {
  const std::vector<bool> exact = ExactOps(chain);
  for (size_t id = 0; id < exact.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kUnary && op.unary == kind) return exact[id];
  }
  ADD_FAILURE() << "no such op";
  return false;
}

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

TEST(ExactOps, ExponentialsAboutTheLargestNeedNotBeForTheirSum) {
  EXPECT_FALSE(IsExact(SummedExponentials(ReduceKind::kMax, 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMax, 1, true), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMean, 1, false), UnaryKind::kExp));
  EXPECT_TRUE(IsExact(SummedExponentials(ReduceKind::kMax, 0, false), UnaryKind::kExp))
      << "the largest of others: all terms may be small";
}

TEST(ExactOps, WhatTheyAreMadeOfIsExactAllTheSame) {
  const Chain chain = SummedExponentials(ReduceKind::kMax, 1, false);
  const std::vector<bool> exact = ExactOps(chain);
  for (size_t id = 0; id < exact.size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    EXPECT_EQ(exact[id], op.kind != OpKind::kUnary) << id;
  }
}

Chain ErfPlus(double constant) {
  Body body;
  const ValueId x = body.In({4, 8});
  const ValueId erf = body.Take(body.b.Unary(UnaryKind::kErf, x));
  const ValueId one = body.Take(body.b.Scalar(constant));
  return body.Finish({body.Take(body.b.Binary(BinaryKind::kAdd, one, erf))});
}

TEST(ExactOps, AnErrorFunctionBesideOneNeedNotBe) {
  EXPECT_FALSE(IsExact(ErfPlus(1), UnaryKind::kErf));
  EXPECT_TRUE(IsExact(ErfPlus(0.125), UnaryKind::kErf));
}

// x / 3, of rows of 8, as codes; `spread`: once a row.
std::vector<bool> ExactOpsOfCodes(DType codes, bool spread) {
  Body body;
  const ValueId x = body.In({4, 8}),
                by = body.In(spread ? std::vector<int64_t>{4, 1} : std::vector<int64_t>{4, 8});
  const ValueId inverse = body.Take(body.b.Unary(UnaryKind::kReciprocal, by));
  const ValueId wide =
      spread ? body.Take(body.b.Broadcast(inverse, {Dim::Constant(4), Dim::Constant(8)})) : inverse;
  const ValueId scaled = body.Take(body.b.Binary(BinaryKind::kMul, x, wide));
  const Chain chain = body.Finish({body.Take(body.b.Cast(scaled, codes))});
  std::vector<bool> exact = ExactOps(chain), reciprocals;
  for (size_t id = 0; id < exact.size(); ++id) {
    if (chain.op(static_cast<ValueId>(id)).kind == OpKind::kUnary) reciprocals.push_back(exact[id]);
  }
  return reciprocals;
}

TEST(ExactOps, DivisorsOfCodesAreWhereTheyAreMadeOnceARow) {
  EXPECT_EQ(ExactOpsOfCodes(DType::kE4M3, true), std::vector<bool>{true});
  EXPECT_EQ(ExactOpsOfCodes(DType::kS8, true), std::vector<bool>{true});
  EXPECT_EQ(ExactOpsOfCodes(DType::kE4M3, false), std::vector<bool>{false});
  EXPECT_EQ(ExactOpsOfCodes(DType::kBF16, true), std::vector<bool>{false});
}

}  // namespace
}  // namespace sinter
