// Driver: libcuda, opened at run time, and its errors as statuses.
#ifndef SINTER_RUNTIME_DRIVER_DRIVER_H_
#define SINTER_RUNTIME_DRIVER_DRIVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver/driver_table.h"

namespace sinter {

// Immutable and thread-safe. The library is never closed: the driver's own threads may outlive us.
class Driver {
 public:
  // Opens `path`, or libcuda.so.1 and libcuda.so when it is empty, and initialises the driver.
  // A path that was given is the only one tried. UNAVAILABLE when there is no usable driver.
  static absl::StatusOr<std::shared_ptr<const Driver>> Open(const std::string& path);

  // Takes a table as it is and initialises it. UNAVAILABLE when cuInit fails.
  static absl::StatusOr<std::shared_ptr<const Driver>> FromTable(const DriverTable& table);

  const DriverTable* operator->() const { return &table_; }
  const DriverTable& table() const { return table_; }

  // OK, or kDriver with the CUresult attached and "call: NAME (number): text". Allocates only on
  // failure.
  absl::Status Check(CUresult result, const char* call) const {
    return result == CUDA_SUCCESS ? absl::OkStatus() : Error(result, call);
  }

  absl::StatusOr<int> DeviceCount() const;
  // 13000 for 13.0.
  absl::StatusOr<int> Version() const;

 private:
  explicit Driver(const DriverTable& table) : table_(table) {}
  std::string Describe(CUresult result) const;
  absl::Status Error(CUresult result, const char* call) const;

  const DriverTable table_;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_DRIVER_H_
