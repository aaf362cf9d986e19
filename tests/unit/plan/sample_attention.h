// A kernel of attention that tests draw: causal, with a scale and a term, for each of M x 12
// batches.
#pragma once

#include <memory>

#include "src/plan/attention_family.h"

namespace sinter {

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
  ScoreStep scale, term;
  scale.number = 0.125;
  term.kind = ScoreStep::kAdd;
  term.dtype = DType::kBF16;
  term.term = {kKeys, 1, {{1, kHeads, kRows * kKeys}}};
  p.steps = {scale, term};
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
