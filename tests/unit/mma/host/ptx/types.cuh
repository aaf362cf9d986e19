// A block on the host: the names that src/device/kernels/mma_product.cuh uses, for threads that run
// in turns, each until it waits for others.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#define SINTER_DEVICE inline
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace sinter {

using std::max;
using std::min;
using u16 = unsigned short;
using u32 = unsigned int;

struct ThreadIndex {
  unsigned x = 0;
};
inline ThreadIndex threadIdx, blockIdx;

// When copies arrive: with the instruction, or only where a thread waits for them.
enum class Arrival { kAtOnce, kWhenAwaited };

class Block {
 public:
  struct Copy {
    u32 to;
    unsigned char bytes[16];
  };
  // What a lane gives to its warp.
  struct Given {
    u32 address, a[4], b[2];
  };

  void Run(int threads, int shared_bytes, Arrival arrival, std::function<void()> body) {
    const auto count = static_cast<size_t>(threads);
    body_ = std::move(body);
    arrival_ = arrival;
    shared_.assign(static_cast<size_t>(shared_bytes), 0xCD);
    threads_.assign(count, Thread());
    warps_.assign(count / 32, Barrier());
    block_ = Barrier();
    given.assign(count, Given());
    for (Thread& thread : threads_) {
      thread.stack.resize(kStackBytes);
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &main_;
      makecontext(&thread.context, &Block::Enter, 0);
    }
    for (bool left = true; left;) {
      left = false;
      for (size_t i = 0; i < count; ++i) {
        // The other way round, other warps are ahead.
        Resume(arrival == Arrival::kAtOnce ? count - 1 - i : i, &left);
      }
    }
  }

  void Join() { Wait(&block_, static_cast<int>(threads_.size())); }
  void JoinWarp() { Wait(&warps_[current_ / 32], 32); }
  // `bytes` of shared memory at `address`, a multiple of them.
  unsigned char* At(u32 address, u32 bytes) {
    if (address % bytes != 0 || address + bytes > shared_.size()) {
      throw std::out_of_range("shared memory");
    }
    return &shared_[address];
  }
  void Add(const Copy& copy) {
    if (arrival_ == Arrival::kAtOnce) return Land(copy);
    threads_[current_].groups.back().push_back(copy);
  }
  void Commit() { threads_[current_].groups.emplace_back(); }
  void Await(size_t pending) {
    std::vector<std::vector<Copy>>& groups = threads_[current_].groups;
    while (groups.size() - 1 > pending) {
      for (const Copy& copy : groups.front()) Land(copy);
      groups.erase(groups.begin());
    }
  }

  std::vector<Given> given;

 private:
  static constexpr size_t kStackBytes = 64 * 1024;

  struct Barrier {
    int there = 0, turn = 0;
  };
  struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    std::vector<std::vector<Copy>> groups = {{}};
    bool done = false;
  };

  static void Enter();
  void Resume(size_t thread, bool* left) {
    if (threads_[thread].done) return;
    *left = true;
    current_ = thread;
    threadIdx.x = static_cast<unsigned>(thread);
    swapcontext(&main_, &threads_[thread].context);
  }
  void Wait(Barrier* barrier, int threads) {
    const int turn = barrier->turn;
    if (++barrier->there == threads) {
      barrier->there = 0;
      ++barrier->turn;
    }
    while (barrier->turn == turn) swapcontext(&threads_[current_].context, &main_);
  }
  void Land(const Copy& copy) { std::memcpy(At(copy.to, 16), copy.bytes, 16); }

  std::function<void()> body_;
  Arrival arrival_ = Arrival::kAtOnce;
  std::vector<unsigned char> shared_;
  std::vector<Thread> threads_;
  std::vector<Barrier> warps_;
  Barrier block_;
  ucontext_t main_;
  size_t current_ = 0;
};
inline Block host_block;
inline void Block::Enter() {
  host_block.body_();
  host_block.threads_[host_block.current_].done = true;
}

inline void jitter() {}
inline void __syncthreads() { host_block.Join(); }
inline u32 shared_address(const void*) { return 0; }
inline u32 __float_as_uint(float x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(u32 bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace sinter
