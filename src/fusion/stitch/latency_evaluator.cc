#include "src/fusion/stitch/latency_evaluator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Ops of a body, written again for each concatenation: what a compiler takes in a second or two.
// Without reductions each output is written for its own places.
constexpr int64_t kMostWritten = 4400, kMostFlatWritten = 2000;

absl::Status CheckLength(const Chain& body) {
  int64_t concatenations = 0;
  bool reduces = false;
  for (const Op& op : body.ops()) {
    concatenations += op.kind == OpKind::kConcat;
    reduces |= op.kind == OpKind::kReduce;
  }
  const auto ops = static_cast<int64_t>(body.ops().size());
  const int64_t most = reduces ? kMostWritten : kMostFlatWritten;
  if (ops * (1 + concatenations) <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ops, " ops around ", concatenations,
                                                    " concatenations take a compiler too long"));
}

}  // namespace

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const StitchGraph& graph,
                                                        const NodeSet& vertices) {
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph, vertices));
  const Digest digest = body.body.CanonicalDigest();
  absl::StatusOr<CostedKernel> kernel = Evaluate(vertices, std::move(body), digest);
  if (kernel.ok()) return kernel;
  SINTER_ASSIGN_OR_RETURN(StitchBody turned, ExtractBody(graph, vertices, true));
  const Digest other = turned.body.CanonicalDigest();
  if (other == digest) return kernel;
  absl::StatusOr<CostedKernel> second = Evaluate(vertices, std::move(turned), other);
  return second.ok() ? second : kernel;
}

absl::StatusOr<CostedKernel> LatencyEvaluator::Evaluate(const NodeSet& vertices, StitchBody body,
                                                        const Digest& digest) {
  SINTER_RETURN_IF_ERROR(CheckLength(body.body));
  auto known = known_.find(digest);
  if (known == known_.end()) {
    known = known_.emplace(digest, costs_->LatencyUs(body.body)).first;
  }
  if (!known->second.ok()) return known->second.status();
  return CostedKernel{vertices, std::make_shared<const StitchBody>(std::move(body)),
                      *known->second};
}

}  // namespace sinter
