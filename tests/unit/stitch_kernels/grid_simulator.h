// GridSimulator: all blocks of a launch on the host, their threads as fibers that run in random
// order, or some far ahead of others, from one meeting to the next. Whoever reads what a missing
// barrier should have brought reads poison, and a launch that cannot go on is an error.
//
// What it does not model: memory order, time, and races inside a stretch without meetings.
#pragma once

#include "tests/support/host_fiber.h"

namespace sinter::stitch_host {

struct GridShape {
  int grid = 1, block = 32, cluster = 1;  // blocks of the launch and of a cluster, threads
  size_t shared_bytes = 0;                // of a block
};

class GridSimulator {
 public:
  GridSimulator(const GridShape& shape, uint64_t seed);
  ~GridSimulator();
  GridSimulator(const GridSimulator&) = delete;
  GridSimulator& operator=(const GridSimulator&) = delete;

  // `kernel` by every thread of every block. The first error, or "".
  std::string Run(const std::function<void()>& kernel);

  // Position of the running thread.
  int thread() const { return current_->thread; }
  int block() const { return current_->block; }
  const GridShape& shape() const { return shape_; }
  unsigned char* Shared() { return SharedOf(block()); }
  // A word in the shared memory of block `rank` of the thread's cluster. Fails the run outside it.
  void* PeerWord(uint32_t offset, uint32_t rank);

  // Barrier `id` of the block, 0 to 15.
  void Meet(uint32_t id, uint32_t threads);
  // The value of the lane whose number differs by `flip`. All of `lanes`, which are an aligned
  // power of two of a warp's and hold the caller.
  uint32_t Exchange(uint32_t bits, uint32_t flip, uint32_t lanes);
  void ClusterArrive();
  void ClusterWait();
  // Lets others run, in a loop that waits for memory.
  void Spin();
  void Fail(const std::string& what);

 private:
  struct Fiber {
    HostFiber host;
    int block = 0, thread = 0;
    bool arrived = false;  // at its cluster's barrier, and has not waited yet
    uint64_t cluster_phase = 0;
    Fiber();
  };
  struct Barrier {
    uint32_t threads = 0, arrived = 0;
    uint64_t phase = 0;
    std::vector<Fiber*> waiting;
  };
  // Lanes that exchange values; two sets of words take turns.
  struct Lanes {
    Barrier barrier;
    uint32_t bits[2][32] = {};
  };

  static constexpr uint32_t kBarriers = 16;  // of a block

  static void Enter(void* self);
  unsigned char* SharedOf(int block) { return shared_[static_cast<size_t>(block)].data(); }
  void MakeFiber(int number);
  void CheckGuards();
  void MeetAt(Barrier* barrier, uint32_t threads);
  void Release(Barrier* barrier);
  void Leave();  // to the scheduler; comes back when this fiber is ready and drawn

  const GridShape shape_;
  std::mt19937 random_;
  const bool ahead_;
  std::function<void()> kernel_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> ready_;
  size_t ended_ = 0;
  uint64_t spins_ = 0;  // since something else happened
  std::vector<std::vector<unsigned char>> shared_;
  std::vector<Barrier> barriers_, clusters_;
  std::map<std::pair<int, uint32_t>, Lanes> lanes_;  // by warp of the launch and lanes
  std::string error_;
};

// The one that the words of host_words.h act on.
inline thread_local GridSimulator* simulator = nullptr;

}  // namespace sinter::stitch_host
