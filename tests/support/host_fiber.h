// HostFiber: a function that leaves and later goes on where it left, on a stack of its own; the
// threads of a GPU in tests that run device code on the host.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include "tests/support/common.h"

namespace sinter {

// A fiber begins, goes on and ends in one thread. swapcontext asks the kernel for the signal mask
// at each switch, so only a stack's first function begins by it and all others jump; but the
// address sanitizer follows only swapcontext. Stacks are kept for the thread's next fibers: a
// launch has thousands.
class HostFiber {
 public:
  explicit HostFiber(size_t stack_bytes) {
    for (auto& free : FreeStacks()) {
      if (free->bytes != stack_bytes) continue;
      std::swap(free, FreeStacks().back());
      stack_ = std::move(FreeStacks().back());
      FreeStacks().pop_back();
      return;
    }
    stack_ = std::make_unique<Stack>();
    stack_->bytes = stack_bytes;
    stack_->memory.reset(new char[stack_bytes]);
    getcontext(&stack_->context);
  }
  ~HostFiber() { FreeStacks().push_back(std::move(stack_)); }
  HostFiber(const HostFiber&) = delete;
  HostFiber& operator=(const HostFiber&) = delete;

  // The next Resume calls `run(argument)`. A function that has left and not ended is given up:
  // nothing on its stack is destroyed.
  void Begin(void (*run)(void*), void* argument) {
    stack_->run = run;
    stack_->argument = argument;
    stack_->begun = kJumps && stack_->idle;
  }
  // Returns when the function leaves or ends.
  void Resume() {
    Stack* stack = stack_.get();
    stack->idle = false;
    const bool begun = std::exchange(stack->begun, true);
    if (!begun) Prepare(stack);
    if (!kJumps) {
      swapcontext(&stack->outside, &stack->context);
    } else if (_setjmp(stack->resumer) == 0) {
      if (begun) _longjmp(stack->within, 1);
      setcontext(&stack->context);
    }
  }
  // Called by the function. Returns at the next Resume.
  void Leave() { Leave(stack_.get()); }

 private:
// Sanitizers, which clang does not name here, follow no jump to another stack; a fortified libc
// ends the program.
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    (defined(_FORTIFY_SOURCE) && _FORTIFY_SOURCE > 0)
  static constexpr bool kJumps = false;
#else
  static constexpr bool kJumps = true;
#endif

  struct Stack {
    size_t bytes = 0;
    std::unique_ptr<char[]> memory;
    ucontext_t context, outside;
    jmp_buf within, resumer;
    void (*run)(void*) = nullptr;
    void* argument = nullptr;
    bool begun = false;  // Resume returns into Leave
    bool idle = false;   // its last function has ended
  };

  static std::vector<std::unique_ptr<Stack>>& FreeStacks() {
    static thread_local std::vector<std::unique_ptr<Stack>> stacks;
    return stacks;
  }

  // Never ends: the next function is called where the one before has ended.
  static void Run(unsigned low, unsigned high) {
    auto* stack =
        reinterpret_cast<Stack*>(static_cast<uintptr_t>(low) | static_cast<uintptr_t>(high) << 32);
    for (;;) {
      stack->run(stack->argument);
      stack->idle = true;
      Leave(stack);
    }
  }

  static void Prepare(Stack* stack) {
    const auto address = reinterpret_cast<uintptr_t>(stack);
    stack->context.uc_stack.ss_sp = stack->memory.get();
    stack->context.uc_stack.ss_size = stack->bytes;
    stack->context.uc_link = nullptr;
    makecontext(&stack->context, reinterpret_cast<void (*)()>(&Run), 2,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
  }
  static void Leave(Stack* stack) {
    if (!kJumps) {
      swapcontext(&stack->context, &stack->outside);
    } else if (_setjmp(stack->within) == 0) {
      _longjmp(stack->resumer, 1);
    }
  }

  std::unique_ptr<Stack> stack_;
};

}  // namespace sinter
