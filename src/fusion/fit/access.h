// BufferAccess: the bytes that a kernel touches, independent of its family. Each family lowers its
// kernels to lists of these; places.h decides over the lists alone what is legal.
#ifndef SINTER_SRC_FUSION_FIT_ACCESS_H_
#define SINTER_SRC_FUSION_FIT_ACCESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/fit/launch_check.h"
#include "src/plan/plan.h"

namespace sinter {

enum class AccessKind : uint8_t {
  kRead,     // a buffer of the chain, or workspace that an earlier kernel wrote
  kWrite,    // for later kernels, or for the caller
  kOwn,      // workspace that only this kernel writes and reads
  kFlags,    // ready flags in the workspace's header, which is cleared once
  kBarrier,  // the words of the grid barrier there
};

struct BufferAccess {
  std::string name;  // "out", "operand 3": for errors
  AccessKind kind = AccessKind::kRead;
  int buffer = 0;  // as a plan numbers them; kWorkspaceBuffer
  uint64_t offset = 0;
  // End of the access, relative to its offset: for the smallest launch (one row), one in the
  // middle, and the largest. It grows with the rows; all three are equal where rows do not matter.
  uint64_t bytes[3] = {0, 0, 0};
  uint64_t alignment = 1;  // required of the offset by the widest instruction
};

struct KernelAccesses {
  std::vector<BufferAccess> list;
  // Reads go through an SM's L1 cache. A kernel that starts early may share it with the kernel
  // before.
  bool through_l1 = false;
};

// Rows of the launches that a plan serves: one, some, and the most.
struct LaunchRows {
  int64_t at[3] = {1, 1, 1};
  int64_t bucket = 1;  // rows that the workspace is laid out for
};

// Precondition: `launch` is CheckLaunch's result. FAILED_PRECONDITION naming the size that cannot
// be computed.
absl::StatusOr<KernelAccesses> AccessesOf(const KernelSpec& spec, const KernelLaunch& launch,
                                          const LaunchRows& rows);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_ACCESS_H_
