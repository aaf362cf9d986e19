#include "runtime/query/model_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/driver/driver.h"
#include "src/base/arch.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// The st.async of kernels reach this share of the rate that bulk copies reach through distributed
// shared memory.
constexpr double kStoredShare = 0.9;
// And this share of the rate of copies to another GPU: 340 of 399 GB/s between two H200s.
constexpr double kLinkStoredShare = 0.85;

// Four digits: more than repeat.
std::string Rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

absl::Status Senseless(absl::string_view key, double less_us, double more_us) {
  return Internal("measuring ", key, ": ", Rounded(more_us), " us behind ", Rounded(less_us),
                  " us makes no figure");
}

// Amount a microsecond, by the difference of two launches.
absl::StatusOr<double> RateOf(absl::string_view key, const ProbeSlope& slope) {
  const double us = slope.more_us - slope.less_us;
  if (std::isfinite(us) && us > 0) return (slope.more - slope.less) / us;
  return Senseless(key, slope.less_us, slope.more_us);
}

// Microseconds of one unit.
absl::StatusOr<double> UnitUs(absl::string_view key, const ProbeSlope& slope) {
  SINTER_ASSIGN_OR_RETURN(const double rate, RateOf(key, slope));
  return 1 / rate;
}

// The loss that comes nearest to the rates of all streams: rate = full * (1 - loss * idle share).
absl::StatusOr<double> IdleLoss(absl::string_view key, const std::vector<ProbeStream>& streams,
                                int sm_count) {
  SINTER_ASSIGN_OR_RETURN(const double full, RateOf(key, streams[0].bytes));
  double lost = 0, squares = 0;
  for (const ProbeStream& stream : streams) {
    const double idle = std::max(0.0, 1 - static_cast<double>(stream.blocks) / sm_count);
    SINTER_ASSIGN_OR_RETURN(const double rate, RateOf(key, stream.bytes));
    lost += idle * (1 - rate / full);
    squares += idle * idle;
  }
  return squares == 0 ? 0 : std::clamp(lost / squares, 0.0, 1.0);
}

class ModelMaker {
 public:
  ModelMaker(const DeviceModel& nearest, const ProbeTimings& timings)
      : nearest_(nearest), t_(timings), model_(nearest) {}

  absl::StatusOr<DeviceModel> Make() {
    SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(nearest_.arch));
    if (t_.hbm.empty()) return Internal("measuring hbm_bytes_per_us: no stream was timed");
    const absl::string_view whole = absl::StripSuffix(nearest_.name, "-measured");
    const std::string base(absl::StripSuffix(whole, "-adapted"));
    for (auto& [key, provenance] : model_.provenance) {
      const bool told = provenance.origin == Origin::kArchitecture;
      if (provenance.from.empty() && !told) provenance.from = base;
    }
    model_.name = absl::StrCat(base, "-measured");
    model_.measured = true;
    SINTER_RETURN_IF_ERROR(OfEveryChip());
    SINTER_RETURN_IF_ERROR(features.products ? OfHopper() : OfOthers());
    return DeviceModel::FromText(model_.ToText());
  }

 private:
  absl::Status Set(absl::string_view key, const absl::StatusOr<double>& value) {
    if (!value.ok()) return value.status();
    return model_.Assign(key, Rounded(*value), {Origin::kMeasured, ""});
  }

  absl::Status SetRate(absl::string_view key, const ProbeSlope& slope) {
    return Set(key, RateOf(key, slope));
  }

  absl::Status OfEveryChip() {
    SINTER_RETURN_IF_ERROR(SetRate("hbm_bytes_per_us", t_.hbm[0].bytes));
    SINTER_RETURN_IF_ERROR(SetRate("l2_bytes_per_us", t_.l2_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("l2_shared_bytes_per_us", t_.l2_alike_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("sm_intake_bytes_per_us", t_.intake_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("shared_bytes_per_us", t_.shared_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("tensor_flop_per_us", t_.tensor_flop));
    SINTER_RETURN_IF_ERROR(Set("launch_us", t_.empty_us));
    return Set("grid_barrier_us", UnitUs("grid_barrier_us", t_.grid_barriers));
  }

  // Of Hopper this rate is not measured.
  absl::Status OfOthers() { return SetRate("tensor_fp8_flop_per_us", t_.tensor_code_flop); }

  absl::Status OfHopper() {
    SINTER_RETURN_IF_ERROR(
        Set("hbm_idle_loss", IdleLoss("hbm_idle_loss", t_.hbm, nearest_.sm_count)));
    SINTER_RETURN_IF_ERROR(SetRate("reduce_bytes_per_us", t_.reduce_bytes));
    // Without another GPU it stays the nearest model's.
    if (t_.link_bytes.more > 0) {
      absl::StatusOr<double> rate = RateOf("link_bytes_per_us", t_.link_bytes);
      if (rate.ok()) *rate *= kLinkStoredShare;
      SINTER_RETURN_IF_ERROR(Set("link_bytes_per_us", rate));
    }
    SINTER_RETURN_IF_ERROR(Edge());
    return Clusters();
  }

  // fill_us stays the nearest model's: it is the fill time of a kernel whose first load is small,
  // and fitted figures rest on it. cluster_barrier_us stays too: kernels that only run rounds of
  // barriers take more than twice as long on an H100 as on an H200, kernels with clusters do not.
  // The time that a kernel takes after a programmatic edge stays too: if launches take longer, such
  // an edge saves as much more. Without that, one kernel would be chosen instead of two.
  absl::Status Edge() {
    constexpr absl::string_view kEdge = "programmatic_edge_us";
    const double saved = nearest_.programmatic_edge_us + model_.launch_us - nearest_.launch_us;
    const Provenance of_nearest = model_.provenance.at(std::string(kEdge));
    return model_.Assign(kEdge, Rounded(std::max(0.0, saved)), of_nearest);
  }

  // Rates of pushes to peers. Size 1 keeps the nearest model's: a block's own memory is reached by
  // other instructions. A size of which no cluster is resident keeps it too: nothing asks for it.
  absl::Status Clusters() {
    constexpr absl::string_view kDsm = "dsm_bytes_per_us", kResident = "resident_clusters";
    std::vector<std::string> rates, resident;
    for (size_t i = 0; i < kClusterSizes.size(); ++i) {
      const int clusters = std::min(t_.resident_clusters[i], nearest_.sm_count / kClusterSizes[i]);
      resident.push_back(absl::StrCat(clusters));
      double rate = nearest_.dsm_bytes_per_us[i];
      if (clusters > 0 && kClusterSizes[i] > 1) {
        SINTER_ASSIGN_OR_RETURN(rate, RateOf(kDsm, t_.dsm_bytes[i]));
        rate *= kStoredShare;
      }
      rates.push_back(Rounded(rate));
    }
    const Provenance measured = {Origin::kMeasured, ""};
    SINTER_RETURN_IF_ERROR(model_.Assign(kDsm, absl::StrJoin(rates, " "), measured));
    return model_.Assign(kResident, absl::StrJoin(resident, " "), measured);
  }

  const DeviceModel& nearest_;
  const ProbeTimings& t_;
  DeviceModel model_;
};

// Lines of a model's text by key.
std::map<std::string, std::string> LinesOf(const DeviceModel& model) {
  std::map<std::string, std::string> lines;
  const std::string text = model.ToText();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line.substr(0, line.find(" [")), absl::MaxSplits(" = ", 1));
    lines[std::string(field.first)] = std::string(field.second);
  }
  return lines;
}

}  // namespace

std::string DeviceInfo::Arch() const {
  return absl::StrCat("sm_", Capability(), Capability() == 90 ? "a" : "");
}

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

// Whether words of the device's name are the model's: "NVIDIA H200 NVL" is an h200, "NVIDIA GeForce
// RTX 4090" an rtx-4090, "NVIDIA GH200 480GB" no h200.
bool NamesModel(const std::string& device_name, const std::string& model_name) {
  std::string words = absl::StrCat("-", absl::AsciiStrToLower(device_name), "-");
  std::replace(words.begin(), words.end(), ' ', '-');
  return absl::StrContains(words, absl::StrCat("-", model_name, "-"));
}

// Smaller is nearer: the architecture, the name, then the SM count, then a measured model.
std::vector<int> Distance(const DeviceModel& model, const DeviceInfo& info) {
  return {std::abs(FeaturesOf(model.arch)->capability - info.Capability()),
          NamesModel(info.name, model.name) ? 0 : 1, std::abs(model.sm_count - info.sm_count),
          model.measured ? 0 : 1};
}

absl::StatusOr<DeviceModel> NearestModel(const DeviceInfo& info) {
  std::vector<DeviceModel> models;
  for (const std::string& name : BuiltinModelNames()) {
    SINTER_ASSIGN_OR_RETURN(DeviceModel model, BuiltinModel(name));
    models.push_back(std::move(model));
  }
  if (models.empty()) return Internal("there is no built-in device model");
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
  model.arch = info.Arch();
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
    return FailedPrecondition("device model ", model.name, ": ", field, " = ", value,
                              ", the device '", info.name, "' has ", own);
  };
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(model.arch);
  const bool translated =
      features.ok() && features->translated && features->capability <= info.Capability();
  if (!translated && model.arch != info.Arch()) return refused("arch", model.arch, info.Arch());
  if (translated ? model.sm_count > info.sm_count : model.sm_count != info.sm_count) {
    return refused("sm_count", model.sm_count, info.sm_count);
  }
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
  if (const absl::Status known = FeaturesOf(info.Arch()).status(); !known.ok()) {
    return FailedPrecondition("device '", info.name, "': ", known.message());
  }
  if (info.sm_count < 1 || info.l2_bytes < 1 || !(info.clock_mhz > 0)) {
    return FailedPrecondition("device '", info.name, "' reports ", info.sm_count, " SMs, ",
                              info.l2_bytes, " bytes of L2 and ", info.clock_mhz, " MHz");
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

absl::StatusOr<DeviceModel> MeasuredModel(const DeviceModel& nearest, const ProbeTimings& timings) {
  return ModelMaker(nearest, timings).Make();
}

std::string MeasuredModelText(const DeviceModel& measured, const DeviceModel& nearest,
                              const std::string& device) {
  std::string text = absl::StrCat(
      "# ", device, ". [measured]: on this device, by sinter device --measure. [.. from ..]: not ",
      "measured,\n# taken over from that model. [architecture]: documented, or reported by the "
      "driver.\n");
  const std::map<std::string, std::string> known = LinesOf(nearest);
  const std::string lines = measured.ToText();
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::string key(line.substr(0, line.find(' ')));
    absl::StrAppend(&text, line);
    const auto source = measured.provenance.find(key);
    if (source != measured.provenance.end() && source->second.ToText() == "measured") {
      absl::StrAppend(&text, "  # ", nearest.name, ": ", known.at(key));
    }
    text += "\n";
  }
  return text;
}

}  // namespace sinter
