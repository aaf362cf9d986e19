#include "src/fusion/stitch/search_costs.h"

#include <utility>

#include "src/base/status.h"

namespace sinter {

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
