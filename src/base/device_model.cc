#include "src/base/device_model.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/builtin_models.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Calls visit(key, field, low, high) for every field of `model`, in the order of the text form. The
// one list of fields: writing, reading and checking all walk it.
template <typename Model, typename Visitor>
void VisitFields(Model& model, Visitor&& visit) {
  visit("name", model.name, 0, 0);
  visit("arch", model.arch, 0, 0);
  visit("measured", model.measured, 0, 0);
  visit("sm_count", model.sm_count, 1, 4096);
  visit("l2_bytes", model.l2_bytes, 1, 1e12);
  visit("shared_bytes_per_block", model.shared_bytes_per_block, 1024, 1 << 24);
  visit("registers_per_sm", model.registers_per_sm, 1024, 1 << 24);
  visit("clock_mhz", model.clock_mhz, 1, 1e5);
  visit("tensor_flop_per_us", model.tensor_flop_per_us, 1, 1e15);
  visit("hbm_bytes_per_us", model.hbm_bytes_per_us, 1, 1e12);
  visit("hbm_idle_loss", model.hbm_idle_loss, 0, 1);
  visit("l2_bytes_per_us", model.l2_bytes_per_us, 1, 1e12);
  visit("l2_shared_bytes_per_us", model.l2_shared_bytes_per_us, 1, 1e12);
  visit("l2_reader_gain", model.l2_reader_gain, 0, 10);
  visit("l2_rows_bytes_per_us", model.l2_rows_bytes_per_us, 1, 1e12);
  visit("l2_rows_reader_gain", model.l2_rows_reader_gain, 0, 10);
  visit("l2_straddle_loss", model.l2_straddle_loss, 0, 10);
  visit("sm_intake_bytes_per_us", model.sm_intake_bytes_per_us, 1, 1e12);
  visit("shared_bytes_per_us", model.shared_bytes_per_us, 1, 1e12);
  visit("dsm_bytes_per_us", model.dsm_bytes_per_us, 1, 1e12);
  visit("resident_clusters", model.resident_clusters, 0, 4096);
  visit("reduce_bytes_per_us", model.reduce_bytes_per_us, 1, 1e12);
  visit("launch_us", model.launch_us, 0, 1e6);
  visit("programmatic_edge_us", model.programmatic_edge_us, 0, 1e6);
  visit("fill_us", model.fill_us, 0, 1e6);
  visit("stage_us", model.stage_us, 0, 1e6);
  visit("lone_step_us", model.lone_step_us, 0, 1e6);
  visit("reduce_us", model.reduce_us, 0, 1e6);
  visit("cluster_barrier_us", model.cluster_barrier_us, 0, 1e6);
  visit("grid_barrier_us", model.grid_barrier_us, 0, 1e6);
  visit("drain_us", model.drain_us, 0, 1e6);
  visit("epilogue_value_us", model.epilogue_value_us, 0, 1e6);
}

// The shortest decimal that reads back as the same double, in any locale.
std::string Format(double value) {
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}
std::string Format(const std::string& value) { return value; }
std::string Format(bool value) { return value ? "true" : "false"; }
std::string Format(int value) { return absl::StrCat(value); }
std::string Format(int64_t value) { return absl::StrCat(value); }
template <typename T>
std::string Format(const std::array<T, 5>& values) {
  return absl::StrJoin(values, " ", [](std::string* s, T v) { s->append(Format(v)); });
}

constexpr size_t kMaxList = 256;  // bytes

bool ParseNumber(absl::string_view text, double* out) { return absl::SimpleAtod(text, out); }
bool ParseNumber(absl::string_view text, int* out) { return absl::SimpleAtoi(text, out); }
bool ParseNumber(absl::string_view text, int64_t* out) { return absl::SimpleAtoi(text, out); }

absl::Status BadValue(absl::string_view key, absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("device model: ", key, " = \"", value.substr(0, 64), "\", must be ", wanted));
}

absl::Status Parse(absl::string_view key, absl::string_view text, double, double,
                   std::string& out) {
  if (text.empty() || text.size() > 64) return BadValue(key, text, "1..64 characters");
  for (char c : text) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') {
      return BadValue(key, text, "letters, digits, '_', '-' or '.'");
    }
  }
  out = std::string(text);
  return absl::OkStatus();
}

absl::Status Parse(absl::string_view key, absl::string_view text, double, double, bool& out) {
  if (text != "true" && text != "false") return BadValue(key, text, "true or false");
  out = text == "true";
  return absl::OkStatus();
}

template <typename T>
std::enable_if_t<std::is_arithmetic<T>::value && !std::is_same<T, bool>::value, absl::Status> Parse(
    absl::string_view key, absl::string_view text, double low, double high, T& out) {
  T value{};
  const bool in_range = ParseNumber(text, &value) && std::isfinite(static_cast<double>(value)) &&
                        static_cast<double>(value) >= low && static_cast<double>(value) <= high;
  if (!in_range) {
    const char* kind = std::is_integral<T>::value ? "an integer" : "a number";
    return BadValue(key, text, absl::StrCat(kind, " in ", Format(low), "..", Format(high)));
  }
  out = value;
  return absl::OkStatus();
}

template <typename T>
absl::Status Parse(absl::string_view key, absl::string_view text, double low, double high,
                   std::array<T, 5>& out) {
  constexpr absl::string_view kWanted = "5 numbers, for cluster sizes 1 2 4 8 16";
  if (text.size() > kMaxList) return BadValue(key, text, kWanted);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  if (parts.size() != out.size()) return BadValue(key, text, kWanted);
  for (size_t i = 0; i < out.size(); ++i) {
    SINTER_RETURN_IF_ERROR(Parse(key, parts[i], low, high, out[i]));
  }
  return absl::OkStatus();
}

constexpr size_t kMaxKeys = 256;  // of a text: several times those that there are

using KeyedValues = std::vector<std::pair<absl::string_view, absl::string_view>>;

absl::StatusOr<KeyedValues> SplitLines(absl::string_view text) {
  KeyedValues values;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("device model: line ", number, " is not of the form key = value"));
    }
    if (values.size() == kMaxKeys) {
      return absl::InvalidArgumentError(
          absl::StrCat("device model: line ", number, ": has more than ", kMaxKeys, " keys"));
    }
    const absl::string_view key = absl::StripTrailingAsciiWhitespace(line.substr(0, equals));
    for (const auto& earlier : values) {
      if (earlier.first == key) {
        return absl::InvalidArgumentError(absl::StrCat("device model: line ", number,
                                                       " repeats key \"", key.substr(0, 64), "\""));
      }
    }
    values.emplace_back(key, absl::StripLeadingAsciiWhitespace(line.substr(equals + 1)));
  }
  return values;
}

// Reads every field out of `values` and counts as used what it read.
absl::Status ReadFields(const KeyedValues& values, DeviceModel& model, std::vector<bool>& used) {
  absl::Status status;
  VisitFields(model, [&](absl::string_view key, auto& field, double low, double high) {
    if (!status.ok()) return;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].first != key) continue;
      used[i] = true;
      status = Parse(key, values[i].second, low, high, field);
      return;
    }
    status = absl::InvalidArgumentError(absl::StrCat("device model: key \"", key, "\" is missing"));
  });
  return status;
}

absl::Status CheckClusters(const DeviceModel& model) {
  for (size_t i = 0; i < kClusterSizes.size(); ++i) {
    if (int64_t{model.resident_clusters[i]} * kClusterSizes[i] > model.sm_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("device model: resident_clusters of size ", kClusterSizes[i], " = ",
                       model.resident_clusters[i], ", must fit in sm_count = ", model.sm_count));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int ClusterIndex(int cluster_size) {
  for (size_t i = 0; i < kClusterSizes.size(); ++i) {
    if (kClusterSizes[i] == cluster_size) return static_cast<int>(i);
  }
  return -1;
}

std::string DeviceModel::ToText() const {
  std::string text;
  VisitFields(*this, [&](absl::string_view key, const auto& field, double, double) {
    absl::StrAppend(&text, key, " = ", Format(field), "\n");
  });
  return text;
}

absl::StatusOr<DeviceModel> DeviceModel::FromText(absl::string_view text) {
  SINTER_ASSIGN_OR_RETURN(const KeyedValues values, SplitLines(text));
  DeviceModel model;
  std::vector<bool> used(values.size(), false);
  const absl::Status fields = ReadFields(values, model, used);
  SINTER_RETURN_IF_ERROR(fields);
  for (size_t i = 0; i < values.size(); ++i) {
    if (used[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("device model: unknown key \"", values[i].first.substr(0, 64), "\""));
  }
  SINTER_RETURN_IF_ERROR(CheckClusters(model));
  return model;
}

Digest DeviceModel::ModelDigest() const { return Sha256(ToText()); }

int DeviceModel::ResidentBlocks(int cluster_size) const {
  const int index = ClusterIndex(cluster_size);
  return index < 0 ? 0 : resident_clusters[index] * cluster_size;
}

absl::StatusOr<DeviceModel> BuiltinModel(absl::string_view name) {
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) {
    if (name == builtin.name) return DeviceModel::FromText(builtin.text);
  }
  return absl::NotFoundError(
      absl::StrCat("no device model \"", name.substr(0, 64),
                   "\"; built in: ", absl::StrJoin(BuiltinModelNames(), ", ")));
}

std::vector<std::string> BuiltinModelNames() {
  std::vector<std::string> names;
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) names.emplace_back(builtin.name);
  return names;
}

}  // namespace sinter
