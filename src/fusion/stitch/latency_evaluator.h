// LatencyEvaluator: the accurate cost of kernels, used to pick among the beam's plans.
#ifndef SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_
#define SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/fusion/stitch/body.h"

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

  // A refused body is tried once more with transposed reductions (ExtractBody); the error is that
  // of the first try.
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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_
