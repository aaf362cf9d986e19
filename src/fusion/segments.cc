#include "src/fusion/segments.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sinter {
namespace {

struct Prefix {
  double us = 0;
  int pairs = 0;
  Segmentation segments;
};

bool PairsLater(const Segmentation& a, const Segmentation& b) {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Segment& x, const Segment& y) { return x.count < y.count; });
}

bool Better(const Prefix& a, const Prefix& b) {
  if (a.us != b.us) return a.us < b.us;
  return a.pairs != b.pairs ? a.pairs < b.pairs : PairsLater(a.segments, b.segments);
}

void Extend(const std::vector<Prefix>& shorter, const Segment& segment, double us,
            std::vector<Prefix>* out) {
  if (!std::isfinite(us)) return;
  for (Prefix prefix : shorter) {
    prefix.us += us;
    prefix.pairs += segment.count - 1;
    prefix.segments.push_back(segment);
    out->push_back(std::move(prefix));
  }
}

}  // namespace

int PairsOf(const Segmentation& segments) {
  int pairs = 0;
  for (const Segment& segment : segments) pairs += segment.count - 1;
  return pairs;
}

std::vector<Segmentation> BestSegmentations(int products, const SegmentCost& cost, size_t limit) {
  std::vector<std::vector<Prefix>> best(static_cast<size_t>(products) + 1);  // by length
  best[0].push_back({});
  for (int end = 1; end <= products; ++end) {
    std::vector<Prefix>& here = best[static_cast<size_t>(end)];
    for (int count = 1; count <= std::min(2, end); ++count) {
      const Segment last{end - count, count};
      Extend(best[static_cast<size_t>(last.begin)], last, cost(last), &here);
    }
    std::sort(here.begin(), here.end(), Better);
    if (here.size() > limit) here.resize(limit);
  }
  std::vector<Segmentation> result;
  for (Prefix& prefix : best.back()) result.push_back(std::move(prefix.segments));
  return result;
}

}  // namespace sinter
