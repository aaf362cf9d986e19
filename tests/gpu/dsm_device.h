// What tests and bench of the exchanges need of a GPU: a compiler, a loader, lanes that launch
// beside one another, and kernels with their data on the device.
#ifndef SINTER_TESTS_GPU_DSM_DEVICE_H_
#define SINTER_TESTS_GPU_DSM_DEVICE_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/driver/device.h"
#include "src/base/config.h"
#include "src/base/ports.h"
#include "tests/gpu/dsm_kernels.h"

namespace sinter::gpu_testing {

// A lane has a stream of its own; one thread at a time uses it. The rest is thread-safe.
class DsmDevice {
 public:
  static absl::StatusOr<std::unique_ptr<DsmDevice>> Open(const Config& config, int lanes);

  Compiler& compiler() { return *compiler_; }
  Loader& loader() { return *loader_; }
  Measurer& lane(int i) { return *lanes_[static_cast<size_t>(i)]; }
  int lanes() const { return static_cast<int>(lanes_.size()); }
  const DeviceLimits& limits() const { return device_->limits(); }

  // On all cores; results in the requests' order.
  std::vector<absl::StatusOr<CompiledKernel>> CompileAll(
      const std::vector<CompileRequest>& requests);

 private:
  DsmDevice() = default;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Loader> loader_;
  std::vector<std::unique_ptr<Measurer>> lanes_;
};

using DsmReport = std::array<uint32_t, kDsmReportWords>;

// One case, loaded, its data on the device. Buffers belong to the device's primary context and are
// freed with it.
class DsmRun {
 public:
  static absl::StatusOr<std::unique_ptr<DsmRun>> Make(DsmDevice* device, const DsmCase& c,
                                                      const CompiledKernel& compiled,
                                                      uint64_t seed);

  // Launches and waits; launches are counted from 0 over the life of the run.
  absl::Status Launch(Measurer& lane, int count);
  int launches() const { return launches_; }
  absl::StatusOr<DsmReport> Read(Measurer& lane) const;

  // OK when everything was compared, right, and, where bits must repeat, repeated.
  // `digest_of_sets`: the digest after the first kDsmSets launches.
  absl::Status Check(const DsmReport& report, uint32_t digest_of_sets) const;

  const DsmCase& dsm_case() const { return case_; }

 private:
  explicit DsmRun(const DsmCase& c) : case_(c) {}
  absl::Status Upload(Measurer& lane, uint64_t seed);

  const DsmCase case_;
  std::vector<DeviceBuffer> buffers_;  // in, wanted, scratch, counters, report
  std::shared_ptr<LoadedKernel> kernel_;
  std::unique_ptr<BoundKernel> bound_;
  int launches_ = 0;
};

}  // namespace sinter::gpu_testing

#endif  // SINTER_TESTS_GPU_DSM_DEVICE_H_
