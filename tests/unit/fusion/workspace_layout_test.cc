// Workspace: nothing that lives at the same time overlaps; places are shared where they can be.
#include "src/fusion/plan_assembly.h"
#include "src/product/schedule.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(WorkspaceLayout, BeginsBehindTheFlagsAndIsAligned) {
  const WorkspaceLayout layout = LayOutWorkspace({{100, 0, 1}, {5000, 1, 2}});
  for (uint64_t offset : layout.offsets) {
    EXPECT_GE(offset, kWorkspaceFlagBytes);
    EXPECT_EQ(offset % kPlaceAlignment, 0u);
  }
  EXPECT_EQ(layout.end, kWorkspaceFlagBytes + 5 * 1024 + 1024);
}

TEST(WorkspaceLayout, SharesPlacesOfWhatNeverMeets) {
  const WorkspaceLayout layout = LayOutWorkspace({{4096, 0, 1}, {4096, 3, 4}, {1024, 0, 4}});
  EXPECT_EQ(layout.offsets[0], layout.offsets[1]);
  EXPECT_EQ(layout.end, kWorkspaceFlagBytes + 5120);
}

TEST(WorkspaceLayout, APlaceIsFreeOneKernelLater) {
  const WorkspaceLayout layout = LayOutWorkspace({{4096, 0, 1}, {4096, 2, 3}, {4096, 3, 4}});
  EXPECT_NE(layout.offsets[0], layout.offsets[1]) << "kernel 2 may begin while kernel 1 reads";
  EXPECT_EQ(layout.offsets[0], layout.offsets[2]);
}

TEST(WorkspaceLayout, TakesTheSmallestGapThatFits) {
  // Kernel 2 sees gaps of 4096 and of 2048 bytes between three items of its time.
  const std::vector<WorkspaceItem> items = {{10240, 0, 2}, {4096, 0, 0}, {3072, 0, 2},
                                            {2048, 0, 0},  {1024, 0, 2}, {1024, 2, 2}};
  const WorkspaceLayout layout = LayOutWorkspace(items);
  EXPECT_EQ(layout.offsets[5], layout.offsets[3]);
}

TEST(WorkspaceLayout, NothingNeedsNothing) {
  EXPECT_EQ(LayOutWorkspace({}).end, 0u);
  EXPECT_EQ(LayOutWorkspace({{0, 0, 5}}).end, 0u);
}

TEST(WorkspaceLayout, RandomItemsNeverOverlapInTimeAndPlace) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<WorkspaceItem> items;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 40);
      items.push_back({random() % 100000, first, first + static_cast<int>(random() % 10)});
    }
    const WorkspaceLayout layout = LayOutWorkspace(items);
    for (size_t a = 0; a < items.size(); ++a) {
      EXPECT_LE(layout.offsets[a] + items[a].bytes, std::max(layout.end, layout.offsets[a]));
      for (size_t b = 0; b < a; ++b) {
        if (items[a].first > items[b].last || items[b].first > items[a].last) continue;
        EXPECT_TRUE(layout.offsets[a] + items[a].bytes <= layout.offsets[b] ||
                    layout.offsets[b] + items[b].bytes <= layout.offsets[a]);
      }
    }
  }
}

}  // namespace
}  // namespace sinter
