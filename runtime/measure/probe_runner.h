// ProbeRunner: compiles, loads and times the kernels of probe_sources.h.
#ifndef SINTER_RUNTIME_MEASURE_PROBE_RUNNER_H_
#define SINTER_RUNTIME_MEASURE_PROBE_RUNNER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/ports.h"

namespace sinter {

// One way to launch a probe.
struct ProbeLaunch {
  std::string entry;
  std::vector<int> pointers;      // the first arguments: kSource, kTarget
  std::vector<int64_t> integers;  // the arguments behind them
  int grid = 1, threads = 1, cluster = 1;
  uint32_t shared_bytes = 0;
  bool waits_for_grid = false;  // all blocks are resident; 4 bytes of the target are cleared before
  int calls = 4;                // in a graph

  static constexpr int kSource = 0, kTarget = 1;
};

// One thread at a time. The ports must outlive it.
class ProbeRunner {
 public:
  ProbeRunner(Compiler* compiler, Loader* loader, Measurer* measurer)
      : compiler_(compiler), loader_(loader), measurer_(measurer) {}
  ~ProbeRunner();
  ProbeRunner(const ProbeRunner&) = delete;
  ProbeRunner& operator=(const ProbeRunner&) = delete;

  // Device memory that probes read and write, given back with the runner. Once, before any launch.
  absl::Status Allocate(uint64_t source_bytes, uint64_t target_bytes);
  // Median microseconds of one launch.
  absl::StatusOr<double> TimeUs(const ProbeLaunch& launch);
  // Clusters of this launch that are resident at once.
  absl::StatusOr<int> ResidentClusters(const ProbeLaunch& launch);

 private:
  absl::StatusOr<std::shared_ptr<LoadedKernel>> Load(const LaunchRecipe& recipe);

  Compiler* const compiler_;
  Loader* const loader_;
  Measurer* const measurer_;
  DeviceBuffer source_, target_;
  std::map<std::string, std::string> cubins_;  // by entry
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_MEASURE_PROBE_RUNNER_H_
