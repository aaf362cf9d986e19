#include "src/base/device_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/arch.h"
#include "src/base/builtin_models.h"
#include "src/base/data_sheets.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr std::pair<absl::string_view, Origin> kOrigins[] = {
    {"measured", Origin::kMeasured},
    {"architecture", Origin::kArchitecture},
    {"fitted", Origin::kFitted},
};

}  // namespace

bool IsModelName(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}

std::string Provenance::ToText() const {
  absl::string_view word = "unknown";
  for (const auto& [name, known] : kOrigins) {
    if (known == origin) word = name;
  }
  return from.empty() ? std::string(word) : absl::StrCat(word, " from ", from);
}

absl::StatusOr<Provenance> Provenance::FromText(absl::string_view text) {
  Provenance provenance;
  absl::string_view rest = text;
  for (const auto& [name, known] : kOrigins) {
    if (!absl::ConsumePrefix(&rest, name)) continue;
    provenance.origin = known;
    break;
  }
  if (absl::ConsumePrefix(&rest, " from ")) {
    if (IsModelName(rest)) provenance.from = std::string(std::exchange(rest, ""));
  }
  if (provenance.origin != Origin::kUnknown && rest.empty()) return provenance;
  return Invalid("unknown provenance \"", text.substr(0, 96),
                 "\", must be measured, architecture or fitted, each with \"from <model>\" where "
                 "it was taken over");
}

namespace {

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
  return Invalid("device model: ", key, " = \"", value.substr(0, 64), "\", must be ", wanted);
}

absl::Status Parse(absl::string_view key, absl::string_view text, double, double,
                   std::string& out) {
  if (!IsModelName(text)) return BadValue(key, text, "1..64 letters, digits, '_', '-' or '.'");
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
  std::array<T, 5> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    SINTER_RETURN_IF_ERROR(Parse(key, parts[i], low, high, values[i]));
  }
  out = values;
  return absl::OkStatus();
}

constexpr size_t kMaxKeys = 256;  // in one text; a model has far fewer

// One line of a text: key = value [provenance].
struct Line {
  absl::string_view key, value, provenance;
  bool has_provenance = false;
};

absl::Status BadLine(int number, absl::string_view what) {
  return Invalid("device model: line ", number, what);
}

absl::StatusOr<Line> SplitLine(absl::string_view text, int number) {
  constexpr absl::string_view kForm = " is not of the form key = value [provenance]";
  Line line;
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return BadLine(number, kForm);
  line.key = absl::StripTrailingAsciiWhitespace(text.substr(0, equals));
  line.value = absl::StripLeadingAsciiWhitespace(text.substr(equals + 1));
  const size_t open = line.value.find('[');
  if (open == absl::string_view::npos) return line;
  if (line.value.back() != ']') return BadLine(number, kForm);
  line.has_provenance = true;
  line.provenance = line.value.substr(open + 1, line.value.size() - open - 2);
  line.value = absl::StripTrailingAsciiWhitespace(line.value.substr(0, open));
  return line;
}

absl::StatusOr<std::vector<Line>> SplitLines(absl::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  for (absl::string_view written : absl::StrSplit(text, '\n')) {
    ++number;
    written = absl::StripAsciiWhitespace(written.substr(0, written.find('#')));
    if (written.empty()) continue;
    SINTER_ASSIGN_OR_RETURN(const Line line, SplitLine(written, number));
    if (lines.size() == kMaxKeys) {
      return BadLine(number, absl::StrCat(": has more than ", kMaxKeys, " keys"));
    }
    for (const Line& earlier : lines) {
      if (earlier.key != line.key) continue;
      return BadLine(number, absl::StrCat(" repeats key \"", line.key.substr(0, 64), "\""));
    }
    lines.push_back(line);
  }
  return lines;
}

// Names and flags say which model it is; all other fields are figures and have a provenance.
bool IsFigure(const std::string&) { return false; }
bool IsFigure(bool) { return false; }
template <typename T>
bool IsFigure(const T&) {
  return true;
}

absl::Status CheckProvenance(const Line& line, bool figure) {
  if (line.has_provenance == figure) return absl::OkStatus();
  return Invalid("device model: ", line.key, " = ", line.value.substr(0, 64),
                 figure ? " has no provenance, must end in [measured], [architecture] or [fitted]"
                        : " has a provenance, which only figures may have");
}

template <typename T>
absl::Status ReadField(const Line& line, double low, double high, T& field, DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(Parse(line.key, line.value, low, high, field));
  SINTER_RETURN_IF_ERROR(CheckProvenance(line, IsFigure(field)));
  if (!line.has_provenance) return absl::OkStatus();
  absl::StatusOr<Provenance> provenance = Provenance::FromText(line.provenance);
  if (!provenance.ok()) {
    return Annotate(provenance.status(), absl::StrCat("device model: ", line.key));
  }
  model.provenance[std::string(line.key)] = *std::move(provenance);
  return absl::OkStatus();
}

// Reads every field out of `lines` and counts as used what it read.
absl::Status ReadFields(const std::vector<Line>& lines, DeviceModel& model,
                        std::vector<bool>& used) {
  absl::Status status;
  VisitFields(model, [&](absl::string_view key, auto& field, double low, double high) {
    if (!status.ok()) return;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].key != key) continue;
      used[i] = true;
      status = ReadField(lines[i], low, high, field, model);
      return;
    }
    status = Invalid("device model: key \"", key, "\" is missing");
  });
  return status;
}

absl::Status CheckClusters(const DeviceModel& model) {
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(model.arch);
  const bool none = features.ok() && !features->clusters;
  for (size_t i = 0; i < kClusterSizes.size(); ++i) {
    if (none && kClusterSizes[i] > 1 && model.resident_clusters[i] > 0) {
      return Invalid("device model: resident_clusters of size ", kClusterSizes[i], " = ",
                     model.resident_clusters[i], ", must be 0: ", model.arch, " has no clusters");
    }
    if (int64_t{model.resident_clusters[i]} * kClusterSizes[i] > model.sm_count) {
      return Invalid("device model: resident_clusters of size ", kClusterSizes[i], " = ",
                     model.resident_clusters[i], ", must fit in sm_count = ", model.sm_count);
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
    absl::StrAppend(&text, key, " = ", Format(field));
    if (IsFigure(field)) {
      const auto known = provenance.find(std::string(key));
      const Provenance source = known == provenance.end() ? Provenance() : known->second;
      absl::StrAppend(&text, " [", source.ToText(), "]");
    }
    text += "\n";
  });
  return text;
}

absl::StatusOr<DeviceModel> DeviceModel::FromText(absl::string_view text) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<Line> lines, SplitLines(text));
  DeviceModel model;
  std::vector<bool> used(lines.size(), false);
  SINTER_RETURN_IF_ERROR(ReadFields(lines, model, used));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (used[i]) continue;
    return Invalid("device model: unknown key \"", lines[i].key.substr(0, 64), "\"");
  }
  SINTER_RETURN_IF_ERROR(CheckClusters(model));
  return model;
}

absl::Status DeviceModel::Assign(absl::string_view key, absl::string_view value,
                                 const Provenance& source) {
  absl::Status status = Invalid("device model: no figure \"", key.substr(0, 64), "\"");
  VisitFields(*this, [&](absl::string_view known, auto& field, double low, double high) {
    if (known == key && IsFigure(field)) status = Parse(key, value, low, high, field);
  });
  if (status.ok()) provenance[std::string(key)] = source;
  return status;
}

Digest DeviceModel::ModelDigest() const {
  std::string text;
  VisitFields(*this, [&](absl::string_view key, const auto& field, double, double) {
    absl::StrAppend(&text, key, " = ", Format(field), "\n");
  });
  return Sha256(text);
}

int DeviceModel::ResidentBlocks(int cluster_size) const {
  const int index = ClusterIndex(cluster_size);
  return index < 0 ? 0 : resident_clusters[index] * cluster_size;
}

absl::StatusOr<DeviceModel> BuiltinModel(absl::string_view name) {
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) {
    if (absl::EqualsIgnoreCase(name, builtin.name)) return DeviceModel::FromText(builtin.text);
  }
  SINTER_ASSIGN_OR_RETURN(const DeviceModel measured,
                          DeviceModel::FromText(kBuiltinModelTexts[0].text));
  absl::StatusOr<DeviceModel> model = DataSheetModel(name, measured);
  if (model.ok()) return model;
  return NotFound("no device model \"", name.substr(0, 64),
                  "\"; built in: ", absl::StrJoin(BuiltinModelNames(), ", "));
}

std::vector<std::string> BuiltinModelNames() {
  std::vector<std::string> names;
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) names.emplace_back(builtin.name);
  for (std::string& name : DataSheetNames()) names.push_back(std::move(name));
  return names;
}

}  // namespace sinter
