#include "src/base/arch.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "src/base/compile_request.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr absl::string_view kHopper = "sm_90a";
// For which stitched kernels are generated, with the first NVRTC that knows each. The first that
// has bf16 pairs is 8.0.
constexpr std::pair<int, int> kCapabilities[] = {
    {80, 0},     {86, 0},     {87, 0},     {89, 0},     {90, 0},
    {100, 1208}, {103, 1209}, {110, 1300}, {120, 1208}, {121, 1209},
};
constexpr int kFirstClusters = 90;

}  // namespace

absl::StatusOr<ArchFeatures> FeaturesOf(absl::string_view arch) {
  ArchFeatures features;
  absl::string_view number = arch;
  features.translated = absl::ConsumePrefix(&number, "compute_");
  features.products = arch == kHopper;
  const bool named = features.translated || absl::ConsumePrefix(&number, "sm_");
  if (features.products) absl::ConsumeSuffix(&number, "a");
  bool known = false;
  for (const auto& [capability, least_nvrtc] : kCapabilities) {
    if (!named || number != absl::StrCat(capability)) continue;
    known = true;
    features.capability = capability;
    features.least_nvrtc = least_nvrtc;
  }
  if (!known) {
    return Invalid("arch = \"", arch.substr(0, 64), "\", must be ", kHopper,
                   ", or, for stitched kernels and products only, sm_ or compute_ and one of ",
                   absl::StrJoin(kCapabilities, ", ", [](std::string* text, const auto& one) {
                     absl::StrAppend(text, one.first);
                   }));
  }
  features.clusters = features.early_launch = features.capability >= kFirstClusters;
  return features;
}

absl::string_view ProductChips() { return "Hopper (sm_90a: H100, H200, GH200)"; }

bool IsPtx(absl::string_view code) {
  return absl::StartsWith(code, "//") || absl::StartsWith(code, ".version");
}

absl::Status CheckCode(absl::string_view code) {
  if (!IsPtx(code)) return CheckCubin(code);
  if (code.find('\0') != code.size() - 1) {
    return DataLoss("PTX: its first NUL is not its last byte, of ", code.size());
  }
  if (!absl::StrContains(code, "\n.target sm_")) return DataLoss("PTX: no .target");
  return absl::OkStatus();
}

}  // namespace sinter
