// What holds over a fork: a value behind a mutex that stays usable in the child; who was inside a
// foreign library.
#ifndef SINTER_SRC_BASE_FORK_LOCAL_H_
#define SINTER_SRC_BASE_FORK_LOCAL_H_

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace sinter {

// The child of a fork gets the mutex as it was: held, for ever, if another thread of the parent was
// inside. The first use in a child finds out. If the mutex is free, nobody was inside, the value is
// whole and (kKeep) goes on being used; else the child gets a new value, and the old one is left
// alone: it may be half-changed and cannot be destroyed. T is default-constructible. Thread-safe.
template <typename T, bool kKeep = true>
class ForkLocal {
 public:
  class Locked {
   public:
    T* operator->() const { return value_; }
    T& operator*() const { return *value_; }
    std::unique_lock<std::mutex>& lock() { return lock_; }

   private:
    friend class ForkLocal;
    Locked(T* value, std::mutex& mutex) : value_(value), lock_(mutex) {}
    T* value_;
    std::unique_lock<std::mutex> lock_;
  };

  ForkLocal() : cell_(new Cell(getpid())) {}
  ~ForkLocal() {
    Cell* cell = cell_.load();
    if (cell->owner.load() == getpid() || (kKeep && IsFree(cell))) delete cell;
  }
  ForkLocal(const ForkLocal&) = delete;
  ForkLocal& operator=(const ForkLocal&) = delete;

  Locked Lock() {
    Cell* cell = Current();
    return Locked(&cell->value, cell->mutex);
  }

 private:
  static constexpr pid_t kChanging = -1;

  struct Cell {
    explicit Cell(pid_t pid) : owner(pid) {}
    std::atomic<pid_t> owner;
    std::mutex mutex;
    T value{};
  };

  Cell* Current() {
    const pid_t self = getpid();
    for (;;) {
      Cell* cell = cell_.load(std::memory_order_acquire);
      pid_t owner = cell->owner.load(std::memory_order_acquire);
      if (owner == self) return cell;
      if (owner == kChanging || !cell->owner.compare_exchange_strong(owner, kChanging)) {
        sched_yield();
        continue;
      }
      return TakeOver(cell, self);
    }
  }

  static bool IsFree(Cell* cell) {
    if (!cell->mutex.try_lock()) return false;
    cell->mutex.unlock();
    return true;
  }

  // In a child, by its one thread that got here first.
  Cell* TakeOver(Cell* cell, pid_t self) {
    if (kKeep && IsFree(cell)) {
      cell->owner.store(self, std::memory_order_release);
      return cell;
    }
    Cell* fresh = new Cell(self);
    cell_.store(fresh, std::memory_order_release);
    return fresh;
  }

  std::atomic<Cell*> cell_;
};

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

#endif  // SINTER_SRC_BASE_FORK_LOCAL_H_
