// BuildTurns: background builds take turns, so that they leave the processors to who serves.
#ifndef SINTER_SRC_ENGINE_BUILD_TURNS_H_
#define SINTER_SRC_ENGINE_BUILD_TURNS_H_

#include <unistd.h>

#include <condition_variable>

#include "absl/status/statusor.h"
#include "src/base/fork_local.h"
#include "src/base/status.h"
#include "src/engine/control.h"

namespace sinter {

// At most `most` turns are out at once. Thread-safe; in the child of a fork none is out.
class BuildTurns {
 public:
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : turns_(other.turns_), owner_(other.owner_) {
      other.turns_ = nullptr;
    }
    Turn& operator=(Turn&&) = delete;
    // A thread that forked while it had its turn did not take it in the child.
    ~Turn() {
      if (turns_ != nullptr && owner_ == getpid()) turns_->GiveBack();
    }

   private:
    friend class BuildTurns;
    explicit Turn(BuildTurns* turns) : turns_(turns), owner_(getpid()) {}
    BuildTurns* turns_ = nullptr;
    pid_t owner_ = 0;
  };

  explicit BuildTurns(int most) : most_(most) {}

  // Waits for a turn, which ends with the object. CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<Turn> Wait(const BuildControl& control) {
    auto state = state_.Lock();
    while (state->out >= most_) {
      SINTER_RETURN_IF_ERROR(control.Check("another background build ended"));
      state->given_back.wait_until(state.lock(), control.NextPoll());
    }
    ++state->out;
    return Turn(this);
  }

 private:
  struct State {
    int out = 0;
    std::condition_variable given_back;
  };
  void GiveBack() {
    const auto state = state_.Lock();
    --state->out;
    state->given_back.notify_one();
  }

  const int most_;
  ForkLocal<State, /*kKeep=*/false> state_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_BUILD_TURNS_H_
