// Fuzz target over the text form: what is accepted reads back from its canonical line as the same
// problem.
#include "src/chain/problem.h"
#include "src/product/matcher.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::chain_text_fuzz {
SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto problems = sinter::ParseProblems(text);
  if (!problems.ok()) {
    Require(!problems.status().message().empty());
    return 0;
  }
  for (const sinter::Problem& problem : *problems) {
    const std::string line = sinter::WriteProblem(problem);
    const auto back = sinter::ParseProblem(line);
    Require(back.ok() && back->chain == problem.chain && back->m == problem.m);
    Require(sinter::WriteProblem(*back) == line);
    const auto matched = sinter::MatchProducts(problem.chain);
    if (matched.ok()) Require(!matched->sequence.ToString().empty());
  }
  return 0;
}

}  // namespace sinter::chain_text_fuzz
