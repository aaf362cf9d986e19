// BufferAccess: what a kernel touches, in terms that no kernel family has a part in. Each family
// lowers its kernels to lists of these; what is legal is decided over the lists alone (places.h).
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
  kRead,     // of a chain's buffer, or of what an earlier kernel left in the workspace
  kWrite,    // for later kernels, or for the caller
  kOwn,      // workspace that the kernel writes and reads itself, and leaves to nobody
  kFlags,    // ready flags in the workspace's header, which is cleared once
  kBarrier,  // the grid barrier's words there
};

struct BufferAccess {
  std::string name;  // "out", "operand 3": for errors
  AccessKind kind = AccessKind::kRead;
  int buffer = 0;  // as a plan numbers them; kWorkspaceBuffer
  uint64_t offset = 0;
  // From the first byte to behind the last: of the smallest launch (one row), of one in the middle,
  // and of the largest. Equal where rows do not matter. Between them it grows with the rows.
  uint64_t bytes[3] = {0, 0, 0};
  uint64_t alignment = 1;  // that the widest instruction asks of the offset
};

struct KernelAccesses {
  std::vector<BufferAccess> list;
  // Reads go through an SM's L1 cache, which a kernel that starts early may share with the one
  // before it.
  bool through_l1 = false;
};

// Rows of the launches that a plan is made for: one, some, and as many as it takes.
struct LaunchRows {
  int64_t at[3] = {1, 1, 1};
  int64_t bucket = 1;  // rows that the workspace is made for
};

// Precondition: CheckLaunch gave `launch`. FAILED_PRECONDITION naming what cannot be counted.
absl::StatusOr<KernelAccesses> AccessesOf(const KernelSpec& spec, const KernelLaunch& launch,
                                          const LaunchRows& rows);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_ACCESS_H_
