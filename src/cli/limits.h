// Limits: what a value on the command line may be. Refusals name the value and the bounds; the
// parser puts the option before them. Help shows the bounds: `--jobs UINT:1..256`.
#ifndef SINTER_SRC_CLI_LIMITS_H_
#define SINTER_SRC_CLI_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace sinter::cli {

// Decimal digits, a sign where `low` is negative; nothing is rounded or cut to the bounds.
CLI::Validator Integer(int64_t low, uint64_t high);
// A finite number.
CLI::Validator Number(double low, double high);
// A size as the library reads it (src/base/format.h), at least 1; replaced by its bytes.
CLI::Validator Bytes();
// One of `words`.
CLI::Validator OneOf(const std::vector<std::string>& words);
// The path of a file: not empty.
CLI::Validator Path();

// Seconds of deadlines and budgets: 31 years, which fit into microseconds.
constexpr double kMostSeconds = 1e9;
constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1;

// At least 1 of a number above 0, which is no limit to the library.
int64_t MicrosecondsOf(double seconds);

// The most host memory that one compilation takes.
constexpr uint64_t kBytesPerJob = uint64_t{768} << 20;

// Bytes that may still be used: the kernel's estimate, and what the control group leaves, the less.
// 0 when neither can be read.
uint64_t FreeMemory();

// One a processor, fewer if memory is short, at least one.
uint32_t JobsThatFit();

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_LIMITS_H_
