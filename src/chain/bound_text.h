// How errors print a bound.
#ifndef SINTER_SRC_CHAIN_BOUND_TEXT_H_
#define SINTER_SRC_CHAIN_BOUND_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace sinter {

// "2^31 - 1", "2^40"; below 2^20 its digits.
inline std::string BoundText(int64_t bound) {
  for (int bits = 20; bits < 63; ++bits) {
    const int64_t power = int64_t{1} << bits;
    if (bound == power) return absl::StrCat("2^", bits);
    if (bound == power - 1) return absl::StrCat("2^", bits, " - 1");
  }
  return absl::StrCat(bound);
}

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_BOUND_TEXT_H_
