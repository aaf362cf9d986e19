#include "src/fusion/stitch/latency_evaluator.h"

#include <utility>

#include "src/base/status.h"
#include "src/fusion/stitch/body_length.h"

namespace sinter {
absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const StitchGraph& graph,
                                                        const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  const Digest digest = body.body.CanonicalDigest();
  absl::StatusOr<CostedKernel> kernel = Evaluate(vertices, std::move(body), digest);
  if (kernel.ok() || absl::IsResourceExhausted(kernel.status())) return kernel;
  SINTER_ASSIGN_OR_RETURN(StitchBody turned, ExtractBody(graph, vertices, true));
  const Digest other = turned.body.CanonicalDigest();
  if (other == digest) return kernel;
  absl::StatusOr<CostedKernel> second = Evaluate(vertices, std::move(turned), other);
  return second.ok() ? second : kernel;
}

absl::StatusOr<CostedKernel> LatencyEvaluator::EvaluatePacked(const StitchGraph& graph,
                                                              const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  SINTER_ASSIGN_OR_RETURN(const double us, costs_->PackedUs(body.body));
  return CostedKernel{vertices, std::make_shared<const StitchBody>(std::move(body)), us, true};
}

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const NodeSet& vertices, StitchBody body,
                                                        const Digest& digest) {
  SINTER_RETURN_IF_ERROR(CheckBodyLength(body.body));
  auto known = known_.find(digest);
  if (known == known_.end()) {
    absl::StatusOr<double> us = costs_->LatencyUs(body.body);
    if (absl::IsResourceExhausted(us.status())) return us.status();  // says nothing of the body
    known = known_.emplace(digest, std::move(us)).first;
  }
  if (!known->second.ok()) return known->second.status();
  return CostedKernel{vertices, std::make_shared<const StitchBody>(std::move(body)), *known->second,
                      false};
}

}  // namespace sinter
