// RenewSet: a tuning set for device headers that changed without changing its kernels.
#ifndef SINTER_TESTS_COMPILE_RENEW_SET_H_
#define SINTER_TESTS_COMPILE_RENEW_SET_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/compile_request.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/engine/tuning_set.h"

namespace sinter {

// What the GPU runs of a request, as bytes to compare.
using MachineCodeOf = std::function<absl::StatusOr<std::string>(const CompileRequest&)>;

struct RenewedSet {
  TuningSet set;
  std::vector<std::string> left_out;  // a line for each entry that is not taken: which and why
};

// Entries of `set` under the KernelIdentity that the embedded headers give. Taken are those whose
// kernels are as measured: each has the identity in the entry under `old_headers` or the embedded
// ones, and where it has the former, the same machine code under both.
// `chain_of` gives the chain of a digest, or null: entries hold decisions of it alone.
RenewedSet RenewSet(const TuningSet& set, const DeviceModel& model,
                    const std::function<const Chain*(const Digest&)>& chain_of,
                    const std::vector<std::pair<std::string, std::string>>& old_headers,
                    const MachineCodeOf& machine_code);

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_RENEW_SET_H_
