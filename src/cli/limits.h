// Limits: which values the command line accepts. A refusal names the value and the bounds, and the
// parser puts the option before it. Help shows the bounds: `--jobs UINT:1..256`.
#ifndef SINTER_SRC_CLI_LIMITS_H_
#define SINTER_SRC_CLI_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace sinter::cli {

// Decimal digits, with a sign if `low` is negative. A value outside the bounds is refused, not
// clamped.
CLI::Validator Integer(int64_t low, uint64_t high);
// A finite number.
CLI::Validator Number(double low, double high);
// A size of at least 1, as the library reads it (src/base/format.h). The text is replaced by the
// number of bytes.
CLI::Validator Bytes();
// One of `words`.
CLI::Validator OneOf(const std::vector<std::string>& words);
// The path of a file; not empty.
CLI::Validator Path();

// Most seconds of a deadline or budget: 31 years, whose microseconds fit into an int64_t.
constexpr double kMostSeconds = 1e9;
constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1;

// Microseconds of `seconds`. At least 1 if `seconds` > 0, since the library takes 0 as no limit.
int64_t MicrosecondsOf(double seconds);

// The most host memory that one compilation uses.
constexpr uint64_t kBytesPerJob = uint64_t{768} << 20;

// Bytes of memory that can still be used: the lesser of the kernel's estimate and what the control
// group leaves. 0 when neither can be read.
uint64_t FreeMemory();

// One per processor, fewer if memory is short, at least one.
uint32_t JobsThatFit();

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_LIMITS_H_
