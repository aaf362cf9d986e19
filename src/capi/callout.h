// CallOut: every call of a function of the caller's. An exception that leaves it becomes a status,
// and a function whose calls were ended is called no more.
#ifndef SINTER_SRC_CAPI_CALLOUT_H_
#define SINTER_SRC_CAPI_CALLOUT_H_

#include <unistd.h>

#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter::capi {

using AnyFunction = void (*)();

// The calling thread calls `function` until the pass dies, which it does on the same thread. Passes
// nest, and take no memory. Thread-safe; the child of a fork starts with none.
class CallPass {
 public:
  explicit CallPass(AnyFunction function);
  ~CallPass();
  CallPass(const CallPass&) = delete;
  CallPass& operator=(const CallPass&) = delete;
  // False when calls of the function were ended: it must not be called.
  explicit operator bool() const { return inside_; }

 private:
  friend bool EndCalls(AnyFunction function);
  const AnyFunction function_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const pid_t owner_ = getpid();
  bool inside_ = false;
  CallPass* previous_ = nullptr;  // in the list of all passes
  CallPass* next_ = nullptr;
};

// No call of `function` begins any more, in this process. Returns once those of other threads have
// ended; false when they had not after kLongestWaitForCalls seconds.
constexpr int kLongestWaitForCalls = 10;
bool EndCalls(AnyFunction function);

// Returns INTERNAL, "the progress callback threw: ..", with the message of the exception that is
// being handled. `name` is the callback's. Call it only inside a catch.
absl::Status ThrownBy(absl::string_view name) noexcept;

template <typename... Parameters, typename... Arguments>
absl::Status CallOut(absl::string_view name, void (*function)(Parameters...),
                     Arguments... arguments) noexcept {
  try {
    const CallPass pass(reinterpret_cast<AnyFunction>(function));
    if (pass) function(arguments...);
    return absl::OkStatus();
  } catch (...) {
    return ThrownBy(name);
  }
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_CALLOUT_H_
