// What the tests of refused input share: sections of the files in this folder.
#pragma once

#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {

// Each text adds `values` and its statements but the last. The last one is refused with the
// message, and adds nothing.
inline void ExpectRefusedCalls(const std::string& section, const std::string& values) {
  for (const auto& [input, message] : RefusalsOf("tests/unit/chain/refused_calls.txt", section)) {
    ChainReader r(values);
    const size_t last = input.rfind(';');
    if (last != std::string::npos) r.Add(input.substr(0, last));
    const int size = r.builder().size();
    const absl::Status status =
        r.TryAdd(last == std::string::npos ? input : input.substr(last + 1));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << input;
    EXPECT_EQ(status.message(), message) << input;
    EXPECT_EQ(r.builder().size(), size) << input;
  }
}

inline void ExpectRefusedLines(const std::string& section) {
  for (const auto& [line, message] : RefusalsOf("tests/unit/chain/refused_lines.txt", section)) {
    EXPECT_EQ(ParseProblem(line).status().message(), message) << line;
  }
}

}  // namespace sinter
