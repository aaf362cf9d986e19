// SearchCosts: the latency-evaluator's costs for plans: SearchStitch's prediction of its best
// schedule.
#ifndef SINTER_SRC_FUSION_STITCH_SEARCH_COSTS_H_
#define SINTER_SRC_FUSION_STITCH_SEARCH_COSTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/stitch/latency_evaluator.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/packed_search.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// Searches each different body once and keeps the ranking. Not thread-safe. The model must outlive
// it.
class SearchCosts : public StitchCosts {
 public:
  SearchCosts(int64_t bucket, const DeviceModel& model, const SearchOptions& options)
      : bucket_(bucket), model_(model), options_(options), packed_(bucket, model, &budget_) {
    options_.budget = &budget_;
    RenewBudget();
  }
  SearchCosts(const SearchCosts&) = delete;
  SearchCosts& operator=(const SearchCosts&) = delete;

  absl::StatusOr<double> LatencyUs(const Chain& body) override;
  absl::StatusOr<double> PackedUs(const Chain& body) override;
  // Best first. Precondition: LatencyUs (PackedUs if packed) accepted the body.
  const std::vector<RankedStitch>& RankingOf(const Chain& body, bool packed) const {
    return (packed ? packings_ : rankings_).at(body.CanonicalDigest());
  }
  int bodies() const { return bodies_; }
  uint64_t legal_bodies() const { return rankings_.size() + packings_.size(); }
  // Gives a new budget. When one is spent, bodies are refused with RESOURCE_EXHAUSTED.
  void RenewBudget() { budget_ = StitchBudget{kMostPlannedVisits, options_.pace}; }

 private:
  const int64_t bucket_;
  const DeviceModel& model_;
  SearchOptions options_;
  StitchBudget budget_;
  PackedSearch packed_;
  std::map<Digest, std::vector<RankedStitch>> rankings_, packings_;
  int bodies_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_SEARCH_COSTS_H_
