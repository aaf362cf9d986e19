#include "cache/tiers/write_behind.h"

#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "src/base/exit_gate.h"

namespace sinter {

WriteBehind::~WriteBehind() {
  std::thread thread;
  {
    const auto state = states_.Lock();
    state->closing = true;
    state->more.notify_all();
    thread = std::move(state->thread);
  }
  if (thread.joinable()) thread.join();
}

bool WriteBehind::Push(uint64_t bytes, std::function<void()> job) {
  const auto state = states_.Lock();
  const bool fits =
      state->jobs.size() < max_jobs_ &&
      (bytes <= max_bytes_ - std::min(state->bytes, max_bytes_) || state->jobs.empty());
  if (!fits || !Start(&states_, &*state)) return false;
  state->jobs.push_back(Job{bytes, std::move(job)});
  state->bytes += bytes;
  ++state->pushed;
  state->more.notify_one();
  return true;
}

void WriteBehind::Flush() {
  auto state = states_.Lock();
  const uint64_t goal = state->pushed;
  while (state->done < goal) state->less.wait(state.lock());
}

bool WriteBehind::Start(States* states, State* state) {
  if (state->thread.joinable()) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    state->thread = std::thread(Run, states);
  } catch (const std::exception&) {
    // No thread, or no memory for one: nothing is accepted.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return state->thread.joinable();
}

void WriteBehind::Run(States* states) {
  auto state = states->Lock();
  for (;;) {
    while (state->jobs.empty() && !state->closing) state->more.wait(state.lock());
    if (state->jobs.empty()) return;
    const uint64_t bytes = state->jobs.front().bytes;
    std::function<void()> run = std::move(state->jobs.front().run);
    state.lock().unlock();
    try {
      const ExitGate::Pass inside;
      if (inside) run();
    } catch (...) {  // dropped: what is not written is a miss later
    }
    run = nullptr;  // what the job held is released before anybody hears that it is done
    state.lock().lock();
    state->jobs.pop_front();
    state->bytes -= bytes;
    ++state->done;
    state->less.notify_all();
  }
}

}  // namespace sinter
