// DeviceRun: one plan on the GPU: a verified run, then its time.
#ifndef SINTER_SRC_CLI_DEVICE_RUN_H_
#define SINTER_SRC_CLI_DEVICE_RUN_H_

#include "src/cli/host_data.h"
#include "src/cli/session.h"

namespace sinter::cli {

struct RunResult {
  sinter_x_check check{};
  double hot_us = 0, cold_us = 0;  // 0: not measured
  uint32_t cold_sets = 0;
  double cold_bytes = 0;  // that the cold launches rotate over
};

// Runs `plan` once on `data` with outputs poisoned, compares with the reference (64 rows above 5e10
// flop), and unless `check_only` times it: hot on one set of buffers, cold on sets that rotate over
// more than 240 MB. Device memory is given back on every path.
Outcome RunOnDevice(const Session& session, const LoadedChain& chain, const sinter_plan* plan,
                    HostData* data, bool check_only, RunResult* out);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_DEVICE_RUN_H_
