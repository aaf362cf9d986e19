// KernelRecord: the payload of a kernel entry. Plan payloads are opaque here.
#ifndef SINTER_CACHE_RECORD_KERNEL_RECORD_H_
#define SINTER_CACHE_RECORD_KERNEL_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

constexpr uint32_t kKernelRecordVersion = 1;

// A check of the kernel's output on a device. An empty device means: never checked.
struct Verification {
  std::string device;  // "NVIDIA H200"
  uint64_t seed = 0;   // of the inputs
  double error = 0;    // relative error that was found
  bool verified() const { return !device.empty(); }
  bool operator==(const Verification& o) const {
    return device == o.device && seed == o.seed && error == o.error;
  }
};

struct KernelRecord {
  std::string cubin;
  std::string recipe;  // LaunchRecipe::Encode()
  std::string entry;   // extern "C" kernel name
  std::string log;     // summary of the compile log
  uint32_t registers = 0;
  uint32_t spill_bytes = 0;
  Verification verification;
};

std::string EncodeKernelRecord(const KernelRecord& record);

// DATA_LOSS unless `payload` is a whole record of this version with a cubin that passes CheckCubin.
// Trusts nothing.
absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload);

// Whether `payload` starts as a kernel record that was checked on a device. False for any other
// bytes.
bool KernelPayloadVerified(absl::string_view payload);

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_KERNEL_RECORD_H_
