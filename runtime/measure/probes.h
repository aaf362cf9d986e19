// Every probe of a device, one after another, and what they measured before it is made into figures
// of a model.
#ifndef SINTER_RUNTIME_MEASURE_PROBES_H_
#define SINTER_RUNTIME_MEASURE_PROBES_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "src/base/arch.h"
#include "src/base/compile_request.h"
#include "src/base/device_model.h"
#include "src/base/peer_memory.h"
#include "src/base/ports.h"

namespace sinter {

// The Measurer port on the driver: device memory and timing.

// One thread at a time. Everything runs on an own stream that does not synchronise with the legacy
// one, and each call but TimeGraph's enqueues waits for its work. Buffers are the caller's to free.
absl::StatusOr<std::unique_ptr<Measurer>> MakeMeasurer(std::shared_ptr<const Device> device);

// ---- How a probe is compiled, loaded and timed

// One way to launch a probe.
struct ProbeLaunch {
  std::string entry;
  std::vector<int> pointers;      // the first arguments: kSource, kTarget
  std::vector<int64_t> integers;  // the arguments after the pointers
  int grid = 1, threads = 1, cluster = 1;
  uint32_t shared_bytes = 0;
  bool waits_for_grid = false;  // all blocks are resident; 4 bytes of the target are cleared before
  int calls = 4;                // in a graph

  static constexpr int kSource = 0, kTarget = 1;
};

// One thread at a time. The ports must outlive it. `arch`: what probes are compiled for.
class ProbeRunner {
 public:
  ProbeRunner(std::string arch, Compiler* compiler, Loader* loader, Measurer* measurer)
      : arch_(std::move(arch)), compiler_(compiler), loader_(loader), measurer_(measurer) {}
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

  const std::string arch_;
  Compiler* const compiler_;
  Loader* const loader_;
  Measurer* const measurer_;
  DeviceBuffer source_, target_;
  std::map<std::string, std::string> cubins_;  // by entry
};

// ---- What is measured

// One kernel over two amounts of work: their difference has no launch in it.
struct ProbeSlope {
  double less = 0, less_us = 0;  // amount and microseconds of a launch
  double more = 0, more_us = 0;
};

// A stream by some of the SMs, one block each.
struct ProbeStream {
  int blocks = 0;
  ProbeSlope bytes;
};

// Bytes are the total of all blocks. Arrays go by kClusterSizes. Chips without wgmma are timed by
// other instructions, and only for what their kernels' predictions use: of them, `hbm` has one
// stream, and reduce_bytes, dsm_bytes, resident_clusters and link_bytes are empty.
struct ProbeTimings {
  std::vector<ProbeStream> hbm;            // the first by every SM
  ProbeSlope l2_bytes;                     // every SM reads bytes of its own that L2 holds
  ProbeSlope l2_alike_bytes;               // all read the same
  ProbeSlope intake_bytes;                 // only one SM reads
  ProbeSlope shared_bytes;                 // out of each SM's shared memory
  ProbeSlope reduce_bytes;                 // f32 sums into a buffer that L2 holds
  ProbeSlope tensor_flop;                  // of bf16
  ProbeSlope tensor_code_flop;             // of e4m3, or of s8 before sm_89; empty of Hopper
  std::array<ProbeSlope, 5> dsm_bytes;     // pushed to other blocks of the cluster; none of size 1
  std::array<int, 5> resident_clusters{};  // of blocks that fill an SM's shared memory
  ProbeSlope grid_barriers;                // rounds
  double empty_us = 0;                     // of a kernel that does nothing, after another one
  ProbeSlope link_bytes;                   // pushed to another GPU (TimeLink); none without one
};

// Times the device that `model` describes, of which only `arch`, `sm_count` and `l2_bytes` are
// used. Takes some seconds, most of them compiling, and 24 MiB of device memory an SM. Errors are
// the ports'; INVALID_ARGUMENT for an unknown arch. Nothing else should run on the device.
absl::StatusOr<ProbeTimings> RunProbes(const DeviceModel& model, ProbeRunner* runner);

// Measures copies from `from`, which reaches `to`, to `to`. Takes 128 MiB of both.
absl::StatusOr<ProbeSlope> TimeLink(PeerMemory* from, PeerMemory* to);

// The kernels that measure a device, as CUDA C++ for the run-time compiler.

// Sizes that the probes' source and their launches share.
constexpr uint32_t kProbeChunk = 16384;               // bytes of one copy of probe_stream
constexpr uint32_t kProbeRing = 12 * kProbeChunk;     // its dynamic shared memory
constexpr int kProbeCopyThreads = 256;                // of probe_copies
constexpr uint32_t kProbeCopyRing = 6 * kProbeChunk;  // its dynamic shared memory
constexpr uint32_t kProbeBlock = 220 * 1024;          // dynamic shared memory that fills an SM
constexpr uint32_t kProbeExchange = 64 * 1024;        // bytes that a block sends in probe_push
constexpr uint32_t kProbeSharedBytes = 64 * 1024;     // that probe_shared reads
constexpr uint32_t kProbeSharedReads = 8;             // of 16 bytes, a thread and round
constexpr uint32_t kProbeReduceChunk = 8192;          // bytes of one sum of probe_reduce
constexpr uint32_t kProbeReduceBuffer = 8 << 20;      // into which it sums
constexpr uint32_t kProbeTensorShared = (128 + 256) * 128;  // operands of 64 columns, 2 bytes each
constexpr uint32_t kProbeTensorThreads = 256;               // two warpgroups
constexpr double kProbeTensorFlop = 2.0 * 128 * 256 * 64;   // of a block and round
constexpr int kProbeMmaThreads = 256;                       // eight warps
constexpr double kProbeMmaFlop = 2.0 * 8 * 64 * 32 * 16;    // of bf16; of 8-bit elements twice that

// The entries of the kernels that measure a chip of these features.
std::vector<std::string> ProbeEntries(const ArchFeatures& chip);
// `entry`: one of ProbeEntries. INVALID_ARGUMENT for an unknown arch.
absl::StatusOr<CompileRequest> ProbeRequest(const std::string& entry, const std::string& arch);

}  // namespace sinter

#endif  // SINTER_RUNTIME_MEASURE_PROBES_H_
