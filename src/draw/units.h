// Amounts for people: three digits and a unit.
#ifndef SINTER_SRC_DRAW_UNITS_H_
#define SINTER_SRC_DRAW_UNITS_H_

#include <string>

namespace sinter {

// Sizes, in powers of 1024: "96 B", "48 KiB", "1.5 MiB".
std::string SizeText(double bytes);
// Amounts in powers of 1000: "862 kB", "19.5 MB"; "4.83 GFLOP" with "FLOP".
std::string AmountText(double amount, const char* unit);
// A rate given per microsecond: "4.55 TB/s" for 4.55e6 and "B".
std::string RateText(double per_us, const char* unit);

}  // namespace sinter

#endif  // SINTER_SRC_DRAW_UNITS_H_
