#include "tests/bench/results.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"

namespace sinter::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Writer {
  Json* json;
  template <typename T>
  void operator()(absl::string_view key, const T& value) const {
    (*json)[std::string(key)] = value;
  }
  void operator()(absl::string_view key, const std::optional<double>& value) const {
    (*json)[std::string(key)] = value.has_value() ? Json(*value) : Json(nullptr);
  }
};

struct Reader {
  const Json* json;
  template <typename T>
  void operator()(absl::string_view key, T& value) const {
    const auto found = json->find(std::string(key));
    if (found != json->end() && !found->is_null()) value = found->template get<T>();
  }
  void operator()(absl::string_view key, std::optional<double>& value) const {
    const auto found = json->find(std::string(key));
    if (found != json->end() && found->is_number()) value = found->get<double>();
  }
};

Json MachineJson(const Machine& m) {
  return {{"gpu", m.gpu},          {"sm_count", m.sm_count}, {"clock_mhz", m.clock_mhz},
          {"driver", m.driver},    {"cuda", m.cuda},         {"host_cpu", m.host_cpu},
          {"host_cores", m.cores}, {"date", m.date}};
}

template <typename RowType>
Json ArrayOf(const std::vector<RowType>& rows) {
  Json array = Json::array();
  for (const RowType& row : rows) {
    Json one;
    ForEachField(row, Writer{&one});
    array.push_back(std::move(one));
  }
  return array;
}

template <typename RowType>
std::vector<RowType> RowsIn(const Json& json, const char* name) {
  std::vector<RowType> rows;
  for (const Json& one : json.value(name, Json::array())) {
    ForEachField(rows.emplace_back(), Reader{&one});
  }
  return rows;
}

Json ToJson(const Results& results) {
  Json json = {{"machine", MachineJson(results.machine)},
               {"commit", results.source.commit},
               {"dirty", results.source.dirty}};
  if (!results.tuning_set.empty()) json["tuning_set"] = results.tuning_set;
  const auto add = [&](const char* name, Json rows) {
    if (!rows.empty()) json[name] = std::move(rows);
  };
  add("rows", ArrayOf(results.rows));
  add("graphs", ArrayOf(results.graphs));
  add("sweep", ArrayOf(results.sweep));
  add("search", ArrayOf(results.search));
  add("bytes", ArrayOf(results.bytes));
  add("host", ArrayOf(results.host));
  return json;
}

Results FromJson(const Json& json) {
  Results results;
  const Reader machine{&json.at("machine")};
  machine("gpu", results.machine.gpu);
  machine("driver", results.machine.driver);
  machine("cuda", results.machine.cuda);
  machine("date", results.machine.date);
  const Reader top{&json};
  top("commit", results.source.commit);
  top("dirty", results.source.dirty);
  if (json.contains("tuning_set")) top("tuning_set", results.tuning_set);
  results.rows = RowsIn<Row>(json, "rows");
  results.graphs = RowsIn<GraphRow>(json, "graphs");
  return results;
}

// JSON with each list's entries on a line of their own, so that a diff and an eye find a row.
std::string RowALine(const Json& results) {
  // Invalid UTF-8 can only come from outside (a CPU's name); it is replaced, not refused.
  const auto line = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const auto field = [&](std::string* out, const auto& item) {
    absl::StrAppend(out, " ", line(item.key()), ": ");
    const Json& value = item.value();
    if (!value.is_array() || value.empty() || !value.front().is_structured()) {
      absl::StrAppend(out, line(value));
      return;
    }
    const auto row = [&](std::string* rows, const Json& entry) {
      absl::StrAppend(rows, "  ", line(entry));
    };
    absl::StrAppend(out, "[\n", absl::StrJoin(value, ",\n", row), "\n ]");
  };
  return absl::StrCat("{\n", absl::StrJoin(results.items(), ",\n", field), "\n}\n");
}

}  // namespace

absl::Status WriteResults(const Results& results, const std::string& file) {
  const std::filesystem::path path(file);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const std::string part = absl::StrCat(file, ".part");
  std::ofstream stream(part);
  stream << RowALine(ToJson(results));
  stream.close();
  if (!stream) return absl::UnavailableError(absl::StrCat("cannot write '", part, "'"));
  std::filesystem::rename(part, path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot write '", file, "'"));
  return absl::OkStatus();
}

absl::StatusOr<Results> ReadResults(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return absl::NotFoundError(absl::StrCat("cannot read '", file, "'"));
  try {
    return FromJson(Json::parse(stream));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", error.what()));
  }
}

std::string DefaultFileName(const Results& results) {
  const std::string name = absl::AsciiStrToLower(results.machine.gpu);
  const char* gpu = name.find("h200") != std::string::npos   ? "h200"
                    : name.find("h100") != std::string::npos ? "h100"
                                                             : "gpu";
  const std::string day = absl::StrReplaceAll(results.machine.date.substr(0, 10), {{"-", ""}});
  return absl::StrCat("tests/bench/results/", gpu, "-", day, "-",
                      results.source.commit.substr(0, 8), ".json");
}

}  // namespace sinter::bench
