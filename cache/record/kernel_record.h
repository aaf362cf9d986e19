// KernelRecord: the payload of a kernel entry. Plan payloads are opaque here.
#ifndef SINTER_CACHE_RECORD_KERNEL_RECORD_H_
#define SINTER_CACHE_RECORD_KERNEL_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "src/base/digest.h"

namespace sinter {

// A check of the kernel's output on a device. An empty device means: never checked.
struct Verification {
  std::string device;  // and driver: "NVIDIA H200, CUDA 13.0"
  uint64_t seed = 0;   // of the inputs
  double error = 0;    // relative error that was found
  int64_t rows = 0;    // of the check: a position of more rows is not vouched for
  bool verified() const { return !device.empty(); }
  bool operator==(const Verification& o) const {
    return device == o.device && seed == o.seed && error == o.error && rows == o.rows;
  }
};

// A longer log or device, or a check of more rows, is damage.
constexpr uint64_t kMostLogBytes = 4096;
constexpr uint64_t kMostDeviceBytes = 1024;
constexpr int64_t kMostCheckedRows = int64_t{1} << 40;

// What was compiled. Which buffers, rows and blocks a launch has is the plan's: a record serves
// every position of every plan that has this code.
struct KernelRecord {
  Digest key;  // SHA-256 of the key bytes of what was compiled
  std::string cubin;
  std::string entry;  // extern "C" kernel name
  std::string log;    // summary of the compile log
  uint32_t registers = 0;
  uint32_t spill_bytes = 0;
  double compile_us = 0;  // what compiling took: what a hit saves
  Verification verification;
};

std::string EncodeKernelRecord(const KernelRecord& record, const RecordFormat& format = {});

// DATA_LOSS unless `payload` is a whole record of this version within its bounds, with a cubin that
// passes CheckCubin.
// `payload` is untrusted.
absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload,
                                                const RecordFormat& format = {});

// Whether `payload` starts as a kernel record that was checked on a device. False for any other
// bytes.
bool KernelPayloadVerified(absl::string_view payload, const RecordFormat& format = {});

// OK, or FAILED_PRECONDITION when `payload` starts as a kernel record of another version. Any other
// bytes are OK: whether they decode is not asked.
absl::Status CheckKernelVersion(absl::string_view payload, const RecordFormat& format = {});

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_KERNEL_RECORD_H_
