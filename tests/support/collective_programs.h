// Programs of sums over ranks and of their norms, as tests give them.
#pragma once

#include <memory>
#include <string>

#include "src/collective/collective.h"
#include "tests/support/read_chain.h"

namespace sinter::testing {

// The program of an expression of the value y, a matrix r and a vector of columns c.
inline EpilogueProgram CollectiveProgram(const std::string& text, DType result) {
  std::string inputs = "y: f32[2]; ";
  for (const char* name : {"r", "c"}) {
    if (text.find(name) != text.npos) absl::StrAppend(&inputs, name, ": ", NameOf(result), "[2]; ");
  }
  auto body = std::make_shared<const Chain>(
      ReadChain(absl::StrCat(inputs, "out ", NameOf(result), "(", text, ")")));
  std::vector<LeafKind> kinds;
  for (const int32_t input : body->InputOrder()) {
    const auto name = body->InputName(input);
    kinds.push_back(name == "y"   ? LeafKind::kValue
                    : name == "r" ? LeafKind::kMatrix
                                  : LeafKind::kColumn);
  }
  return ProgramOf(std::move(body), std::move(kinds));
}

// y as `result`, widened again, if it is `rounded`.
inline std::string Value(bool rounded, DType result) {
  return rounded && result != DType::kF32 ? absl::StrCat("f32(", NameOf(result), "(y))") : "y";
}

inline std::string Wide(const std::string& name, DType result) {
  return result == DType::kF32 ? name : absl::StrCat("f32(", name, ")");
}

// The sum plus a residual.
inline void AddResidual(CollectiveProblem* p, bool rounded = true) {
  p->program =
      CollectiveProgram(Value(rounded, p->result) + " + " + Wide("r", p->result), p->result);
}

// The norm times gamma.
inline void AddNorm(CollectiveProblem* p, bool rounded = false) {
  p->norm = true;
  p->eps = 1e-6;
  p->norm_program =
      CollectiveProgram(Value(rounded, p->result) + " * " + Wide("c", p->result), p->result);
}

}  // namespace sinter::testing
