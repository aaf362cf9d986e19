// Dominators: small graphs by hand, random ones against their definition.
#include "src/stitch/phases.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using Successors = std::vector<std::vector<int>>;

// Whether `to` is reached from node 0 without passing through `without`.
bool Reaches(const Successors& successors, int to, int without) {
  std::vector<bool> seen(successors.size());
  std::vector<int> open;
  if (without != 0) open.push_back(0);
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (seen[static_cast<size_t>(node)]) continue;
    seen[static_cast<size_t>(node)] = true;
    for (const int next : successors[static_cast<size_t>(node)]) {
      if (next != without) open.push_back(next);
    }
  }
  return seen[static_cast<size_t>(to)];
}

TEST(Dominance, OfADiamondIsItsHead) {
  const std::vector<int> immediate = ImmediateDominators({{1}, {2, 3}, {4}, {4}, {}});
  EXPECT_EQ(immediate, (std::vector<int>{0, 0, 1, 1, 1}));
  EXPECT_TRUE(Dominates(immediate, 1, 4));
  EXPECT_TRUE(Dominates(immediate, 4, 4));
  EXPECT_FALSE(Dominates(immediate, 2, 4));
  EXPECT_FALSE(Dominates(immediate, 4, 1));
}

TEST(Dominance, WhatCannotBeReachedHasNone) {
  const std::vector<int> immediate = ImmediateDominators({{1}, {}, {1}});
  EXPECT_EQ(immediate, (std::vector<int>{0, 0, -1}));
  EXPECT_FALSE(Dominates(immediate, 0, 2));
}

// Cooper, Harvey and Kennedy's figure 4: a graph that takes more than one pass.
TEST(Dominance, OfCirclesSettles) {
  EXPECT_EQ(ImmediateDominators({{5, 4}, {2}, {1, 3}, {2}, {2, 3}, {1}}),
            (std::vector<int>{0, 0, 0, 0, 0, 0}));
}

TEST(Dominance, IsWhatItsDefinitionSaysOnRandomGraphs) {
  std::mt19937 random(11);
  int dominated = 0;
  for (int graph = 0; graph < 300; ++graph) {
    const int nodes = 2 + static_cast<int>(random() % 12);
    Successors successors(static_cast<size_t>(nodes));
    for (int edge = 0; edge < nodes * 2; ++edge) {
      successors[random() % successors.size()].push_back(static_cast<int>(random() % nodes));
    }
    const std::vector<int> immediate = ImmediateDominators(successors);
    for (int node = 0; node < nodes; ++node) {
      const bool reached = Reaches(successors, node, -1);
      EXPECT_EQ(immediate[static_cast<size_t>(node)] >= 0, reached);
      for (int over = 0; reached && over < nodes; ++over) {
        const bool expected = over == node || !Reaches(successors, node, over);
        EXPECT_EQ(Dominates(immediate, over, node), expected) << over << " over " << node;
        dominated += expected && over != node && over != 0;
      }
    }
  }
  EXPECT_GT(dominated, 100);
}

}  // namespace
}  // namespace sinter
