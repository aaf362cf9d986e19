// The fusion explorer: candidates, remote fusion, beam search, joins. The delta-evaluator alone
// guides it.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLORER_H_
#define SINTER_SRC_FUSION_STITCH_EXPLORER_H_

#include <cstdint>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern.h"

namespace sinter {

// PatternReduction: FusionStitching's approximate dynamic programming over vertices.

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

constexpr int kBeamWidth = 3;  // the paper's

struct ExploreOptions {
  DeltaOptions delta;
  int patterns_a_vertex = kPatternsAVertex;
  int beam_width = kBeamWidth;
  int64_t move_budget = 200000;  // of MoveParts, for each plan
  bool remote = true;            // false: only patterns connected by hand-overs or shared tensors
};

// The best plans of the beam with and without the virtual producer's candidates, without
// duplicates, at most beam_width, the highest accumulated f first. Deterministic: ties go by vertex
// numbers.
std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options);

// FusionStitching's selection of disjoint patterns.
// Visits the virtual producer's candidates, then the vertices from producers to consumers. Appends
// each candidate to each plan where it neither overlaps nor makes a cycle, and keeps the `width`
// plans with the highest accumulated f. Best first; of equal f the one found first. `pace` may be
// null. (arXiv 2009.10924, section 5.3.)
std::vector<PatternSet> BeamSearch(const StitchGraph& graph, const PatternReduction& candidates,
                                   const std::vector<ScoredPattern>& virtual_candidates, int width,
                                   Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
