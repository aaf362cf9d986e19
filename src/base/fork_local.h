// A value behind a mutex that stays usable in the child of a fork.
#ifndef SINTER_SRC_BASE_FORK_LOCAL_H_
#define SINTER_SRC_BASE_FORK_LOCAL_H_

#include <sched.h>
#include <unistd.h>

#include <atomic>
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

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FORK_LOCAL_H_
