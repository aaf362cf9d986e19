#include "src/fusion/stitch/candidates.h"

#include <algorithm>
#include <utility>

namespace sinter {
namespace {

bool Better(const ScoredPattern& a, const ScoredPattern& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.pattern.vertices().Before(b.pattern.vertices());
}

}  // namespace

void CandidateList::Offer(StitchPattern pattern, DeltaEvaluator* evaluator) {
  const double score = evaluator->Score(pattern);
  if (score > DeltaEvaluator::kIllegal) Offer({std::move(pattern), score});
}

void CandidateList::Offer(const ScoredPattern& scored) {
  for (const ScoredPattern& have : list_) {
    if (have.pattern == scored.pattern) return;
  }
  list_.insert(std::upper_bound(list_.begin(), list_.end(), scored, Better), scored);
  if (list_.size() > limit_) list_.pop_back();
}

}  // namespace sinter
