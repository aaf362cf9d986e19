#include "runtime/query/model_choice.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/driver/scopes.h"
#include "src/base/status.h"

namespace sinter {

std::string DeviceInfo::Arch() const { return absl::StrCat("sm_", cc_major, cc_minor); }

absl::StatusOr<DeviceInfo> QueryDevice(const Device& device) {
  const Driver& driver = device.driver();
  RelaxedCapture relaxed(driver);
  SINTER_RETURN_IF_ERROR(relaxed.status());
  char name[256] = {};
  size_t memory = 0;
  SINTER_RETURN_IF_ERROR(driver.Check(
      driver->DeviceGetName(name, sizeof(name) - 1, device.handle()), "cuDeviceGetName"));
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->DeviceTotalMem(&memory, device.handle()), "cuDeviceTotalMem"));
  SINTER_ASSIGN_OR_RETURN(const int version, driver.Version());
  const DeviceLimits& limits = device.limits();
  DeviceInfo info;
  info.name = name;
  info.cc_major = limits.cc_major;
  info.cc_minor = limits.cc_minor;
  info.sm_count = limits.sm_count;
  info.l2_bytes = limits.l2_bytes;
  info.shared_bytes_per_block = limits.max_shared_bytes;
  info.clock_mhz = limits.clock_khz / 1e3;
  info.memory_bytes = static_cast<int64_t>(memory);
  info.driver_version = version;
  return info;
}

namespace {

// Whether one word of the device's name is the model's: "NVIDIA H200 NVL" is an h200, "NVIDIA GH200
// 480GB" is not.
bool NamesModel(const std::string& device_name, const std::string& model_name) {
  for (const absl::string_view word : absl::StrSplit(device_name, ' ')) {
    if (absl::AsciiStrToLower(word) == model_name) return true;
  }
  return false;
}

// Smaller is nearer: the name first, then the SM count, then a measured model.
std::vector<int> Distance(const DeviceModel& model, const DeviceInfo& info) {
  return {NamesModel(info.name, model.name) ? 0 : 1, std::abs(model.sm_count - info.sm_count),
          model.measured ? 0 : 1};
}

absl::StatusOr<DeviceModel> NearestModel(const DeviceInfo& info) {
  std::vector<DeviceModel> models;
  for (const std::string& name : BuiltinModelNames()) {
    SINTER_ASSIGN_OR_RETURN(DeviceModel model, BuiltinModel(name));
    models.push_back(std::move(model));
  }
  if (models.empty()) return absl::InternalError("there is no built-in device model");
  return *std::min_element(models.begin(), models.end(),
                           [&](const DeviceModel& a, const DeviceModel& b) {
                             return Distance(a, info) < Distance(b, info);
                           });
}

// Fewer SMs hold proportionally fewer clusters, rounded down; more SMs are not trusted to hold more
// clusters.
void ScaleResidency(int sm_count, DeviceModel* model) {
  for (int& clusters : model->resident_clusters) {
    clusters = std::min(clusters, clusters * sm_count / model->sm_count);
  }
  model->resident_clusters[0] = sm_count;
}

DeviceModel Adapt(DeviceModel model, const DeviceInfo& info) {
  ScaleResidency(info.sm_count, &model);
  for (auto& [key, provenance] : model.provenance) {
    if (provenance.from.empty()) provenance.from = model.name;
  }
  for (const char* told : {"sm_count", "l2_bytes", "clock_mhz", "shared_bytes_per_block"}) {
    model.provenance[told] = {Origin::kArchitecture, ""};
  }
  model.name = absl::StrCat(model.name, "-adapted");
  model.measured = false;
  model.sm_count = info.sm_count;
  model.l2_bytes = info.l2_bytes;
  model.clock_mhz = info.clock_mhz;
  model.shared_bytes_per_block =
      std::min(model.shared_bytes_per_block, info.shared_bytes_per_block);
  return model;
}

absl::Status CheckDescribes(const DeviceModel& model, const DeviceInfo& info) {
  const auto refused = [&](absl::string_view field, const auto& value, const auto& own) {
    return absl::FailedPreconditionError(absl::StrCat("device model ", model.name, ": ", field,
                                                      " = ", value, ", the device '", info.name,
                                                      "' has ", own));
  };
  const std::string arch = absl::StrCat(info.Arch(), "a");
  if (model.arch != arch) return refused("arch", model.arch, arch);
  if (model.sm_count != info.sm_count) return refused("sm_count", model.sm_count, info.sm_count);
  if (model.shared_bytes_per_block > info.shared_bytes_per_block) {
    return refused("shared_bytes_per_block", model.shared_bytes_per_block,
                   info.shared_bytes_per_block);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceModel> NamedModel(absl::string_view text, const DeviceInfo& info) {
  SINTER_ASSIGN_OR_RETURN(DeviceModel model, DeviceModel::FromText(text));
  SINTER_RETURN_IF_ERROR(CheckDescribes(model, info));
  return model;
}

absl::StatusOr<ModelChoice> ChooseModel(const DeviceInfo& info) {
  if (info.cc_major != 9 || info.cc_minor != 0) {
    return absl::FailedPreconditionError(absl::StrCat("device '", info.name, "' is ", info.Arch(),
                                                      ", this library needs sm_90 (Hopper)"));
  }
  if (info.sm_count < 1 || info.l2_bytes < 1 || !(info.clock_mhz > 0)) {
    return absl::FailedPreconditionError(absl::StrCat("device '", info.name, "' reports ",
                                                      info.sm_count, " SMs, ", info.l2_bytes,
                                                      " bytes of L2 and ", info.clock_mhz, " MHz"));
  }
  SINTER_ASSIGN_OR_RETURN(DeviceModel model, NearestModel(info));
  if (NamesModel(info.name, model.name) && model.sm_count == info.sm_count) {
    return ModelChoice{std::move(model), ""};
  }
  std::string warning = absl::StrCat("device '", info.name, "' (", info.sm_count,
                                     " SMs) has no model of its own: using '", model.name,
                                     "' with its SM count, L2 and clock, unmeasured");
  return ModelChoice{Adapt(std::move(model), info), std::move(warning)};
}

}  // namespace sinter
