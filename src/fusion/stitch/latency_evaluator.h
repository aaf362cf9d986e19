// LatencyEvaluator: the accurate cost of kernels, used to pick among the beam's plans.
#ifndef SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_
#define SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/fusion/stitch/body.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/packed_search.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// The time of one kernel over a body. Implementations depend on the body alone.
class StitchCosts {
 public:
  virtual ~StitchCosts() = default;
  // Microseconds, or why no kernel takes the body, naming the op.
  virtual absl::StatusOr<double> LatencyUs(const Chain& body) = 0;
  // For a kernel whose blocks are divided among the body's independent parts.
  virtual absl::StatusOr<double> PackedUs(const Chain& body) {
    return absl::UnimplementedError("no packing");
  }
};

struct CostedKernel {
  NodeSet vertices;
  std::shared_ptr<const StitchBody> body;
  double us = 0;
  bool packed = false;  // by StitchCosts::PackedUs
};

// Asks `costs` once for each different body, of any graph. Not thread-safe.
class LatencyEvaluator {
 public:
  explicit LatencyEvaluator(StitchCosts* costs) : costs_(costs) {}

  // The faster of the body and the one with turned reductions (ExtractBody); where both are refused
  // the error is the first one's.
  absl::StatusOr<CostedKernel> Evaluate(const StitchGraph& graph, const NodeSet& vertices);
  // The kernel that packs the parts of `vertices`; each part may have a kernel's length.
  absl::StatusOr<CostedKernel> EvaluatePacked(const StitchGraph& graph, const NodeSet& vertices);
  // Different bodies evaluated so far.
  int bodies() const { return static_cast<int>(known_.size()); }

 private:
  // `digest`: the body's canonical digest.
  absl::StatusOr<CostedKernel> Evaluate(const NodeSet& vertices, StitchBody body,
                                        const Digest& digest);

  StitchCosts* costs_;
  std::map<Digest, absl::StatusOr<double>> known_;  // by canonical digest
};

// SearchCosts: the latency-evaluator's costs for plans: SearchStitch's prediction of its best
// schedule.

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

#endif  // SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_
