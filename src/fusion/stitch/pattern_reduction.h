// PatternReduction: FusionStitching's approximate dynamic programming over vertices.
#ifndef SINTER_SRC_FUSION_STITCH_PATTERN_REDUCTION_H_
#define SINTER_SRC_FUSION_STITCH_PATTERN_REDUCTION_H_

#include <vector>

#include "src/fusion/stitch/candidates.h"
#include "src/fusion/stitch/delta_evaluator.h"

namespace sinter {

constexpr int kPatternsAVertex = 3;  // the paper's k

// For every vertex the best patterns in which it is the producer of all other members, found in
// post-order (consumers first): O(V + E) evaluations. (arXiv 2009.10924, section 5.2.)
class PatternReduction {
 public:
  PatternReduction(DeltaEvaluator* evaluator, int k);

  // Candidates of `vertex`: its own pattern, and those joined with its consumers' candidates. Empty
  // for opaque vertices.
  const std::vector<ScoredPattern>& Of(int vertex) const {
    return candidates_[static_cast<size_t>(vertex)];
  }

  // Candidates of a virtual vertex h that produces all of `consumers`, without h itself: patterns
  // whose vertices need not be connected.
  std::vector<ScoredPattern> OfVirtualProducer(const std::vector<int>& consumers);

 private:
  // The best patterns of `vertex` (-1: h) with candidates of consumers [begin, end).
  CandidateList Reduce(int vertex, const std::vector<int>& consumers, size_t begin, size_t end);
  CandidateList Enumerate(int vertex, const std::vector<int>& consumers, size_t begin, size_t end);
  CandidateList Merge(const CandidateList& a, const CandidateList& b);
  StitchPattern Start(int vertex) const;

  DeltaEvaluator* evaluator_;
  const StitchGraph& graph_;
  const size_t k_;
  std::vector<std::vector<ScoredPattern>> candidates_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PATTERN_REDUCTION_H_
