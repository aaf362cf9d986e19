// Which slots are whose, found by a warp on the host, for ids at any address of an int.
#include "kernels/grouped_routing.cuh"

#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int kExperts = 5, kBlockM = 64;
using Routing = GroupRouting<kExperts, kBlockM, kLanes>;

struct Operands {
  const int* ids;
};

// The slots of each group that its tiles take, in ascending order.
template <class Ids>
std::vector<std::vector<int>> SlotsOfGroups(const Ids& ids, int total) {
  static Routing::Shared shared;
  static int slots[kBlockM];
  std::vector<std::vector<int>> found(Routing::kGroups);
  std::vector<std::thread> warp;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    warp.emplace_back([&, lane] {
      threadIdx.x = lane;
      Routing::count<kLanes>(shared, ids, total, [] {});
      for (int group = 0; group < Routing::kGroups; ++group) {
        const int tiles = shared.first_tile[group + 1] - shared.first_tile[group];
        for (int tile = 0; tile < tiles; ++tile) {
          const int count = Routing::take(shared, slots, static_cast<int>(lane), ids, total, group,
                                          tile * kBlockM);
          if (lane == 0) {
            found[static_cast<size_t>(group)].insert(found[static_cast<size_t>(group)].end(), slots,
                                                     slots + count);
          }
          __syncthreads();
        }
      }
    });
  }
  for (std::thread& lane : warp) lane.join();
  for (std::vector<int>& group : found) std::sort(group.begin(), group.end());
  return found;
}

// Ids of `rows` rows that begin `first` ints past an address that is a multiple of 16.
template <int kSlots>
void ExpectFrom(int first, int rows) {
  const int total = rows * kSlots;
  std::vector<int> memory(static_cast<size_t>(total) + 8, -7);
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  int* const ids = memory.data() + (16 - begin % 16) % 16 / sizeof(int) + first;
  std::vector<std::vector<int>> expected(Routing::kGroups);
  for (int slot = 0; slot < total; ++slot) {
    ids[slot] = slot * 7 % 11 % 7 - 1;  // -1 to 5: also what names no expert
    expected[static_cast<size_t>(Routing::group_of(ids[slot]))].push_back(slot);
  }
  const GroupIds<kSlots, kSlots, 1> contiguous(Operands{ids});
  EXPECT_EQ(contiguous.has_vectors(), first == 0);
  EXPECT_EQ(SlotsOfGroups(contiguous, total), expected) << first << ", " << rows << " rows";
}

// A pass over M may begin at any row, so that ids of 3 slots may begin at any int.
TEST(GroupedRouting, FindsSlotsOfIdsAtAnyAddress) {
  for (int first = 0; first < 4; ++first) ExpectFrom<3>(first, 57);
  ExpectFrom<1>(1, 29);
  ExpectFrom<8>(0, 40);
  ExpectFrom<8>(0, 300);    // segments of 256, four searched together
  ExpectFrom<1>(0, 17000);  // more than are searched at once
}

// Each unit is one walker's, all walkers have equally many but one, and pieces are neighbours.
template <int kTilesN, int kSteps>
void ExpectWalk(int units, int walkers) {
  using Walk = UnitWalk<kTilesN, kSteps, 16>;
  std::vector<int> taken(static_cast<size_t>(units), 0);
  int least = units, most = 0, begun = 0;
  for (int walker = 0; walker < walkers; ++walker) {
    int mine = 0;
    bool last = false;
    for (Walk walk(units, walker, walkers); walk.more(); walk.next()) {
      EXPECT_FALSE(last) << "behind the last one";
      last = walk.is_last();
      ASSERT_TRUE(walk.unit >= 0 && walk.unit < units);
      ++taken[static_cast<size_t>(walk.unit)];
      begun += walk.begins_tile() ? 1 : 0;
      EXPECT_EQ(walk.tile, walk.unit / kTilesN);
      ++mine;
    }
    EXPECT_EQ(last, mine > 0);
    least = std::min(least, mine);
    most = std::max(most, mine);
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), units) << units << " by " << walkers;
  EXPECT_LE(most - least, 1) << units << " by " << walkers;
  if (units >= walkers * Walk::kMost) {
    EXPECT_LE(begun, units / Walk::kMost + units / kTilesN + walkers);
  }
}

TEST(UnitWalk, DealsEachUnitOnceAndEvenly) {
  for (const int walkers : {1, 4, 132, 396}) {
    for (const int units : {0, 1, 3, 131, 132, 133, 500, 1056, 1057, 11424}) {
      ExpectWalk<28, 2>(units, walkers);
      ExpectWalk<3, 40>(units, walkers);
      ExpectWalk<1, 3>(units, walkers);
    }
  }
}

}  // namespace
}  // namespace sinter
