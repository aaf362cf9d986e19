// The fusion explorer: candidates, remote fusion, beam search, joins. Only the delta-evaluator
// guides it.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLORER_H_
#define SINTER_SRC_FUSION_STITCH_EXPLORER_H_

#include <cstdint>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/stitch/evaluators.h"
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

// RemoteFusion: patterns of vertices that are not neighbours, joins of whole patterns, and moves of
// their parts.

// The paper's remote fusion: the candidates of a virtual producer h of all vertices.
std::vector<ScoredPattern> RemoteFusion(const StitchGraph& graph, PatternReduction* reduction);

// Beyond the paper, on a whole plan: PatternReduction grows patterns from one producer down, so a
// second producer of a member is left out; these two add it. Both only raise the sum of f.

// Joins patterns or vertices with a hand-over or a common input, the highest gain first, while one
// gains and no cycle arises.
void JoinNeighbours(DeltaEvaluator* evaluator, PatternSet* plan);

// Kernel packing: joins kernels at the same distance from the plan's start, then from its end. No
// path connects two of them.
void PackLevels(DeltaEvaluator* evaluator, PatternSet* plan);

// PartMoves: hill climbing on whole plans: moves parts of patterns to other patterns.

// Beyond the paper: the beam fixes a pattern before it has seen those below it, and joins never
// undo a decision. A part of a pattern is: one member; it with all members that it needs, or with
// all that need it; all members up to it, or from it on; or the rest without the second or third.
// While the sum of f rises, a part moves to a neighbouring pattern (`remote`: to any, while there
// are few), or to a new pattern that then takes in neighbours. `budget` bounds the vertices of all
// scored patterns: large graphs stop early, deterministically.
void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
