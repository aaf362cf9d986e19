// How many compilations fit into this machine's memory.
#ifndef SINTER_SRC_CLI_MEMORY_H_
#define SINTER_SRC_CLI_MEMORY_H_

#include <cstdint>

namespace sinter::cli {

// What a compilation may need at its worst.
constexpr uint64_t kBytesPerJob = uint64_t{768} << 20;

// Bytes that may still be used: the kernel's estimate, and what the control group leaves, the less.
// 0 when neither can be read.
uint64_t FreeMemory();

// One a processor, fewer if memory is short, at least one.
uint32_t JobsThatFit();

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_MEMORY_H_
