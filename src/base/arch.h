// ArchFeatures: which code may be generated for a GPU architecture, by the name that a device model
// gives it.
#ifndef SINTER_SRC_BASE_ARCH_H_
#define SINTER_SRC_BASE_ARCH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

struct ArchFeatures {
  int capability = 0;  // 90: compute capability 9.0
  // The compiler makes PTX, which the driver translates for the chip that loads it: one of this
  // capability or a later one. Registers and spills are then unknown.
  bool translated = false;
  // wgmma and tensor maps: all kernels need them but stitched ones and products by mma.sync.
  bool products = false;
  bool clusters = false;      // of blocks that reach one another's shared memory
  bool early_launch = false;  // programmatic dependent launch
  int least_nvrtc = 0;  // the first NVRTC that knows it: 1208 is 12.8; 0: any that Sinter takes
};

// Of "sm_90a", for which all kernels are generated; of "sm_80", "sm_86", "sm_89", "sm_100" and
// others, which have stitched kernels and products by mma.sync; and of "compute_80" and so on, the
// same as PTX.
// INVALID_ARGUMENT naming the arch and those that there are.
absl::StatusOr<ArchFeatures> FeaturesOf(absl::string_view arch);

constexpr int kFirstE4M3 = 89;  // the first capability whose tensor cores multiply e4m3

// "Hopper (sm_90a: H100, H200, GH200)": the chips with ArchFeatures::products, in errors.
absl::string_view ProductChips();

// Whether a compiled kernel is PTX and not a cubin.
bool IsPtx(absl::string_view code);

// Check of a compiled kernel, made when a record is read and again before the driver gets it: for
// PTX that it is text which ends in its only NUL and has a target; else CheckCubin. DATA_LOSS.
absl::Status CheckCode(absl::string_view code);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_ARCH_H_
