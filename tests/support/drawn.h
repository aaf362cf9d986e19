// What an everyday run takes of much: a part, which the commit draws.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// Whether everything is taken.
inline bool IsLongSweep() {
  const char* value = std::getenv("SINTER_TEST_LONG");
  return value != nullptr && value[0] == '1';
}

// SINTER_TEST_COMMIT, which `./dev test` sets, or "": equal texts draw the same parts on every day.
inline std::string DrawingCommit() {
  const char* text = std::getenv("SINTER_TEST_COMMIT");
  return text == nullptr ? "" : text;
}

// FNV-1a of a text; 0 of none.
inline uint64_t DrawOf(const std::string& text) {
  if (text.empty()) return 0;
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// Every `parts`-th number in an everyday run, others for another commit; all in a long one. The
// first call prints the commit, so that a failure can be run again.
inline bool IsDrawn(size_t number, size_t parts) {
  static const bool printed = [] {
    if (!IsLongSweep()) std::printf("SINTER_TEST_COMMIT=%s\n", DrawingCommit().c_str());
    return true;
  }();
  static_cast<void>(printed);
  return IsLongSweep() || number % parts == DrawOf(DrawingCommit()) % parts;
}

}  // namespace sinter
