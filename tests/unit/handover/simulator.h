// Blocks of clusters on the host, their threads as fibers in random order: barriers block, bytes of
// st.async and of bulk loads travel for a random while, and undefined hardware behaviour is an
// error. It runs the text of src/device/handover, with host/ptx/ replacing src/device/ptx/.
//
// It does not model time, nor memory order except for bulk loads of global memory.
#pragma once

#include "tests/support/host_fiber.h"

namespace sinter::handover_simulator {

// What a run leaves out, to see that it is missed.
struct Mutation {
  std::set<uint32_t> passed_waits;  // waits for these barriers, by shared address, do not wait
  bool no_fences = false;           // fence.proxy.async does nothing
  bool no_meetings = false;         // named barriers do nothing
  bool no_remote_arrivals = false;
};

struct Shape {
  int clusters = 1, blocks = 2, threads = 32;  // blocks of a cluster, threads of a block
  int Blocks() const { return clusters * blocks; }
};

// Shared addresses: bits 0-17 lie in a block's window, bits 20 and up hold its number plus one; an
// address without a number is of the current block.
class Simulator {
 public:
  static constexpr uint32_t kWindow = 1 << 18;
  static constexpr int kBlockShift = 20;

  Simulator(Shape shape, uint64_t seed, Mutation mutation);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // Runs `kernel` by every thread of every block. The first error, or "".
  std::string Run(const std::function<void()>& kernel);

  // Position of the running thread.
  int Thread() const;
  int Block() const;  // in the grid
  int Rank() const { return Block() % shape_.blocks; }
  int Cluster() const { return Block() / shape_.blocks; }
  uint32_t Map(uint32_t address, uint32_t rank) const;

  void Pause();  // lets others run, perhaps

  template <class T>
  T Load(uint32_t address) {
    Pause();
    T value;
    std::memcpy(&value, At(address, sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  void Store(uint32_t address, T value) {
    Pause();
    std::memcpy(At(address, sizeof(T)), &value, sizeof(T));
  }
  // Bulk loads see it once the storing thread has fenced it.
  void StoreGlobal(float* to, float value);

  void InitBarrier(uint32_t barrier, uint32_t arrivals);
  void Arrive(uint32_t barrier, int64_t expected_bytes);
  void ArriveRemote(uint32_t barrier);
  void Wait(uint32_t barrier, uint32_t parity);

  void Await(std::function<bool()> ready) { Block(std::move(ready)); }

  // st.async, and bulk loads of global memory into the own block.
  void Send(uint32_t to, uint32_t barrier, const void* value, uint32_t bytes);
  void LoadBulk(uint32_t to, const float* from, uint32_t bytes, uint32_t barrier);

  void FenceProxy();
  void Meet(uint32_t id, uint32_t threads);
  void ClusterArrive();
  void ClusterWait();

  uint64_t remote_bytes() const { return remote_bytes_; }  // of Send, to the own block too

 private:
  struct Fiber {
    HostFiber host;
    int block = 0, thread = 0;
    bool done = false;
    uint32_t cluster_phase = 0;
    std::function<bool()> ready;  // empty: may run
    Fiber();
  };
  struct Barrier {
    uint32_t count = 0, pending = 0, phase = 0;
    int64_t bytes = 0;  // arrived less expected
  };
  struct Message {
    uint32_t to = 0, barrier = 0, bytes = 0;  // addresses with block numbers
    uint8_t value[16] = {};                   // of st.async
    const float* from = nullptr;              // of a bulk load: read on delivery
  };
  struct Meeting {
    uint32_t arrived = 0, phase = 0;
  };
  struct ClusterBarrier {
    uint32_t arrived = 0, phase = 0;
  };

  static void Enter(void* self);
  void Fail(const std::string& what);
  uint32_t Global(uint32_t address) const;
  uint8_t* At(uint32_t address, uint32_t bytes);
  Barrier& BarrierAt(uint32_t barrier);
  void Complete(Barrier& barrier);
  void Block(std::function<bool()> ready);
  void Yield();
  bool Step();     // a message or a fiber; false when nothing can go on
  void Deliver();  // a random message
  bool Resume(Fiber& fiber);
  bool Alive(uint32_t address) const;
  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  const Shape shape_;
  const Mutation mutation_;
  std::mt19937 random_;
  uint32_t network_pace_, slow_block_;
  std::function<void()> kernel_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<int> running_;  // fibers of each block that have not ended
  std::vector<std::vector<uint8_t>> memory_;
  std::map<const float*, const Fiber*> unfenced_;  // who stored it last
  std::map<uint32_t, Barrier> barriers_;
  std::vector<Message> messages_;
  std::map<std::pair<int, uint32_t>, Meeting> meetings_;
  std::vector<ClusterBarrier> clusters_;
  std::string error_;
  uint64_t remote_bytes_ = 0;
};

// The one that the stand-ins of host/ptx act on.
inline thread_local Simulator* simulator = nullptr;

}  // namespace sinter::handover_simulator
