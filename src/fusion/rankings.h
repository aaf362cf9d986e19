// Rankings: the schedules of every kernel that could compute a part of a sequence of products.
#ifndef SINTER_SRC_FUSION_RANKINGS_H_
#define SINTER_SRC_FUSION_RANKINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/fusion/segments.h"
#include "src/product/search/search.h"
#include "src/product/sequence.h"

namespace sinter {

// As kernels behind another one of their plan: those that a programmatic edge starts early are
// predicted with it. Best first again.
std::vector<RankedSchedule> BehindAnother(std::vector<RankedSchedule> ranked,
                                          const DeviceModel& model);

// Immutable once made. One thread makes it.
class Rankings {
 public:
  // Searches each product alone and each pair that a chain kernel takes; equal ones once. `behind`:
  // another kernel of the plan stands before the first product, too.
  // INVALID_ARGUMENT or FAILED_PRECONDITION naming the product that no kernel takes alone.
  static absl::StatusOr<Rankings> Make(const ProductSequence& sequence, const DeviceModel& model,
                                       const SearchOptions& options, bool behind = false);

  // Best first for the segment's position: kernels after another are predicted with a programmatic
  // edge, if they have one. Empty when no kernel takes the segment.
  const std::vector<RankedSchedule>& Of(const Segment& segment) const;
  // Time of the best schedule; infinity if there is none.
  double CostOf(const Segment& segment) const;

  // Why no pair has a kernel; "" if one has.
  const std::string& why_no_pair() const { return why_no_pair_; }
  uint64_t considered() const { return considered_; }
  uint64_t legal() const { return legal_; }

 private:
  Rankings() = default;
  class Maker;

  std::vector<std::vector<RankedSchedule>> alone_, pairs_;  // by first product
  std::string why_no_pair_;
  uint64_t considered_ = 0, legal_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RANKINGS_H_
