// Rankings: the schedules of every kernel that could compute a part of a sequence of products, and
// the best cuts of runs.
#ifndef SINTER_SRC_FUSION_RANKINGS_H_
#define SINTER_SRC_FUSION_RANKINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/fusion/product_runs.h"
#include "src/product/search/search.h"
#include "src/product/sequence.h"

namespace sinter {

// Segments: the neighbouring products of a sequence that share a kernel.

// Products [begin, begin + count): a single one, or a pair in one kernel.
struct Segment {
  int begin = 0, count = 1;

  int end() const { return begin + count; }
  SINTER_FIELDS(Segment, begin, count);
};

// Segments that follow one another from product 0 to the last.
using Segmentation = std::vector<Segment>;

int PairsOf(const Segmentation& segments);

// Microseconds of a segment's kernel at its position; infinity when no kernel takes it.
using SegmentCost = std::function<double(const Segment&)>;

// The best `limit` segmentations of `products` products by total cost; of equal totals the one with
// fewer pairs, then the one whose first pair comes later. Empty when none has a finite total.
// Dynamic programming over prefixes: a segment's cost depends only on the segment. Asks `cost` once
// for each segment.
std::vector<Segmentation> BestSegmentations(int products, const SegmentCost& cost, size_t limit);

// Immutable once made. One thread makes it.
class Rankings {
 public:
  // Searches each single product and each pair that a chain kernel takes; equal ones once.
  // `options.behind` holds for the first product. INVALID_ARGUMENT or FAILED_PRECONDITION naming
  // the product that no kernel takes by itself.
  static absl::StatusOr<Rankings> Make(const ProductSequence& sequence, const DeviceModel& model,
                                       const SearchOptions& options);

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

struct RankedRun {
  Rankings rankings;
  std::vector<Segmentation> cuts;  // the best ones; possibly without pairs
  Segmentation apart;              // each product by itself

  // The `i`-th cut of a fused plan, or the last; `apart` for an unfused plan.
  const Segmentation& CutAt(bool fused, size_t i) const;
  // Whether the `i`-th cut is `apart`.
  bool IsApart(size_t i) const { return PairsOf(CutAt(true, i)) == 0; }
  // The most schedules that any kernel of the cut has.
  size_t Depth(const Segmentation& cut) const;
  // The `i`-th schedule of each kernel, or its last.
  std::vector<RankedSchedule> SchedulesAt(const Segmentation& cut, size_t i) const;
};

// Not thread-safe.
class RunRankings {
 public:
  // options.top_k bounds the schedules of a kernel and the cuts of a run. `model` must outlive it.
  RunRankings(const DeviceModel& model, const SearchOptions& options)
      : model_(model), options_(options) {}

  // `behind`: another kernel computes the run's rows. Valid while this lives. Errors are
  // Rankings::Make's.
  absl::StatusOr<const RankedRun*> Of(const GraphRun& run, bool behind);
  // Schedules of all runs so far.
  uint64_t considered() const;
  uint64_t legal() const;

 private:
  const DeviceModel& model_;
  const SearchOptions options_;
  // By canonical sequence, m, and whether it follows another kernel.
  std::map<std::tuple<std::string, int64_t, bool>, RankedRun> known_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RANKINGS_H_
