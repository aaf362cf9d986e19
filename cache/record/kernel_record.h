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

// A check of the kernel's output on a device. An empty device: never checked.
struct Verification {
  std::string device;  // with the driver: "NVIDIA H200, CUDA 13.0"
  uint64_t seed = 0;   // of the inputs
  double error = 0;    // relative error found
  int64_t rows = 0;    // of the check, which says nothing about positions of more rows
  bool verified() const { return !device.empty(); }
  bool operator==(const Verification& o) const {
    return device == o.device && seed == o.seed && error == o.error && rows == o.rows;
  }
};

// A record with a longer log or device, or a check of more rows, is damaged.
constexpr uint64_t kMostLogBytes = 4096;
constexpr uint64_t kMostDeviceBytes = 1024;
constexpr int64_t kMostCheckedRows = int64_t{1} << 40;

// What was compiled. Buffers, rows and blocks of a launch belong to the plan, so a record serves
// every position of every plan with this code.
struct KernelRecord {
  Digest key;  // SHA-256 of the key bytes of what was compiled
  std::string cubin;
  std::string entry;  // extern "C" kernel name
  std::string log;    // summary of the compile log
  uint32_t registers = 0;
  uint32_t spill_bytes = 0;
  double compile_us = 0;  // time the compile took, which a hit saves
  Verification verification;
};

std::string EncodeKernelRecord(const KernelRecord& record, const RecordFormat& format = {});

// DATA_LOSS unless `payload` is a whole record of this version within its bounds, with a cubin that
// passes CheckCubin. `payload` is untrusted.
absl::StatusOr<KernelRecord> DecodeKernelRecord(absl::string_view payload,
                                                const RecordFormat& format = {});

// Whether `payload` starts as a kernel record that was checked on a device. False for any other
// bytes.
bool KernelPayloadVerified(absl::string_view payload, const RecordFormat& format = {});

// FAILED_PRECONDITION when `payload` begins as a kernel record of another version, else OK: whether
// it can be decoded is not checked.
absl::Status CheckKernelVersion(absl::string_view payload, const RecordFormat& format = {});

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_KERNEL_RECORD_H_
