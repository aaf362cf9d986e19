#include "src/base/ports.h"

namespace sinter {

absl::string_view NameOf(MissReason reason) {
  switch (reason) {
    case MissReason::kAbsent:
      return "absent";
    case MissReason::kDamaged:
      return "damaged";
    case MissReason::kForeignArch:
      return "foreign_arch";
    case MissReason::kOtherFormat:
      return "other_format";
    case MissReason::kOtherToolchain:
      return "other_toolchain";
    case MissReason::kRefusedOwner:
      return "refused_owner";
    case MissReason::kQuarantined:
      return "quarantined";
    case MissReason::kDisabled:
      return "disabled";
    case MissReason::kIoError:
      return "io_error";
    case MissReason::kRemoteDown:
      return "remote_down";
    case MissReason::kCount:
      break;
  }
  return "invalid";
}

}  // namespace sinter
