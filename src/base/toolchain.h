// Toolchains: how the compiler that made a kernel is named, and which of them are refused.
#ifndef SINTER_SRC_BASE_TOOLCHAIN_H_
#define SINTER_SRC_BASE_TOOLCHAIN_H_

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// "nvrtc-13.0-<identity>": version and identity (ELF build id, or "sha256:<hex>") of the library
// file. Compiler::ToolchainId() has this form, and kernel keys hold it.
std::string MakeToolchainId(int major, int minor, absl::string_view identity);

// Compilers whose kernels are refused. Thread-safe; only ever grows.
class ToolchainDenyList {
 public:
  ToolchainDenyList() = default;

  // Adds `entries`, separated by commas, blanks around them ignored: an NVRTC version, "13.0", or
  // the first 8 or more hex digits of an identity, "sha256:" before it if it has that.
  // INVALID_ARGUMENT naming the entry; nothing is added then.
  absl::Status Add(absl::string_view entries);

  // The entry that `toolchain_id` falls under; "" for none. One that is not of the form above falls
  // under none.
  std::string Match(absl::string_view toolchain_id) const;

  bool empty() const { return !any_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> entries_;  // guarded by mutex_
  std::atomic<bool> any_{false};      // spares a look-up the lock
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_TOOLCHAIN_H_
