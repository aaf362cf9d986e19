// Search of packed kernels: gives each independent part of a body the best schedule among those
// with the same threads a block.
#ifndef SINTER_SRC_STITCH_SEARCH_PACKED_SEARCH_H_
#define SINTER_SRC_STITCH_SEARCH_PACKED_SEARCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/digest.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// Keeps the rankings of all parts seen: bodies of one chain share them. Not thread-safe.
class PackedSearch {
 public:
  // `budget` may be null; once it is spent there are no packings.
  PackedSearch(int64_t bucket, const DeviceModel& model, StitchBudget* budget = nullptr)
      : bucket_(bucket), model_(model), budget_(budget) {}

  // Packings of `body`, best first. Empty where the body has no independent parts, where a part has
  // no schedule that fits the others, or where the text would be long. Parts that differ only in
  // extents get one schedule, so that they can share one text.
  std::vector<RankedStitch> Of(const Chain& body);

 private:
  struct Part {
    std::vector<int> outputs;
    Chain body;
  };
  struct Choice {
    StitchSchedule schedule;
    double us = 0;  // all parts together, alone
  };
  // Parts that are alike, and the schedules that all of them can take: the best sum first.
  struct Class {
    std::vector<const Part*> parts;
    std::vector<Choice> schedules;
  };

  const std::vector<RankedStitch>& RankingOf(const Chain& body);
  bool FillSchedules(Class* one);
  static const StitchSchedule* Choose(const Class& one, int threads, int resident);
  // Makes a packing with `threads` a block and at least `resident` blocks an SM.
  bool Pack(const std::vector<Class>& classes, int threads, int resident, RankedStitch* packed);
  const StitchTimes* TimesOf(const Chain& body, const StitchSchedule& schedule);

  const int64_t bucket_;
  const DeviceModel model_;
  StitchBudget* const budget_;
  std::map<Digest, std::vector<RankedStitch>> rankings_;
  std::map<std::pair<Digest, std::string>, StitchTimes> times_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_PACKED_SEARCH_H_
