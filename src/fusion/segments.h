// Segments: the neighbouring products of a sequence that share a kernel.
#ifndef SINTER_SRC_FUSION_SEGMENTS_H_
#define SINTER_SRC_FUSION_SEGMENTS_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace sinter {

// Products [begin, begin + count): one alone, or a pair in one kernel.
struct Segment {
  int begin = 0, count = 1;

  int end() const { return begin + count; }
  bool operator==(const Segment& o) const { return begin == o.begin && count == o.count; }
};

// Segments that follow one another from product 0 to the last.
using Segmentation = std::vector<Segment>;

int PairsOf(const Segmentation& segments);

// Microseconds of a segment's kernel at its position; infinity when no kernel takes it.
using SegmentCost = std::function<double(const Segment&)>;

// The best `limit` segmentations of `products` products by total cost; of equal totals the one with
// fewer pairs, then the one whose first pair comes later. Empty when none has a finite total.
// Dynamic programming over prefixes: a segment's cost depends on the segment alone. Asks `cost`
// once for each segment.
std::vector<Segmentation> BestSegmentations(int products, const SegmentCost& cost, size_t limit);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_SEGMENTS_H_
