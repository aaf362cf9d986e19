// Problem: a chain and the M to run it with, as one line of text. Grammar and definitions:
// docs/chains.md.
#ifndef SINTER_SRC_CHAIN_PROBLEM_H_
#define SINTER_SRC_CHAIN_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/chain/chain.h"

namespace sinter {

struct Problem {
  std::string id;    // "" when the line has none
  std::string kind;  // "gated_ffn"
  // Every key of the kind in its documented order, defaults filled in, values in canonical
  // spelling.
  std::vector<std::pair<std::string, std::string>> fields;
  std::optional<int64_t> m;  // the M to run; nullopt for m=M
  Chain chain;               // M symbolic
};

// One line, comment allowed. INVALID_ARGUMENT names key, value and the legal values.
absl::StatusOr<Problem> ParseProblem(absl::string_view line);
// Many lines; blank and comment lines are skipped; an error names the line. Ids that are given must
// differ. At most 64 MiB, 16384 problems and 2^20 ops in all their chains.
absl::StatusOr<std::vector<Problem>> ParseProblems(absl::string_view text);
// The canonical line: "S8 gated_ffn m=128 n=3072 ...". ParseProblem(WriteProblem(p)) equals p.
std::string WriteProblem(const Problem& problem);
// Kinds that the text form knows, sorted.
std::vector<std::string> ProblemKinds();
// What a kind computes, its inputs and its keys with their bounds and defaults, for people: made
// from what ParseProblem reads by. INVALID_ARGUMENT names the kinds.
absl::StatusOr<std::string> ProblemHelp(absl::string_view kind);
// Every kind with what it computes, one a line.
std::string ProblemHelp();

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_H_
