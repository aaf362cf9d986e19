// Functions of ops.def that <cmath> has not, in float64.
#ifndef SINTER_SRC_REFERENCE_FUNCTIONS_H_
#define SINTER_SRC_REFERENCE_FUNCTIONS_H_

#include <cmath>
#include <limits>

namespace sinter::reference {

// As f32 has it: at least 2^-126, above 2^127 infinite.
inline double CeilPow2(double x) {
  if (std::isnan(x)) return x;
  if (x <= 0x1p-126) return 0x1p-126;
  if (x > 0x1p127) return std::numeric_limits<double>::infinity();
  int exponent;
  return std::frexp(x, &exponent) == 0.5 ? x : std::ldexp(1.0, exponent);
}

// Written so that neither end overflows.
inline double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_FUNCTIONS_H_
