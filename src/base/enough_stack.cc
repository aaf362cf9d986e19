#include "src/base/enough_stack.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>

#include "src/base/status.h"

namespace sinter {
namespace {

constexpr size_t kUnknown = std::numeric_limits<size_t>::max();

// The lowest address of the thread's stack. 0: unknown, and treated as a large stack. For the first
// thread it asks only the limit, because glibc would read /proc/self/maps, which takes long.
uintptr_t LowestOfStack() {
  if (syscall(SYS_gettid) == getpid()) {
    rlimit limit{};
    const bool small = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < 2 * kEnoughStack;
    return small ? reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) : 0;
  }
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t bytes = 0, guard = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  if (pthread_attr_getguardsize(&attributes, &guard) != 0) guard = 0;
  pthread_attr_destroy(&attributes);
  return known ? reinterpret_cast<uintptr_t>(lowest) + guard : 0;
}

struct Errand {
  absl::FunctionRef<absl::Status()> work;
  absl::Status status;
  std::exception_ptr thrown;

  static void* Run(void* errand) {
    auto* const self = static_cast<Errand*>(errand);
    try {
      self->status = self->work();
    } catch (...) {
      self->thrown = std::current_exception();
    }
    return nullptr;
  }
};

}  // namespace

size_t StackLeft() {
  thread_local const uintptr_t lowest = LowestOfStack();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (lowest == 0) return kUnknown;
  return here > lowest ? here - lowest : 0;
}

absl::Status OnEnoughStack(absl::FunctionRef<absl::Status()> work) {
  const size_t left = StackLeft();
  if (left >= kEnoughStack) return work();
  Errand errand{work, absl::OkStatus(), nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kOwnStack);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Errand::Run, &errand);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    return ResourceExhausted("this thread has ", left >> 10, " KiB of stack left, planning needs ",
                             kEnoughStack >> 10,
                             ", and a thread that has them cannot be made: ", std::strerror(error),
                             "; call on a thread with a larger stack");
  }
  pthread_join(thread, nullptr);
  if (errand.thrown != nullptr) std::rethrow_exception(errand.thrown);
  return errand.status;
}

}  // namespace sinter
