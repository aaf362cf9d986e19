// Handle: what every opaque object of the ABI begins with. A magic word tells a live object of the
// right kind from anything else; a count of references decides when it dies.
#ifndef SINTER_SRC_CAPI_HANDLE_H_
#define SINTER_SRC_CAPI_HANDLE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sinter::capi {

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
  if (object == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
  if (object->Live()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is not a live ", T::kTypeName));
}

inline absl::Status CheckNotNull(const void* pointer, absl::string_view name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
}

template <typename T>
void RetainHandle(const T* object) {
  if (IsLive(object)) object->Retain();
}

template <typename T>
void ReleaseHandle(const T* object) {
  if (IsLive(object) && object->Drop() == 0) delete object;
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_HANDLE_H_
