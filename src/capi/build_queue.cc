#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/fork_local.h"
#include "src/base/status.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

// A background build gives way to the threads that serve.
constexpr int kBackgroundNice = 10;
// A cancel flag cannot wake a sleeper.
constexpr std::chrono::milliseconds kWatchPause(20);

}  // namespace

struct BuildQueue::Shared {
  using Waiting = std::map<uint64_t, std::shared_ptr<QueuedBuild>>;  // in the order of arrival

  struct Worker {
    std::thread thread;
    bool busy = false;
  };

  struct State {
    Waiting waiting;
    uint64_t last_ticket = BuildQueue::kNoTicket;
    std::vector<Worker> workers;
    std::thread watcher;
    size_t idle = 0;
    bool stop = false;
    std::condition_variable changed, watched;
  };

  ForkLocal<State, /*kKeep=*/false> state;
};

BuildQueue::BuildQueue(int most) : most_(std::max(1, most)), shared_(std::make_shared<Shared>()) {}

BuildQueue::~BuildQueue() {
  std::vector<std::thread> idle;
  {
    const auto state = shared_->state.Lock();
    state->stop = true;
    state->changed.notify_all();
    state->watched.notify_all();
    for (Shared::Worker& worker : state->workers) {
      if (worker.busy) {
        worker.thread.detach();  // perhaps this very thread
      } else {
        idle.push_back(std::move(worker.thread));
      }
    }
    if (state->watcher.get_id() == std::this_thread::get_id()) {
      state->watcher.detach();
    } else if (state->watcher.joinable()) {
      idle.push_back(std::move(state->watcher));
    }
  }
  for (std::thread& thread : idle) thread.join();
}

void BuildQueue::Work(const std::shared_ptr<Shared>& shared, size_t worker) noexcept {
  (void)setpriority(PRIO_PROCESS, 0, kBackgroundNice);  // the thread's
  auto state = shared->state.Lock();
  for (;;) {
    ++state->idle;
    state->changed.wait(state.lock(), [&] { return state->stop || !state->waiting.empty(); });
    --state->idle;
    if (state->stop) return;
    const auto first = state->waiting.begin();
    std::shared_ptr<QueuedBuild> build = std::move(first->second);
    state->waiting.erase(first);
    state->workers[worker].busy = true;
    state.lock().unlock();
    const absl::Status wanted = build->Wanted();
    if (wanted.ok()) {
      build->Run();
    } else {
      build->Drop(wanted);
    }
    build = nullptr;
    state.lock().lock();
    if (state->stop) return;
    state->workers[worker].busy = false;
  }
}

void BuildQueue::Watch(const std::shared_ptr<Shared>& shared) noexcept {
  auto state = shared->state.Lock();
  while (!state->stop) {
    if (state->waiting.empty()) {
      state->watched.wait(state.lock());
      continue;
    }
    std::vector<std::pair<std::shared_ptr<QueuedBuild>, absl::Status>> unwanted;
    for (auto entry = state->waiting.begin(); entry != state->waiting.end();) {
      absl::Status wanted = entry->second->Wanted();
      const auto current = entry++;
      if (wanted.ok()) continue;
      unwanted.emplace_back(std::move(current->second), std::move(wanted));
      state->waiting.erase(current);
    }
    state.lock().unlock();
    for (auto& [build, why] : unwanted) build->Drop(why);
    unwanted.clear();
    state.lock().lock();
    if (!state->stop) state->watched.wait_for(state.lock(), kWatchPause);
  }
}

absl::StatusOr<uint64_t> BuildQueue::Push(std::shared_ptr<QueuedBuild> build) {
  const auto state = shared_->state.Lock();
  const uint64_t ticket = ++state->last_ticket;
  state->waiting.emplace(ticket, std::move(build));
  try {
    if (state->workers.size() < static_cast<size_t>(most_) && state->idle < state->waiting.size()) {
      state->workers.reserve(static_cast<size_t>(most_));
      state->workers.push_back({std::thread(Work, shared_, state->workers.size()), false});
    }
    if (!state->watcher.joinable()) state->watcher = std::thread(Watch, shared_);
  } catch (const std::exception&) {  // no thread, or no memory for one: fewer do
    if (state->workers.empty()) {
      state->waiting.erase(ticket);
      return ResourceExhausted("prepare: no thread could be started");
    }
  }
  state->changed.notify_one();
  state->watched.notify_one();
  return ticket;
}

void BuildQueue::Withdraw(uint64_t ticket) {
  std::shared_ptr<QueuedBuild> build;
  {
    const auto state = shared_->state.Lock();
    const auto entry = state->waiting.find(ticket);
    if (entry == state->waiting.end()) return;
    build = std::move(entry->second);
    state->waiting.erase(entry);
  }
  build->Drop(Cancelled("prepare: cancelled before its turn"));
}

}  // namespace sinter::capi
