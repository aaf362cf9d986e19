// Models of the approximate instructions: right to the error that the PTX manual allows, all of it
// to one side.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

namespace models {
// -1 to 1: shares of the errors allowed.
inline double exp2_error = 0, reciprocal_error = 0, other_error = 0;

inline float Flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}
inline float Off(double value, double error) { return static_cast<float>(value * (1 + error)); }
}  // namespace models

inline float exp2_approx(float x) {
  return models::Flushed(models::Off(std::exp2(static_cast<double>(models::Flushed(x))),
                                     models::exp2_error * 0x1p-22));
}
inline float reciprocal_approx(float x) {
  return models::Flushed(
      models::Off(1 / static_cast<double>(models::Flushed(x)), models::reciprocal_error * 0x1p-23));
}
inline float rsqrt_approx(float x) {
  return models::Off(1 / std::sqrt(static_cast<double>(x)), models::other_error * 0x1p-22);
}
inline float tanh_approx(float x) {
  return models::Off(std::tanh(static_cast<double>(x)), models::other_error * 0x1p-11);
}
inline float __logf(float x) {
  const double log = std::log2(static_cast<double>(x));
  const double error = x > 0.5f && x < 2 ? 0x1p-22 : 0x1p-22 * std::fabs(log);
  return static_cast<float>(log + models::other_error * error) * 0.69314718f;
}
inline float keep_nan_max(float a, float b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
}
inline float keep_nan_min(float a, float b) { return -keep_nan_max(-a, -b); }

}  // namespace sinter
