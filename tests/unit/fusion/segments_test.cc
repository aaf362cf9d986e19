// BestSegmentations against all segmentations, written out.
#include "src/fusion/rankings.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Costs by (begin, count).
using Costs = std::map<std::pair<int, int>, double>;

SegmentCost Asks(const Costs& costs) {
  return [&costs](const Segment& s) { return costs.at({s.begin, s.count}); };
}

void Enumerate(int products, const Segmentation& prefix, std::vector<Segmentation>* out) {
  const int begin = prefix.empty() ? 0 : prefix.back().end();
  if (begin == products) out->push_back(prefix);
  for (int count = 1; count <= 2 && begin + count <= products; ++count) {
    Segmentation longer = prefix;
    longer.push_back({begin, count});
    Enumerate(products, longer, out);
  }
}

double TotalOf(const Segmentation& segments, const Costs& costs) {
  double total = 0;
  for (const Segment& s : segments) total += costs.at({s.begin, s.count});
  return total;
}

// All of finite total, in the documented order.
std::vector<Segmentation> Sorted(int products, const Costs& costs) {
  std::vector<Segmentation> all, finite;
  Enumerate(products, {}, &all);
  for (const Segmentation& s : all) {
    if (TotalOf(s, costs) < kNone) finite.push_back(s);
  }
  const auto counts = [](const Segmentation& s) {
    std::vector<int> list;
    for (const Segment& segment : s) list.push_back(segment.count);
    return list;
  };
  std::sort(finite.begin(), finite.end(), [&](const Segmentation& a, const Segmentation& b) {
    return std::make_tuple(TotalOf(a, costs), PairsOf(a), counts(a)) <
           std::make_tuple(TotalOf(b, costs), PairsOf(b), counts(b));
  });
  return finite;
}

Costs RandomCosts(int products, std::mt19937* random) {
  Costs costs;
  for (int i = 0; i < products; ++i) {
    // Few distinct values, exact in binary, so that totals tie.
    costs[{i, 1}] = 0.25 * (1 + (*random)() % 6);
    if (i + 1 < products) costs[{i, 2}] = (*random)() % 4 == 0 ? kNone : 0.5 * ((*random)() % 6);
  }
  return costs;
}

TEST(BestSegmentations, AreThoseOfExhaustiveEnumeration) {
  std::mt19937 random(7);
  for (int products = 1; products <= 11; ++products) {
    for (int trial = 0; trial < 40; ++trial) {
      const Costs costs = RandomCosts(products, &random);
      const std::vector<Segmentation> all = Sorted(products, costs);
      for (size_t limit : {size_t{1}, size_t{3}, size_t{11}, size_t{1000}}) {
        std::vector<Segmentation> want = all;
        if (want.size() > limit) want.resize(limit);
        ASSERT_EQ(BestSegmentations(products, Asks(costs), limit), want)
            << products << " products, limit " << limit << ", trial " << trial;
      }
    }
  }
}

TEST(BestSegmentations, CoverEveryProductOnceInOrder) {
  std::mt19937 random(8);
  const Costs costs = RandomCosts(9, &random);
  for (const Segmentation& segments : BestSegmentations(9, Asks(costs), 100)) {
    int next = 0;
    for (const Segment& s : segments) {
      EXPECT_EQ(s.begin, next);
      next = s.end();
    }
    EXPECT_EQ(next, 9);
  }
}

TEST(BestSegmentations, AskForEachSegmentOnce) {
  std::map<std::pair<int, int>, int> asked;
  const auto cost = [&](const Segment& s) {
    ++asked[{s.begin, s.count}];
    return 1.0;
  };
  EXPECT_EQ(BestSegmentations(64, cost, 11).size(), 11u);
  EXPECT_EQ(asked.size(), 64u + 63u);
  for (const auto& [segment, times] : asked) EXPECT_EQ(times, 1) << segment.first;
}

TEST(BestSegmentations, AreNoneWhenAProductHasNoKernel) {
  const auto cost = [](const Segment& s) { return s.begin == 1 && s.count == 1 ? kNone : 1.0; };
  EXPECT_EQ(BestSegmentations(2, cost, 5), (std::vector<Segmentation>{{{0, 2}}}));
  EXPECT_TRUE(BestSegmentations(
                  2, [](const Segment&) { return kNone; }, 5)
                  .empty());
}

}  // namespace
}  // namespace sinter
