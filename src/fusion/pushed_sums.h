// Sums over ranks whose operand the kernel before them pushes to the other ranks: two kernels that
// are one call of a group (src/device/ranks).
#ifndef SINTER_SRC_FUSION_PUSHED_SUMS_H_
#define SINTER_SRC_FUSION_PUSHED_SUMS_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/fusion/plan_assembly.h"
#include "src/model/search_options.h"

namespace sinter {

// OK where each kernel that pushes stands before one that takes its result so, and the other way
// round. Of steps that are else legal.
absl::Status CheckPushedSums(const Chain& chain, const std::vector<PlanStep>& steps);

// Of one chain, bucket and chip, which outlive it.
class PushedSums {
 public:
  PushedSums(const Chain& chain, int64_t bucket, const DeviceModel& model,
             const SearchOptions& options)
      : chain_(chain), bucket_(bucket), model_(model), options_(options) {}

  // Puts kernels that push, and those that take what is pushed, where they are predicted to be
  // faster together than the steps' kernels. Whether there is such a place.
  bool Put(std::vector<PlanStep>* steps);

 private:
  struct Pair {
    RankedSchedule product;
    OwnChoice sum;
    double us = 0;
  };
  std::optional<Pair> Best(const PlanStep& product, const PlanStep& sum, bool behind) const;
  std::optional<Pair> BestEarly(const ProductSequence& part, const OwnRun& sum, bool behind) const;

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions options_;
  // By the run of the sum, and whether another kernel stands before the product.
  std::map<std::pair<const GraphRun*, bool>, std::optional<Pair>> known_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PUSHED_SUMS_H_
