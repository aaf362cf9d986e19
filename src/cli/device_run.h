// DeviceRun: runs one plan on the GPU, verified, then timed. HostData: random inputs for a chain,
// as bytes.
#ifndef SINTER_SRC_CLI_DEVICE_RUN_H_
#define SINTER_SRC_CLI_DEVICE_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/chain_source.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {

// Buffers in the caller's order. Outputs are filled with NaN (bytes 0xff).
struct HostData {
  std::vector<sinter_tensor_info> infos;  // inputs, then outputs
  std::vector<std::string> buffers;
  uint32_t inputs = 0;

  std::vector<const void*> InputPointers() const;
  std::vector<void*> OutputPointers();
  std::vector<const void*> ConstOutputPointers() const;
};

// The same seed gives the same bytes on every machine. Floating values are uniform in [-1, 1), f32
// in [0, 1). Weight matrices are scaled by sqrt(3 / longest side), so that products stay near 1.
Outcome MakeHostData(const LoadedChain& chain, uint64_t seed, HostData* out);

struct RunResult {
  sinter_x_check check{};
  double hot_us = 0, cold_us = 0;  // 0: not measured
  uint32_t cold_sets = 0;
  double cold_bytes = 0;  // of all sets that the cold launches rotate over
};

// Runs `plan` once on `data` with poisoned outputs and compares the result with the reference (64
// rows if it takes more than 5e10 flop). Unless `check_only`, also times it: hot on one set of
// buffers, cold on sets that rotate over more than 240 MB. Device memory is freed on every path.
Outcome RunOnDevice(const Session& session, const LoadedChain& chain, const sinter_plan* plan,
                    HostData* data, bool check_only, RunResult* out);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_DEVICE_RUN_H_
