#include "cache/store/work_queue.h"

#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "src/base/exit_gate.h"

namespace sinter {

bool WorkQueue::Push(uint64_t bytes, std::function<void()> job) {
  const auto state = states_.Lock();
  const bool fits =
      state->jobs.size() < max_jobs_ &&
      (bytes <= max_bytes_ - std::min(state->bytes, max_bytes_) || state->jobs.empty());
  if (closing_ || !fits || !Start(&*state)) return false;
  state->jobs.push_back(Job{bytes, std::move(job)});
  state->bytes += bytes;
  ++state->pushed;
  state->more.notify_one();
  return true;
}

bool WorkQueue::Flush(Limit limit) {
  auto state = states_.Lock();
  const auto done = [&state = *state, goal = state->pushed] { return state.done >= goal; };
  if (limit.has_value()) return state->less.wait_for(state.lock(), *limit, done);
  state->less.wait(state.lock(), done);
  return true;
}

void WorkQueue::Stop(Limit limit) {
  Flush(limit);
  std::thread thread;
  {
    const auto state = states_.Lock();
    closing_ = true;
    while (!state->jobs.empty() && state->jobs.back().run) {
      state->bytes -= state->jobs.back().bytes;
      state->jobs.pop_back();
      ++state->done;
    }
    state->more.notify_all();
    state->less.notify_all();
    thread = std::move(state->thread);
  }
  if (thread.joinable()) thread.join();
}

bool WorkQueue::Start(State* state) {
  if (state->thread.joinable()) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    state->thread = std::thread([this] { Run(); });
  } catch (const std::exception&) {
    // No thread, or no memory for one: nothing is accepted.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return state->thread.joinable();
}

void WorkQueue::Run() {
  auto state = states_.Lock();
  for (;;) {
    while (state->jobs.empty() && !closing_) state->more.wait(state.lock());
    if (state->jobs.empty()) return;
    std::function<void()> run = std::exchange(state->jobs.front().run, nullptr);
    state.lock().unlock();
    try {
      const ExitGate::Pass inside;
      if (inside) run();
    } catch (...) {  // the job is dropped: nothing that jobs do is indispensable
    }
    run = nullptr;  // releases what the job held before anybody hears that it is done
    state.lock().lock();
    state->bytes -= state->jobs.front().bytes;
    state->jobs.pop_front();
    ++state->done;
    state->less.notify_all();
  }
}

}  // namespace sinter
