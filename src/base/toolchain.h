// Toolchains: how the compiler that made a kernel is named, and which of them are refused.
#ifndef SINTER_SRC_BASE_TOOLCHAIN_H_
#define SINTER_SRC_BASE_TOOLCHAIN_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// "nvrtc-13.0-<identity>": version and identity (ELF build id, or "sha256:<hex>") of the library
// file. Compiler::ToolchainId() has this form, and kernel keys hold it.
std::string MakeToolchainId(int major, int minor, absl::string_view identity);

// 1300 for "nvrtc-13.0-<identity>"; 0 for what has another form.
int NvrtcVersionOf(absl::string_view toolchain_id);

// Compilers whose kernels are refused. Thread-safe; entries are only added. Takes no lock, so that
// the child of a fork refuses what its parent refused, whatever the parent was doing.
class ToolchainDenyList {
 public:
  ToolchainDenyList() = default;
  ~ToolchainDenyList();
  ToolchainDenyList(const ToolchainDenyList&) = delete;
  ToolchainDenyList& operator=(const ToolchainDenyList&) = delete;

  // Adds `entries`, separated by commas, blanks around them ignored: an NVRTC version, "13.0", or
  // the first 8 or more hex digits of an identity, "sha256:" before it if it has that.
  // INVALID_ARGUMENT naming the entry; nothing is added then.
  absl::Status Add(absl::string_view entries);

  // The entry that `toolchain_id` falls under; "" for none. One that is not of the form above falls
  // under none.
  std::string Match(absl::string_view toolchain_id) const;

  bool empty() const { return newest_.load(std::memory_order_acquire) == nullptr; }

 private:
  // What one call added; constant once it is in the list.
  struct Addition {
    std::vector<std::string> entries;
    const Addition* before = nullptr;
  };
  std::atomic<const Addition*> newest_{nullptr};
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_TOOLCHAIN_H_
