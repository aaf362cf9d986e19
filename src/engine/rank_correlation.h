// Spearman's rank correlation: how well predicted times order measured ones.
#ifndef SINTER_SRC_ENGINE_RANK_CORRELATION_H_
#define SINTER_SRC_ENGINE_RANK_CORRELATION_H_

#include <vector>

namespace sinter {

// In [-1, 1]; ties share their mean rank. 0 with fewer than two values or when all values of a side
// are equal. `a` and `b` have one size.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RANK_CORRELATION_H_
