#include "tests/bench/results.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"

namespace sinter::bench {
namespace {

using Json = nlohmann::ordered_json;

// One list of a row's fields for writing and reading.
template <typename RowType, typename Visit>
void VisitRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("problem", r.problem);
  visit("layout", r.layout);
  visit("plan", r.plan);
  visit("chosen", r.chosen);
  visit("predicted_us", r.predicted_us);
  visit("fused_predicted_us", r.fused_predicted_us);
  visit("unfused_predicted_us", r.unfused_predicted_us);
  visit("fused_cold_us", r.fused_cold_us);
  visit("fused_hot_us", r.fused_hot_us);
  visit("fused_pdl_us", r.fused_pdl_us);
  visit("unfused_cold_us", r.unfused_cold_us);
  visit("unfused_hot_us", r.unfused_hot_us);
  visit("unfused_pdl_us", r.unfused_pdl_us);
  visit("chosen_cold_us", r.chosen_cold_us);
  visit("chosen_pdl_us", r.chosen_pdl_us);
  visit("untuned_cold_us", r.untuned_cold_us);
  visit("batch_invariant_cold_us", r.batch_invariant_cold_us);
  visit("cublaslt_cold_us", r.cublaslt_cold_us);
  visit("cublaslt_hot_us", r.cublaslt_hot_us);
  visit("limit_us", r.limit_us);
  visit("chosen_mj_per_call", r.chosen_mj_per_call);
  visit("fused_mj_per_call", r.fused_mj_per_call);
  visit("unfused_mj_per_call", r.unfused_mj_per_call);
  visit("cublaslt_mj_per_call", r.cublaslt_mj_per_call);
  visit("host_us", r.host_us);
  visit("rel_error", r.rel_error);
  visit("max_error", r.max_error);
  visit("cublaslt_rel_error", r.cublaslt_rel_error);
  visit("correct", r.correct);
  visit("fused_schedule", r.fused_schedule);
  visit("unfused_schedule", r.unfused_schedule);
  visit("notes", r.notes);
}

template <typename RowType, typename Visit>
void VisitGraphRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("problem", r.problem);
  visit("ops", r.ops);
  visit("bytes", r.bytes);
  visit("checked", r.checked);
  visit("chosen", r.chosen);
  visit("kernels", r.kernels);
  visit("unfused_kernels", r.unfused_kernels);
  visit("predicted_us", r.predicted_us);
  visit("unfused_predicted_us", r.unfused_predicted_us);
  visit("chosen_us", r.chosen_us);
  visit("unfused_us", r.unfused_us);
  visit("untuned_us", r.untuned_us);
  visit("limit_us", r.limit_us);
  visit("host_us", r.host_us);
  visit("prepare_us", r.prepare_us);
  visit("rotation_bytes", r.rotation_bytes);
  visit("rel_error", r.rel_error);
  visit("max_error", r.max_error);
  visit("correct", r.correct);
  visit("notes", r.notes);
}

template <typename RowType, typename Visit>
void VisitSweepRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("layout", r.layout);
  visit("kind", r.kind);
  visit("rank", r.rank);
  visit("schedule", r.schedule);
  visit("bound", r.bound);
  visit("predicted_us", r.predicted_us);
  visit("measured_us", r.measured_us);
  visit("rel_error", r.rel_error);
  visit("note", r.note);
}

template <typename RowType, typename Visit>
void VisitSearchRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("layout", r.layout);
  visit("kind", r.kind);
  visit("considered", r.considered);
  visit("legal", r.legal);
  visit("measured", r.measured);
  visit("failed", r.failed);
  visit("best_schedule", r.best_schedule);
  visit("best_us", r.best_us);
  visit("top_us", r.top_us);
  visit("first_us", r.first_us);
  visit("spearman", r.spearman);
  visit("search_seconds", r.search_seconds);
  visit("all_seconds", r.all_seconds);
}

template <typename RowType, typename Visit>
void VisitBytesRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("layout", r.layout);
  visit("contestant", r.contestant);
  visit("schedule", r.schedule);
  visit("kernels", r.kernels);
  visit("dram_read_bytes", r.dram_read_bytes);
  visit("l2_bytes", r.l2_bytes);
  visit("dsm_bytes", r.dsm_bytes);
}

template <typename RowType, typename Visit>
void VisitHostRow(RowType& r, const Visit& visit) {
  visit("id", r.id);
  visit("problem", r.problem);
  visit("plan", r.plan);
  visit("kernels", r.kernels);
  visit("launch_us", r.launch_us);
  visit("bare_us", r.bare_us);
  visit("changing_us", r.changing_us);
  visit("aim_us", r.aim_us);
}

struct Writer {
  Json* json;
  template <typename T>
  void operator()(const char* key, const T& value) const {
    (*json)[key] = value;
  }
  void operator()(const char* key, const std::optional<double>& value) const {
    if (value.has_value()) {
      (*json)[key] = *value;
    } else {
      (*json)[key] = nullptr;
    }
  }
};

struct Reader {
  const Json* json;
  template <typename T>
  void operator()(const char* key, T& value) const {
    if (json->contains(key) && !(*json)[key].is_null()) value = (*json)[key].template get<T>();
  }
  void operator()(const char* key, std::optional<double>& value) const {
    if (json->contains(key) && (*json)[key].is_number()) value = (*json)[key].get<double>();
  }
};

Json MachineJson(const Machine& m) {
  return {{"gpu", m.gpu},          {"sm_count", m.sm_count}, {"clock_mhz", m.clock_mhz},
          {"driver", m.driver},    {"cuda", m.cuda},         {"host_cpu", m.host_cpu},
          {"host_cores", m.cores}, {"date", m.date}};
}

template <typename RowType, typename VisitFields>
Json ArrayOf(const std::vector<RowType>& rows, const VisitFields& visit_fields) {
  Json array = Json::array();
  for (const RowType& row : rows) {
    Json one;
    visit_fields(row, Writer{&one});
    array.push_back(std::move(one));
  }
  return array;
}

Json ToJson(const Results& results) {
  Json json = {{"machine", MachineJson(results.machine)},
               {"commit", results.source.commit},
               {"dirty", results.source.dirty}};
  if (!results.tuning_set.empty()) json["tuning_set"] = results.tuning_set;
  const auto add = [&](const char* name, Json rows) {
    if (!rows.empty()) json[name] = std::move(rows);
  };
  add("rows", ArrayOf(results.rows, [](auto& row, auto visit) { VisitRow(row, visit); }));
  add("graphs", ArrayOf(results.graphs, [](auto& row, auto visit) { VisitGraphRow(row, visit); }));
  add("sweep", ArrayOf(results.sweep, [](auto& row, auto visit) { VisitSweepRow(row, visit); }));
  add("search", ArrayOf(results.search, [](auto& row, auto visit) { VisitSearchRow(row, visit); }));
  add("bytes", ArrayOf(results.bytes, [](auto& row, auto visit) { VisitBytesRow(row, visit); }));
  add("host", ArrayOf(results.host, [](auto& row, auto visit) { VisitHostRow(row, visit); }));
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
  for (const Json& one : json.value("rows", Json::array())) {
    Row row;
    VisitRow(row, Reader{&one});
    results.rows.push_back(std::move(row));
  }
  for (const Json& one : json.value("graphs", Json::array())) {
    GraphRow row;
    VisitGraphRow(row, Reader{&one});
    results.graphs.push_back(std::move(row));
  }
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
