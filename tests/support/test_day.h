// What an everyday run takes of much: a part, another each day.
#ifndef SINTER_TESTS_SUPPORT_TEST_DAY_H_
#define SINTER_TESTS_SUPPORT_TEST_DAY_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace sinter {

// Whether everything is taken.
inline bool IsLongSweep() {
  const char* value = std::getenv("SINTER_TEST_LONG");
  return value != nullptr && value[0] == '1';
}

// SINTER_TEST_DAY, a number, or today's.
inline size_t TestDay() {
  const char* text = std::getenv("SINTER_TEST_DAY");
  return static_cast<size_t>(text == nullptr || *text == 0 ? std::time(nullptr) / 86400
                                                           : std::atoll(text));
}

// Every `parts`-th number in an everyday run, others each day; all in a long one. The first call
// prints the day, so that a failure can be run again.
inline bool IsOfToday(size_t number, size_t parts) {
  static const bool printed = [] {
    if (!IsLongSweep()) std::printf("SINTER_TEST_DAY=%zu\n", TestDay());
    return true;
  }();
  static_cast<void>(printed);
  return IsLongSweep() || number % parts == TestDay() % parts;
}

}  // namespace sinter

#endif  // SINTER_TESTS_SUPPORT_TEST_DAY_H_
