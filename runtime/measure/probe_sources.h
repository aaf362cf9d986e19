// The kernels that measure a device, as CUDA C++ for the run-time compiler.
#ifndef SINTER_RUNTIME_MEASURE_PROBE_SOURCES_H_
#define SINTER_RUNTIME_MEASURE_PROBE_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/compile_request.h"

namespace sinter {

// Sizes that the probes' source and their launches share.
constexpr uint32_t kProbeChunk = 16384;            // bytes of one copy of probe_stream
constexpr uint32_t kProbeRing = 12 * kProbeChunk;  // its dynamic shared memory
constexpr uint32_t kProbeBlock = 220 * 1024;       // dynamic shared memory that fills an SM
constexpr uint32_t kProbeExchange = 64 * 1024;     // bytes that a block sends in probe_push
constexpr uint32_t kProbeSharedBytes = 64 * 1024;  // that probe_shared reads
constexpr uint32_t kProbeSharedReads = 8;          // of 16 bytes, a thread and round
constexpr uint32_t kProbeReduceChunk = 8192;       // bytes of one sum of probe_reduce
constexpr uint32_t kProbeReduceBuffer = 8 << 20;   // into which it sums
constexpr uint32_t kProbeTensorShared = (128 + 256) * 128;  // operands of 64 columns, 2 bytes each
constexpr uint32_t kProbeTensorThreads = 256;               // two warpgroups
constexpr double kProbeTensorFlop = 2.0 * 128 * 256 * 64;   // of a block and round

// Every kernel's entry.
std::vector<std::string> ProbeEntries();
// For sm_90a. `entry`: one of ProbeEntries.
CompileRequest ProbeRequest(const std::string& entry);

}  // namespace sinter

#endif  // SINTER_RUNTIME_MEASURE_PROBE_SOURCES_H_
