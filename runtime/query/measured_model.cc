#include "runtime/query/measured_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Of what bulk copies push through distributed shared memory, what the st.async of kernels reach.
constexpr double kStoredShare = 0.9;

// Four digits: more than repeat.
std::string Rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

absl::Status Senseless(absl::string_view key, double less_us, double more_us) {
  return absl::InternalError(absl::StrCat("measuring ", key, ": ", Rounded(more_us), " us behind ",
                                          Rounded(less_us), " us makes no figure"));
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
    if (t_.hbm.empty())
      return absl::InternalError("measuring hbm_bytes_per_us: no stream was timed");
    const absl::string_view whole = absl::StripSuffix(nearest_.name, "-measured");
    const std::string base(absl::StripSuffix(whole, "-adapted"));
    for (auto& [key, provenance] : model_.provenance) {
      const bool told = provenance.origin == Origin::kArchitecture;
      if (provenance.from.empty() && !told) provenance.from = base;
    }
    model_.name = absl::StrCat(base, "-measured");
    model_.measured = true;
    SINTER_RETURN_IF_ERROR(Rates());
    SINTER_RETURN_IF_ERROR(Times());
    SINTER_RETURN_IF_ERROR(Clusters());
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

  absl::Status Rates() {
    SINTER_RETURN_IF_ERROR(SetRate("hbm_bytes_per_us", t_.hbm[0].bytes));
    SINTER_RETURN_IF_ERROR(
        Set("hbm_idle_loss", IdleLoss("hbm_idle_loss", t_.hbm, nearest_.sm_count)));
    SINTER_RETURN_IF_ERROR(SetRate("l2_bytes_per_us", t_.l2_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("l2_shared_bytes_per_us", t_.l2_alike_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("sm_intake_bytes_per_us", t_.intake_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("shared_bytes_per_us", t_.shared_bytes));
    SINTER_RETURN_IF_ERROR(SetRate("reduce_bytes_per_us", t_.reduce_bytes));
    return SetRate("tensor_flop_per_us", t_.tensor_flop);
  }

  // fill_us and programmatic_edge_us stay the nearest model's: they are those of kernels whose
  // first load is small, and fitted figures rest on them.
  absl::Status Times() {
    SINTER_RETURN_IF_ERROR(Set("launch_us", t_.empty_us));
    SINTER_RETURN_IF_ERROR(
        Set("cluster_barrier_us", UnitUs("cluster_barrier_us", t_.cluster_barriers)));
    return Set("grid_barrier_us", UnitUs("grid_barrier_us", t_.grid_barriers));
  }

  // Rates of pushes to peers. Size 1 keeps the nearest model's: a block's own memory is reached by
  // other instructions. So does a size of which no cluster is resident, which nothing asks for.
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

absl::StatusOr<DeviceModel> MeasuredModel(const DeviceModel& nearest, const ProbeTimings& timings) {
  return ModelMaker(nearest, timings).Make();
}

std::string MeasuredModelText(const DeviceModel& measured, const DeviceModel& nearest,
                              const std::string& device) {
  std::string text = absl::StrCat(
      "# ", device, ". [measured]: on this device, by sinter device --measure. [.. from ..]: not ",
      "measured,\n# taken over from that model. [architecture]: documented, or told by the "
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
