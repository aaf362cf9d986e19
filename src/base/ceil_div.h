// Rounding of counts.
#ifndef SINTER_SRC_BASE_CEIL_DIV_H_
#define SINTER_SRC_BASE_CEIL_DIV_H_

#include <cstdint>

namespace sinter {

// How many parts of size `b` cover `a` >= 0. It is 0 where `b` is not positive: the sizes of a
// schedule are computed before the schedule is checked.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : 0; }

// The multiple of `b` at or above `a` >= 0.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CEIL_DIV_H_
