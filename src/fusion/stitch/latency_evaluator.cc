#include "src/fusion/stitch/latency_evaluator.h"

#include <utility>

#include "src/base/status.h"
#include "src/fusion/stitch/body.h"

namespace sinter {

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const StitchGraph& graph,
                                                        const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  const Digest digest = body.body.CanonicalDigest();
  absl::StatusOr<CostedKernel> kernel = Evaluate(vertices, std::move(body), digest);
  if (absl::IsResourceExhausted(kernel.status())) return kernel;
  SINTER_ASSIGN_OR_RETURN(StitchBody turned, ExtractBody(graph, vertices, true));
  const Digest other = turned.body.CanonicalDigest();
  if (other == digest) return kernel;
  absl::StatusOr<CostedKernel> second = Evaluate(vertices, std::move(turned), other);
  const bool faster = second.ok() && (!kernel.ok() || second->us < kernel->us);
  return faster ? second : kernel;
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

absl::StatusOr<double> SearchCosts::LatencyUs(const Chain& body) {
  Ask(options_.pace);
  ++bodies_;
  SINTER_ASSIGN_OR_RETURN(std::vector<RankedStitch> ranked,
                          SearchStitch(body, bucket_, model_, options_));
  if (ranked.empty()) return absl::FailedPreconditionError("no schedule is legal");
  const double us = ranked.front().prediction.total_us;
  rankings_[body.CanonicalDigest()] = std::move(ranked);
  return us;
}

absl::StatusOr<double> SearchCosts::PackedUs(const Chain& body) {
  ++bodies_;
  Ask(options_.pace);
  std::vector<RankedStitch> packings = packed_.Of(body);
  if (packings.empty()) return absl::FailedPreconditionError("no parts that can be packed");
  const double us = packings.front().prediction.total_us;
  packings_[body.CanonicalDigest()] = std::move(packings);
  return us;
}

}  // namespace sinter
