// Who takes what of a task list, against a walk written out; and what it waits for.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/search/search.h"
#include "src/product/search/space.h"
#include "tests/support/sequences.h"
#include "tests/unit/product/problems.h"

namespace sinter {
namespace {

std::vector<TaskCounts> Walked(int64_t first, int64_t second, int64_t clusters) {
  std::vector<TaskCounts> taken(static_cast<size_t>(clusters));
  for (int64_t unit = 0; unit < first + second; unit++) {
    TaskCounts& cluster = taken[static_cast<size_t>(unit % clusters)];
    (unit < first ? cluster.first : cluster.second)++;
  }
  return taken;
}

TEST(TaskList, NoClusterHasMoreToDoThanTheBusiest) {
  for (int64_t clusters : {1, 5, 66}) {
    for (int64_t first : {0, 1, 7, 66, 100, 131, 132, 448}) {
      for (int64_t second : {0, 1, 31, 32, 66, 120}) {
        const auto busiest = BusiestClusters(first, second, clusters);
        const auto taken = Walked(first, second, clusters);
        for (const double weight : {0.1, 1.0, 3.5}) {
          const auto work = [&](const TaskCounts& c) {
            return static_cast<double>(c.first) + weight * static_cast<double>(c.second);
          };
          double most = 0;
          for (const TaskCounts& c : taken) most = std::max(most, work(c));
          EXPECT_EQ(std::max(work(busiest[0]), work(busiest[1])), most)
              << first << " + " << second << " units on " << clusters;
        }
      }
    }
  }
}

TEST(TaskList, WaitsForColumnsThatComeTooLate) {
  // 100 units on 66 clusters: the second turn's columns are the last third.
  const TaskTimes slow{10, 1, 2}, even{10, 10, 2}, late{10, 100, 2};
  EXPECT_DOUBLE_EQ(WaitUs({1, 1}, 100, 66, slow), 2 * 10 + 2 - 10 - 0.66 * 1);
  EXPECT_DOUBLE_EQ(WaitUs({1, 1}, 100, 66, even), 2 * 10 + 2 - 10 - 0.66 * 10);
  // The first columns of the turn that just ended are still under way.
  EXPECT_DOUBLE_EQ(WaitUs({1, 1}, 100, 66, late), 2);
  // A cluster that took part in the last turn needs its columns last.
  EXPECT_DOUBLE_EQ(WaitUs({2, 1}, 100, 66, late), 0);
  EXPECT_DOUBLE_EQ(WaitUs({2, 0}, 100, 66, slow), 0);
  // One turn: everything comes at once.
  EXPECT_DOUBLE_EQ(WaitUs({1, 1}, 66, 66, late), 2);
  EXPECT_DOUBLE_EQ(WaitUs({0, 1}, 40, 66, late), 12);
}

int ListsOf(const ProductSequence& p, const DeviceModel& model, bool asked = true,
            bool cooperative = true) {
  SearchOptions options;
  if (asked) options.offered = Offered::kTuning;
  options.allow_cooperative = cooperative;
  int lists = 0;
  EnumerateSpace(p, model, options, [&](const Schedule& s) {
    if (s.dataflow != Dataflow::kTaskList || !CheckSchedule(p, s, model).ok()) return;
    lists++;
    EXPECT_TRUE(IsCooperative(s));
    EXPECT_GT(Predict(p, s, model).total_us, 0);
  });
  return lists;
}

TEST(TaskList, TheSpaceHasThemWhereAskedForAboveOneRowTileUnderACooperativeLaunch) {
  const DeviceModel model = *BuiltinModel("h200");
  EXPECT_EQ(ListsOf(Ffn(true, 3072, 1024, 1024, Layout::kOI, 128), model), 0);
  EXPECT_GT(ListsOf(Ffn(true, 3072, 1024, 1024, Layout::kOI, 256), model), 100);
  const ProductSequence chain = Ffn(false, 4712, 3912, 1064, Layout::kIO, 512);
  EXPECT_GT(ListsOf(chain, model), 100);
  EXPECT_EQ(ListsOf(chain, model, false), 0);
  EXPECT_EQ(ListsOf(chain, model, true, false), 0);
}

// The list pays for the last turn once: where one product leaves half of the chip idle, the other
// one fills it.
TEST(TaskList, QuantisationIsPaidOnce) {
  const DeviceModel model = *BuiltinModel("h200");
  const ProductSequence p = Ffn(true, 14336, 4096, 4096, Layout::kOI, 512);
  Schedule s;
  s.dataflow = Dataflow::kTaskList;
  s.block_k = 64;
  s.stages = 4;
  s.cluster = 2;
  s.share = s.second_share = Share::kWeights;
  s.grid = 132;
  s.first = {128, 1};
  s.second = {64, 1};
  ASSERT_TRUE(CheckSchedule(p, s, model).ok()) << CheckSchedule(p, s, model);
  Schedule first = s, second = s;
  first.dataflow = second.dataflow = Dataflow::kProduct;
  first.second_share = second.second_share = Share::kNone;
  first.second = second.second = {};
  second.first = s.second;
  const double apart =
      Predict(FirstOf(p), first, model).total_us + Predict(SecondOf(p), second, model).total_us;
  EXPECT_LT(Predict(p, s, model).total_us, 0.97 * apart);
}

}  // namespace
}  // namespace sinter
