#include "src/engine/plan_use.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

absl::Status Differs(absl::string_view field, absl::string_view given, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("the plan's ", field, " is ", given, ", must be ", wanted));
}

std::string Short(const Digest& digest) { return digest.Hex().substr(0, 16); }

std::string DeviceText(const PlanUse& use) {
  if (!use.launches) return absl::StrCat("none (target chip ", Short(use.chip), ")");
  return absl::StrCat(use.ordinal, " (chip ", Short(use.chip), ")");
}

}  // namespace

absl::Status CheckUse(const PlanUse& wanted, const PlanUse& given) {
  if (given.chain != wanted.chain) {
    return Differs("chain", Short(given.chain), Short(wanted.chain));
  }
  if (given.input_order != wanted.input_order) {
    return Differs("order of inputs", "another chain's", "that of the slot's chain");
  }
  if (given.bucket != wanted.bucket) {
    return Differs("bucket", absl::StrCat(given.bucket), absl::StrCat(wanted.bucket));
  }
  const std::string device = DeviceText(given), wanted_device = DeviceText(wanted);
  if (device != wanted_device) return Differs("device", device, wanted_device);
  if (wanted.batch_invariant && !given.batch_invariant) {
    return Differs("batch_invariant", "false", "true");
  }
  return absl::OkStatus();
}

}  // namespace sinter
