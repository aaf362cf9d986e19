// Firewall: the only way from C++ to C. Turns a status into a number and an error object, and every
// exception into a status.
#ifndef SINTER_SRC_CAPI_FIREWALL_H_
#define SINTER_SRC_CAPI_FIREWALL_H_

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "sinter/sinter.h"
#include "src/base/digest.h"
#include "src/base/refusal.h"
#include "src/base/status.h"

namespace sinter::capi {

// The number of `status`, and where `error` is a place, a new error. When even that cannot be
// allocated, the place receives NULL.
sinter_status Report(const absl::Status& status, sinter_error** error) noexcept;
// The same for what was thrown: bad_alloc is RESOURCE_EXHAUSTED, all else INTERNAL. `what` may be
// null.
sinter_status ReportThrown(bool out_of_memory, const char* what, sinter_error** error) noexcept;

// Runs `body`, a callable that returns absl::Status. Nothing escapes.
template <typename Body>
sinter_status Guard(sinter_error** error, Body&& body) noexcept {
  try {
    const absl::Status status = body();
    return status.ok() ? SINTER_OK : Report(status, error);
  } catch (const std::bad_alloc&) {
    return ReportThrown(true, nullptr, error);
  } catch (const std::exception& e) {
    return ReportThrown(false, e.what(), error);
  } catch (...) {
    return ReportThrown(false, nullptr, error);
  }
}

absl::Status CheckNotNull(const void* pointer, absl::string_view name);

// Stores what `make() -> absl::StatusOr<T>` returns in `*out`, the parameter called `name`.
template <typename T, typename Make>
sinter_status Give(T* out, absl::string_view name, sinter_error** error, Make&& make) noexcept {
  return Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(CheckNotNull(out, name));
    SINTER_ASSIGN_OR_RETURN(*out, make());
    return absl::OkStatus();
  });
}

// Runs `body`; its result, or `fallback` when it throws. For functions that return no status.
template <typename T, typename Body>
T GuardOr(T fallback, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return fallback;
  }
}

// Handle: what every opaque object of the ABI begins with. A magic word tells a live object of the
// right kind from anything else; a count of references decides when it dies.

// Invariant: magic_ is T::kMagic from construction to destruction and kDead afterwards.
template <typename T>
class Handle {
 public:
  Handle() : magic_(T::kMagic) {}
  ~Handle() { *const_cast<volatile uint32_t*>(&magic_) = kDead; }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  bool Live() const { return magic_ == T::kMagic; }
  void Retain() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  // False when the last reference was dropped: the object is being destroyed.
  bool TryRetain() const {
    uint32_t refs = refs_.load(std::memory_order_relaxed);
    while (refs != 0 && !refs_.compare_exchange_weak(refs, refs + 1)) continue;
    return refs != 0;
  }
  // How many references are left.
  uint32_t Drop() const { return refs_.fetch_sub(1, std::memory_order_acq_rel) - 1; }

 private:
  static constexpr uint32_t kDead = 0xdeadd00d;
  uint32_t magic_;
  mutable std::atomic<uint32_t> refs_{1};
};

template <typename T>
bool IsLive(const T* object) {
  return object != nullptr && object->Live();
}

// INVALID_ARGUMENT unless `object` is live. `name` is the parameter's.
template <typename T>
absl::Status Check(const T* object, absl::string_view name) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(object, name));
  if (object->Live()) return absl::OkStatus();
  return WithField(Invalid(name, " is not a live ", T::kTypeName), name, "", T::kTypeName);
}

template <typename T>
void RetainHandle(const T* object) {
  if (IsLive(object)) object->Retain();
}

template <typename T>
void ReleaseHandle(const T* object) {
  if (IsLive(object) && object->Drop() == 0) delete object;
}

// Owns a reference to a handle, or nothing.
struct HandleReleaser {
  template <typename T>
  void operator()(const T* object) const {
    ReleaseHandle(object);
  }
};
template <typename T>
using HandleRef = std::unique_ptr<T, HandleReleaser>;

// A reference of its own to `object`, which may be null.
template <typename T>
HandleRef<T> RefTo(T* object) {
  RetainHandle(object);
  return HandleRef<T>(object);
}

// Structs with a size: reading options of any age, writing results of any age.

// Copies the struct at `from`, whose first field is its size, over the zeroed `size` bytes at `to`.
// INVALID_ARGUMENT when the size is below 8 or above 4096, or when bytes beyond `size` are not
// zero.
absl::Status CopyIn(const void* from, absl::string_view name, void* to, size_t size);
// Copies `size` bytes into the struct at `to`, as far as its size field goes; zeroes what is
// beyond.
absl::Status CopyOut(const void* from, size_t size, absl::string_view name, void* to);
absl::Status CheckFlags(uint32_t flags, uint32_t known, absl::string_view name);
absl::Status CheckReserved(int64_t value, absl::string_view name);
absl::Status CheckSwitch(sinter_switch value, absl::string_view name);

template <typename T, typename = void>
constexpr bool kHasReserved = false;
template <typename T>
constexpr bool kHasReserved<T, std::void_t<decltype(T::reserved)>> = true;

// A whole T: the caller's fields, defaults (zero) for the rest. Null options are all defaults.
// Whether `reserved` is 0 is the caller's to check.
template <typename T>
absl::StatusOr<T> ReadFields(const T* options, absl::string_view name, uint32_t known_flags) {
  T result{};
  if (options != nullptr) SINTER_RETURN_IF_ERROR(CopyIn(options, name, &result, sizeof(T)));
  result.struct_size = static_cast<uint32_t>(sizeof(T));
  SINTER_RETURN_IF_ERROR(CheckFlags(result.flags, known_flags, name));
  return result;
}

// The same with a `reserved` that is checked.
template <typename T>
absl::StatusOr<T> ReadOptions(const T* options, absl::string_view name, uint32_t known_flags) {
  SINTER_ASSIGN_OR_RETURN(T result, ReadFields(options, name, known_flags));
  if constexpr (kHasReserved<T>) SINTER_RETURN_IF_ERROR(CheckReserved(result.reserved, name));
  return result;
}

template <typename T>
absl::Status WriteStruct(const T& value, absl::string_view name, T* out) {
  return CopyOut(&value, sizeof(T), name, out);
}

// The two-call pattern of text.
absl::Status CopyText(absl::string_view text, size_t capacity, char* buffer, size_t* required);

absl::Status CopyDigest(const Digest& digest, uint8_t out_digest[32]);

// M of a launch. A chain without M runs as if M were 1.
inline absl::StatusOr<int64_t> SymbolM(bool uses_m, uint32_t count, const int64_t* symbols) {
  const uint32_t wanted = uses_m ? 1 : 0;
  if (count != wanted) {
    return WithField(Invalid("symbol_count is ", count, ", the chain has ", wanted), "symbol_count",
                     count, wanted);
  }
  if (!uses_m) return int64_t{1};
  SINTER_RETURN_IF_ERROR(CheckNotNull(symbols, "symbols"));
  return symbols[0];
}

// CallOut: every call of a function of the caller's. An exception that leaves it becomes a status,
// and a function whose calls were ended is called no more.

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

#endif  // SINTER_SRC_CAPI_FIREWALL_H_
