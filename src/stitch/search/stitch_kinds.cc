#include "src/stitch/search/stitch_kinds.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace sinter {
namespace {

// The schedule's bytes without the grid, the amount that is held, and whether values that all units
// read alike are kept.
std::string KindOf(StitchSchedule s) {
  s.grid = s.LaunchCluster();
  s.hold_bytes = std::min(s.hold_bytes, 16);
  s.keep_alike = false;
  return s.Canonical();
}

}  // namespace

void PutKindsFirst(std::vector<RankedStitch>* ranked) {
  std::set<std::string> kinds;
  std::vector<RankedStitch> first, others;
  for (RankedStitch& one : *ranked) {
    const bool fresh = kinds.insert(KindOf(one.schedule)).second;
    (fresh ? first : others).push_back(std::move(one));
  }
  std::move(others.begin(), others.end(), std::back_inserter(first));
  *ranked = std::move(first);
}

}  // namespace sinter
