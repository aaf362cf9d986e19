// CandidateList: the best patterns of a vertex.
#ifndef SINTER_SRC_FUSION_STITCH_CANDIDATES_H_
#define SINTER_SRC_FUSION_STITCH_CANDIDATES_H_

#include <cstddef>
#include <vector>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern.h"

namespace sinter {

struct ScoredPattern {
  StitchPattern pattern;
  double score = 0;  // f(P)
};

// At most `limit` different legal patterns, the highest f first; of equal f the one with the
// lexicographically first vertices.
class CandidateList {
 public:
  explicit CandidateList(size_t limit) : limit_(limit) {}

  // Keeps `pattern` if it is legal and among the best.
  void Offer(StitchPattern pattern, DeltaEvaluator* evaluator);
  void Offer(const ScoredPattern& scored);
  const std::vector<ScoredPattern>& list() const { return list_; }

 private:
  size_t limit_;
  std::vector<ScoredPattern> list_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_CANDIDATES_H_
