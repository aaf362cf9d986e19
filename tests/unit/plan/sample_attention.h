// A kernel of attention that tests draw: causal, with a scale and a term, for each of M x 12
// batches.
#pragma once

#include <memory>

#include "src/plan/attention_family.h"
#include "tests/support/read_chain.h"

namespace sinter {

// A program of a score y and of terms r, r1, r2 in the text of chains.
inline EpilogueProgram ScoreProgram(const std::string& text, const std::vector<DType>& terms) {
  std::string inputs = "y = {f32[2]}; ";
  for (size_t i = 0; i < terms.size(); ++i) {
    absl::StrAppend(&inputs, "r", i == 0 ? "" : std::to_string(i), " = {", NameOf(terms[i]),
                    "[2]}; ");
  }
  auto body = std::make_shared<const Chain>(ReadChain(absl::StrCat(inputs, "out f32(", text, ")")));
  std::vector<LeafKind> kinds(terms.size() + 1, LeafKind::kMatrix);
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (body->InputOrder()[i] == 0) kinds[i] = LeafKind::kValue;
  }
  return ProgramOf(std::move(body), std::move(kinds));
}

inline AttentionProblem SampleAttentionProblem() {
  constexpr int64_t kHeads = 12, kRows = 512, kKeys = 768, kHead = 64;
  AttentionProblem p;
  p.rows = kRows, p.keys = kKeys;
  p.head = p.value_head = kHead;
  p.batches = kHeads, p.of_m = true;
  const auto matrices = [](int64_t rows) {
    return BatchedMatrix{kHead, 1, {{1, kHeads, rows * kHead}, {kHeads, 0, kHeads * rows * kHead}}};
  };
  p.q = p.out = matrices(kRows);
  p.k = p.v = matrices(kKeys);
  p.program = ScoreProgram("y * 0.125 + f32(r)", {DType::kBF16});
  p.terms = {{kKeys, 1, {{1, kHeads, kRows * kKeys}}}};
  p.causal = true;
  p.diagonal = kKeys - kRows;
  return p;
}

inline KernelSpec SampleAttention() {
  AttentionSchedule schedule{.warpgroups = 2, .block_keys = 64, .stages = 4, .grid = 132};
  AttentionSpec own;
  own.code = {SampleAttentionProblem(), schedule};
  for (int buffer = 0; buffer < 5; ++buffer) own.places.push_back({buffer, 0});
  return KernelSpec{.family = &AttentionFamily(), .body = MakeBody(std::move(own))};
}

}  // namespace sinter
