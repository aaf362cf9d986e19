// HostData: random inputs for a chain, in the bytes that it reads.
#ifndef SINTER_SRC_CLI_HOST_DATA_H_
#define SINTER_SRC_CLI_HOST_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/chain_source.h"
#include "src/cli/handles.h"

namespace sinter::cli {

// Buffers in the caller's order. Outputs begin as not-a-numbers (bytes 0xff).
struct HostData {
  std::vector<sinter_tensor_info> infos;  // inputs, then outputs
  std::vector<std::string> buffers;
  uint32_t inputs = 0;

  std::vector<const void*> InputPointers() const;
  std::vector<void*> OutputPointers();
  std::vector<const void*> ConstOutputPointers() const;
};

// The same seed gives the same bytes on every machine. Floating values are uniform in [-1, 1), f32
// in [0, 1), matrices of weights scaled by sqrt(3 / longest side), so that products stay near 1.
Outcome MakeHostData(const LoadedChain& chain, uint64_t seed, HostData* out);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_HOST_DATA_H_
