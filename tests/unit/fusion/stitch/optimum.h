// Exact optima of the explorer's problem: disjoint convex patterns whose kernels can run in some
// order, with the highest sum of f.
#pragma once

#include "src/fusion/stitch/evaluators.h"
#include "tests/support/common.h"

namespace sinter::testing {

// Over all partitions, patterns that nothing connects included: every order of kernels is a chain
// of sets closed under producers, and a kernel is the difference of two neighbours in it. Dynamic
// programming over those sets. Nothing when there are more than `limit` of them. At most 31
// vertices.
std::optional<double> ExhaustiveOptimum(DeltaEvaluator* evaluator, size_t limit);

// Over patterns that hand-overs or shared tensors connect: the integer program of arXiv 1911.11576.
// One variable a pattern of f > 0, no vertex twice, and a constraint for every cycle of kernels
// that a solution has, until one has none. Nothing unless GLPK proves the optimum; `limit` bounds
// the patterns, found by growing each one vertex at a time. (Every connected convex set of more
// than one vertex has a source or a sink whose removal leaves it connected and convex, so growing
// reaches all of them.)
std::optional<double> IntegerProgramOptimum(DeltaEvaluator* evaluator, size_t limit);

}  // namespace sinter::testing
