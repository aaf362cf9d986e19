
#include "src/engine/measured_choice.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using ::testing::Each;
using ::testing::Le;

// What a fake GPU was asked to do; a graph takes `call_us` for each of its calls.
struct World {
  double call_us = 30;
  std::function<double(int replay)> wait_us = [](int) { return 0.0; };  // queued after others' work
  std::vector<std::vector<int>> graphs;                                 // the calls of each
  std::vector<size_t> replayed;                                         // index of the graph
  std::vector<double> replay_us;
  std::vector<uint64_t> copied;
  int allocated = 0, freed = 0;
  double slept_us = 0;
};

GraphNodeHandle HandleOf(int call) {
  return reinterpret_cast<GraphNodeHandle>(static_cast<uintptr_t>(call) + 1);
}

class Graph : public TimedGraph {
 public:
  Graph(World* world, size_t index) : world_(world), index_(index) {}
  absl::StatusOr<double> Replay() override {
    const double us = world_->call_us * static_cast<double>(world_->graphs[index_].size());
    const double waited = world_->wait_us(static_cast<int>(world_->replayed.size()));
    world_->replayed.push_back(index_);
    world_->replay_us.push_back(us + waited);
    return us + waited;
  }

 private:
  World* const world_;
  const size_t index_;
};

class Inner : public Measurer {
 public:
  explicit Inner(World* world) : world_(world) {}
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    return DeviceBuffer{static_cast<DevicePtr>(++world_->allocated) << 32, bytes};
  }
  void Free(DeviceBuffer) override { ++world_->freed; }
  absl::Status Upload(DeviceBuffer to, const void*, uint64_t bytes) override {
    EXPECT_LE(bytes, to.bytes);
    world_->copied.push_back(bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void*, DeviceBuffer, uint64_t bytes) override {
    world_->copied.push_back(bytes);
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t) override {
    world_->copied.push_back(buffer.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeGraph(const GraphCalls&, int, int) override {
    return absl::InternalError("all calls at once");
  }
  absl::StatusOr<std::unique_ptr<TimedGraph>> MakeGraph(const GraphCalls& of, int calls) override {
    world_->graphs.emplace_back();
    NodeEdges edges;
    for (int i = 0; i < calls; ++i) {
      SINTER_ASSIGN_OR_RETURN(edges, of.add(nullptr, edges, i));
    }
    return std::unique_ptr<TimedGraph>(std::make_unique<Graph>(world_, world_->graphs.size() - 1));
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    return enqueue(nullptr);
  }

 private:
  World* const world_;
};

class Wanted : public KeepGoing {
 public:
  absl::Status Check() const override {
    return --left < 0 ? absl::CancelledError("no longer") : absl::OkStatus();
  }
  mutable int left = 1 << 30;
};

class PacedMeasurerTest : public ::testing::Test {
 protected:
  std::unique_ptr<PacedMeasurer> Make() {
    GpuShare share{.slice_us = 100};
    share.sleep = [this](double us) { world.slept_us += us; };
    return std::make_unique<PacedMeasurer>(std::make_unique<Inner>(&world), share, &wanted);
  }
  absl::StatusOr<double> Time(int calls, int replays) {
    const auto add = [this](GraphHandle, const NodeEdges& edges,
                            int i) -> absl::StatusOr<NodeEdges> {
      std::vector<int>& graph = world.graphs.back();
      // Each call depends on the call before it, whose number its edge is here.
      const std::vector<GraphNodeHandle> before = {graph.empty() ? nullptr
                                                                 : HandleOf(graph.back())};
      EXPECT_EQ(edges.from, graph.empty() ? std::vector<GraphNodeHandle>() : before);
      graph.push_back(i);
      return NodeEdges{{HandleOf(i)}};
    };
    return Make()->TimeGraph({nullptr, add}, calls, replays);
  }

  World world;
  Wanted wanted;
};

TEST_F(PacedMeasurerTest, TakesItsShareOfTheTimeInShortSlices) {
  ASSERT_EQ(Time(20, 2).value(), 30);
  EXPECT_THAT(world.replay_us, Each(Le(100)));
  double busy = 0;
  for (const double us : world.replay_us) busy += us;
  EXPECT_GT(busy, 2 * 18 * 30);
  EXPECT_LE(busy / (busy + world.slept_us), 0.02 + 1e-9);
}

TEST_F(PacedMeasurerTest, SlicesFollowOneAnotherThroughTheCalls) {
  ASSERT_TRUE(Time(9, 2).ok());
  ASSERT_EQ(world.graphs.size(), 4u);  // one call tells how many a slice has time for
  EXPECT_THAT(world.graphs[1], ElementsAre(0, 1, 2));
  EXPECT_THAT(world.graphs[3], ElementsAre(6, 7, 8));
  EXPECT_THAT(world.replayed, ElementsAre(0, 0, 1, 2, 3, 1, 2, 3));
}

TEST_F(PacedMeasurerTest, KeepsAtMostSixteenGraphs) {
  world.call_us = 1;
  ASSERT_TRUE(Time(5000, 1).ok());
  EXPECT_EQ(world.graphs.size(), 17u);
  EXPECT_EQ(world.graphs[16].size(), 100u);
}

TEST_F(PacedMeasurerTest, ACallThatIsLongerThanASliceIsASlice) {
  world.call_us = 130;
  EXPECT_EQ(Time(4, 1).value(), 130);
  EXPECT_EQ(world.graphs.size(), 5u);
}

TEST_F(PacedMeasurerTest, WaitsBehindOthersWorkAreNoTimes) {
  world.wait_us = [](int replay) { return replay % 2 == 0 ? 0.0 : 90.0; };
  EXPECT_EQ(Time(20, 2).value(), 30);
}

TEST_F(PacedMeasurerTest, CopiesAreCutAndRestedAfter) {
  const auto paced = Make();
  const std::string bytes((5 << 19) + 1, 'x');
  const DeviceBuffer buffer = paced->Allocate(bytes.size()).value();
  ASSERT_TRUE(paced->Upload(buffer, bytes.data(), bytes.size()).ok());
  EXPECT_THAT(world.copied, ElementsAre(1 << 20, 1 << 20, (1 << 19) + 1));
  EXPECT_GT(world.slept_us, 0);
}

TEST_F(PacedMeasurerTest, WhatIsFreedIsUsedAgainAndGivenBackAtTheEnd) {
  {
    const auto paced = Make();
    paced->Free(paced->Allocate(1000).value());
    EXPECT_EQ(paced->Allocate(900).value().bytes, 1000u);
    paced->Free({1, 1000});
    paced->Free(paced->Allocate(100).value());  // far smaller
    EXPECT_EQ(world.allocated, 2);
    EXPECT_EQ(world.freed, 0);
  }
  EXPECT_EQ(world.freed, 2);
}

TEST_F(PacedMeasurerTest, EndsInAPauseOnceItIsNotWanted) {
  wanted.left = 3;
  const absl::Status status = Time(20, 2).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(world.replayed.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(Make()->Allocate(1).status()));
}

}  // namespace
}  // namespace sinter
