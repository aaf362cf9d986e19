// LatencyEvaluator: the accurate cost of kernels, which picks among the beam's plans.
#ifndef SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_
#define SINTER_SRC_FUSION_STITCH_LATENCY_EVALUATOR_H_

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/fusion/stitch/body.h"

namespace sinter {

// What one kernel over a body takes. Implementations are functions of the body alone.
class StitchCosts {
 public:
  virtual ~StitchCosts() = default;
  // Microseconds, or why no kernel takes the body, naming the op.
  virtual absl::StatusOr<double> LatencyUs(const Chain& body) = 0;
  // Of a kernel whose blocks are shared out among the body's independent parts.
  virtual absl::StatusOr<double> PackedUs(const Chain& body) {
    return absl::UnimplementedError("no packing");
  }
};

struct CostedKernel {
  NodeSet vertices;
  std::shared_ptr<const StitchBody> body;
  double us = 0;
  bool packed = false;  // StitchCosts::PackedUs
};

// Asks `costs` once for every different body, whatever graph it comes from. Not thread-safe.
class LatencyEvaluator {
 public:
  explicit LatencyEvaluator(StitchCosts* costs) : costs_(costs) {}

  // A body that is refused is tried once more with its reductions turned (ExtractBody); the error
  // is that of the first try.
  absl::StatusOr<CostedKernel> Evaluate(const StitchGraph& graph, const NodeSet& vertices);
  // The kernel that packs what `vertices` make, each part as long as a kernel may be.
  absl::StatusOr<CostedKernel> EvaluatePacked(const StitchGraph& graph, const NodeSet& vertices);
  // Different bodies asked for so far.
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
