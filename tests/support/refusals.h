// Refusals as data: files of inputs, each with the message that refuses it on the next lines.
//
//   # a comment
//   [section]
//   an input, from the first column on
//     its message, indented
#pragma once

#include "tests/support/changed.h"
#include "tests/support/test.h"

namespace sinter {

struct RefusedInput {
  std::string input, message;
};

// Reads a section of a file in the repository. It joins messages of several lines by a space.
inline std::vector<RefusedInput> RefusalsOf(const std::string& path, const std::string& section) {
  std::ifstream file(path);
  std::vector<RefusedInput> refusals;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "#") || line.empty()) continue;
    if (absl::StartsWith(line, "[")) {
      inside = line == "[" + section + "]";
    } else if (inside && absl::StartsWith(line, "  ")) {
      std::string& message = refusals.back().message;
      absl::StrAppend(&message, message.empty() ? "" : " ", line.substr(2));
    } else if (inside) {
      refusals.push_back({line, ""});
    }
  }
  if (refusals.empty()) throw std::runtime_error(path + " has no section " + section);
  return refusals;
}

// Each line of a section changes `good`, and the next is the message of the status that `check` has
// of it: "OK" where it is accepted. `check` accepts `good`.
template <typename Struct, typename Check>
void ExpectRefusedChanges(const std::string& path, const std::string& section, const Struct& good,
                          const Check& check,
                          absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_OK(check(good));
  for (const auto& [words, message] : RefusalsOf(path, section)) {
    const absl::Status status = check(Changed(good, words));
    EXPECT_EQ(status.ok() ? "OK" : std::string(status.message()), message) << words;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), code) << words;
    }
  }
}

// A problem and a schedule of it, whose changes are "p.columns=12 s.threads=100".
template <typename Problem, typename Schedule>
struct Scheduled {
  Problem p;
  Schedule s;
  SINTER_FIELDS(Scheduled, p, s);
};

// The same of a schedule and its problem, whatever of them is changed.
template <typename Problem, typename Schedule, typename Model>
void ExpectRefusedSchedules(const std::string& path, const std::string& section, const Problem& p,
                            const Schedule& s, const Model& model) {
  ExpectRefusedChanges(
      path, section, Scheduled<Problem, Schedule>{p, s},
      [&](const auto& of) { return CheckSchedule(of.p, of.s, model); },
      absl::StatusCode::kFailedPrecondition);
}

}  // namespace sinter
