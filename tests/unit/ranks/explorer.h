// Ranks of a group on the host, and every order in which their steps can come: a model checker that
// runs the text of src/device/ranks and kernels/all_reduce.cuh, with host/ptx/ replacing
// src/device/ptx/.
//
// A block is a fiber of one thread. Everything that it loads between two effects is one step: a
// wait takes nothing before all that it waits for is there, and data that has arrived stays. A
// store travels: it arrives at any later time, in pieces, and in any order, except that stores of
// one rank to one address stay in order. The stores of a kernel have arrived when it ends. Between
// two steps any store may arrive, any block may run, a rank may die with its stores under way, the
// host may abort, and time may pass. Each order is run from the beginning; an order that comes to a
// state seen before is not followed further. A block's state is the set of values that it has
// loaded: the kernel depends on nothing else.
#pragma once

#include "tests/support/host_fiber.h"

namespace sinter::rank_explorer {

// What a run leaves out or does wrong, to see that it is noticed.
struct Mutation {
  bool no_emptying = false;      // slots keep what was read
  bool one_half = false;         // all calls use the same slots
  bool early_advance = false;    // the first block that ends advances the epoch
  bool no_boundary = false;      // a kernel begins while its predecessor runs
  bool header_ignored = false;   // every header is as expected
  bool header_untagged = false;  // a header of any call will do
  bool header_in_pieces = false;
  bool deaf_to_peers = false;  // the outcome in the room is not read
  bool deaf_to_host = false;   // nor what the host asks for
  bool silent = false;         // other ranks are not notified of the end
  bool no_clock = false;
};

struct Scenario {
  int ranks = 2, blocks = 1, calls = 3;
  int pieces = 2;            // in which a vector's store arrives: 1, 2 or 4
  bool timed = true;         // waits end after a time
  bool time_passes = false;  // once, at any step; else when nothing else can happen
  int dies = -1;             // this rank, at any step or never
  int aborted = -1;          // the host of this rank asks for the end, at any step or never
  Mutation mutation;
};

// What a scenario's ranks run, and what must hold. Rooms are zero at first.
struct Subject {
  std::function<void()> reset;  // before each run
  std::function<unsigned char*(int rank)> room;
  size_t room_bytes = 0;
  std::function<uint32_t*(int rank)> host_words;
  std::function<void(int rank, int call)> kernel;             // by each block
  std::function<std::string(int rank, int call)> after_call;  // by the host; "" is right
  // When nothing can happen any more: `ended` says of each rank that its last call has.
  std::function<std::string(const std::vector<bool>& ended)> at_end;
};

struct Exploration {
  std::string error;  // the first, with the steps that lead to it
  uint64_t states = 0, runs = 0, ends = 0;
};

class Explorer {
 public:
  Explorer(const Scenario& scenario, const Subject& subject);
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  // Every order. Stops at the first error, and beyond `most_states` with an error.
  Exploration Explore(uint64_t most_states);
  // Some orders, by chance, to their ends.
  Exploration Sample(int runs, uint32_t seed);

  // Position of the running block.
  int Block() const { return current_->block; }
  int Blocks() const { return scenario_.blocks; }
  int Pieces() const { return scenario_.pieces; }
  uint64_t Now();
  void Load(const void* from, void* to, size_t bytes);
  void LoadHeader(const void* from, void* to);
  void Store(void* to, const void* value, size_t bytes, int pieces);
  void StoreHeader(void* to, const void* value);
  uint32_t FetchAdd(uint32_t* p, uint32_t v);
  uint32_t CompareAndSwap(uint32_t* p, uint32_t expected, uint32_t desired);
  void AwaitEarlierCalls();
  void PollMissed();

 private:
  struct BlockState {
    int rank = 0, block = 0, call = 0;
    bool done = false;
    bool at_boundary = false;  // waits for the rank's earlier call
    bool polls = false;        // sleeps until its room's version is not `slept`
    uint64_t slept = 0;
    bool slept_before = false;          // in this wait
    uint64_t known = 0, tentative = 0;  // of what it loaded: up to its last effect; since
    uint64_t since = 0;                 // the first clock of this wait
    bool loads = false;                 // since it ran last: what it loads at once is one step
  };
  struct Fiber : BlockState {
    HostFiber host;
    Fiber();
  };
  struct Travelling {
    int rank;
    unsigned char* to;
    size_t bytes;
    unsigned char value[16];
  };
  struct Rank {
    bool dead = false;
    uint64_t version = 0;           // of all that its kernels read
    std::vector<int> blocks_ended;  // by call
    unsigned char header[16] = {};  // that it sent last
  };
  enum class Kind { kBlock, kArrival, kDeath, kAbort, kTime };
  struct Option {
    Kind kind;
    int index;
  };
  // An option that was taken: of which rank, and of its block and call or where the store arrived.
  struct Step {
    Kind kind;
    int rank = 0, block = 0, call = 0;
    const unsigned char* to = nullptr;
  };

  static void Enter(void* self);
  void Begin();
  std::vector<Option> Options() const;
  void Take(const Option& option);
  Step StepOf(const Option& option) const;
  std::string Describe(const std::vector<Step>& steps) const;
  uint64_t State() const;
  bool Ready(const Fiber& fiber) const;
  bool CallEnded(int rank, int call) const;
  std::string AtEnd();
  void Yield();
  void BeginLoad();
  void Effect(uint64_t what);
  int RoomOf(const void* p) const;
  unsigned char* Mapped(const void* p) const;
  bool IsOutcome(const void* p) const;

  const Scenario scenario_;
  const Subject subject_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Rank> ranks_;
  std::vector<Travelling> travelling_;
  uint64_t now_ = 1;
  bool died_ = false, aborted_ = false, time_passed_ = false;
  std::string error_;
};

// The one that the stand-ins of host/ptx act on.
inline thread_local Explorer* explorer = nullptr;

}  // namespace sinter::rank_explorer
