// CompileRequest: everything the runtime compiler sees, so that equal requests give equal binaries.
#ifndef SINTER_SRC_BASE_COMPILE_REQUEST_H_
#define SINTER_SRC_BASE_COMPILE_REQUEST_H_

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"

namespace sinter {

struct CompileRequest {
  std::string name;  // for logs and NVRTC's file name: "chain_ffn_s8.cu"; no path
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // (include name, bytes), in memory
  std::vector<std::string> options;                          // without the arch
  std::string arch;                                          // "sm_90a", as FeaturesOf has it
  std::string entry;                                         // extern "C" kernel name
  // The kernel is refused if it spills more bytes of registers than this, stores and loads added.
  // The limit does not change the binary.
  int most_spill_bytes = 0;
  // The oldest NVRTC that compiles the kernel well: 1209 is 12.9, 0 is any. Older ones are not
  // used.
  int least_nvrtc = 0;
};

struct CompiledKernel {
  std::string cubin;  // or PTX, where the arch is translated
  std::string log;    // compiler's remarks, also on success
  double compile_us = 0;
  int registers = 0;  // per thread, parsed from the log; 0 when unknown
  int spill_bytes = 0;
};

// The name between the quotes of an #include line; "" for any other line.
absl::string_view IncludedHeader(absl::string_view line);

// Toolchains: how the compiler that made a kernel is named, and which of them are refused.

// "nvrtc-13.0-<identity>": version and identity (ELF build id, or "sha256:<hex>") of the library
// file. Compiler::ToolchainId() has this form, and kernel keys hold it.
std::string MakeToolchainId(int major, int minor, absl::string_view identity);

// 1300 for "nvrtc-13.0-<identity>"; 0 for an id of another form.
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

// Bounds check of a cubin, made when a record is read and again before the driver gets it:
// cuModuleLoadData takes a pointer and no length, so no header may point past the end.

// DATA_LOSS naming the field, its value and its bound unless `cubin` is a little-endian ELF64 of
// machine 190 (CUDA) whose header tables, segments and sections lie inside the bytes, whose string
// tables end in NUL, and whose sections have names and links that exist. Takes any bytes at any
// alignment, and allocates only to name the fault. Says nothing about the code inside.
absl::Status CheckCubin(absl::string_view cubin);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_COMPILE_REQUEST_H_
