// ForkGate: who was inside a foreign library when a process forked.
#ifndef SINTER_SRC_BASE_FORK_GATE_H_
#define SINTER_SRC_BASE_FORK_GATE_H_

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace sinter {

// A library that takes locks of its own leaves them held, for ever, in the child of a fork that
// happened while another thread was inside. Every call of such a library passes this gate: it
// counts who is inside, and stays shut in a child whose parent had somebody inside. Takes no lock
// itself. Thread-safe.
class ForkGate {
 public:
  class Pass {
   public:
    Pass(Pass&& other) noexcept : gate_(other.gate_) { other.gate_ = nullptr; }
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    friend class ForkGate;
    explicit Pass(ForkGate* gate) : gate_(gate) {}
    ForkGate* gate_;
  };

  ForkGate() : state_(Of(getpid(), 0)) {}
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;

  // False when the gate is shut: now and for ever in this process and its children.
  Pass Enter() {
    const pid_t self = getpid();
    uint64_t state = state_.load();
    for (;;) {
      const bool own = PidOf(state) == self;
      if (!own && InsideOf(state) != 0) return Pass(nullptr);
      const uint64_t next = own ? state + 1 : Of(self, 1);
      if (state_.compare_exchange_weak(state, next)) return Pass(this);
    }
  }

 private:
  // The process that entered last, and how many of its threads are inside: one word, so that a fork
  // never sees half of it.
  static uint64_t Of(pid_t pid, uint32_t inside) {
    return uint64_t{static_cast<uint32_t>(pid)} << 32 | inside;
  }
  static pid_t PidOf(uint64_t state) { return static_cast<pid_t>(state >> 32); }
  static uint32_t InsideOf(uint64_t state) { return static_cast<uint32_t>(state); }

  // The thread that forked while it was inside leaves in the child what it entered in the parent:
  // that does not open the gate, others may have been inside too.
  void Leave() {
    uint64_t state = state_.load();
    while (PidOf(state) == getpid() && !state_.compare_exchange_weak(state, state - 1)) {
    }
  }

  std::atomic<uint64_t> state_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FORK_GATE_H_
