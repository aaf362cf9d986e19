#include <functional>
#include <utility>

#include "src/base/status.h"
#include "src/cli/session.h"
#include "src/plan/fields_json.h"

namespace sinter::cli {
namespace {

absl::StatusOr<CacheTools*> Tools(const Session& session) {
  CacheTools* tools = session.context->engine->ports().cache_tools.get();
  if (tools != nullptr) return tools;
  return Unavailable("the context's cache has no tools");
}

// The cache tools of a session that has a local tier.
absl::StatusOr<CacheTools*> LocalTools(const Session& session) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(session));
  if (session.context->config.cache_enabled && !session.context->config.cache_dir.empty())
    return tools;
  return Unavailable("there is no local cache: it is turned off or has no folder");
}

// Adds what the record is to what it is called.
void AddStory(const RecordStory& story, Json* record) {
  (*record)["what"] = story.what;
  (*record)["device"] = story.device;
  if (story.uses_m) (*record)["m"] = story.bucket;
}

Json PackJson(const PackDescription& pack) {
  Json records = Json::array();
  uint64_t plans = 0, kernels = 0, verified = 0;
  for (const PackRecord& record : pack.records) {
    const bool kernel = record.kind == RecordKind::kKernel;
    ++(kernel ? kernels : plans);
    verified += record.verified ? 1 : 0;
    records.push_back({{"kind", kernel ? "kernel" : "plan"},
                       {"key", record.key.Hex()},
                       {"bytes", record.bytes},
                       {"verified", record.verified},
                       {"arch", record.arch}});
    AddStory(record.story, &records.back());
  }
  return {
      {"path", pack.path},       {"producer", pack.producer},    {"created", pack.created_unix_s},
      {"bytes", pack.bytes},     {"signed_by", pack.signed_by},  {"plans", plans},
      {"kernels", kernels},      {"verified_kernels", verified}, {"records", std::move(records)},
      {"unsound", pack.unsound}, {"findings", pack.findings}};
}

// The fields of a report, after what it is about.
template <typename Report>
Json Reported(Json about, const Report& report) {
  about.update(FieldsJson(report));
  return about;
}

// Takes the records that this library can vouch for.
RecordFilter VouchedFor(const Session& session) {
  return [&session](RecordKind kind, absl::string_view key, absl::string_view payload) {
    return session.context->engine->CheckStored(kind, key, payload).ok();
  };
}

absl::StatusOr<Json> ExportRecords(const Session& session, ExportRequest request) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(session));
  request.wanted = VouchedFor(session);
  SINTER_ASSIGN_OR_RETURN(const PackReport report, tools->Export(request));
  return Reported({{"path", request.path}}, report);
}

}  // namespace

absl::StatusOr<Json> InspectCache(const Session& session) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(session));
  SINTER_ASSIGN_OR_RETURN(const LocalReport report, tools->Inspect());
  return Reported({{"dir", session.context->config.cache_dir}, {"store", kLocalStoreName}}, report);
}

absl::StatusOr<Json> ListCache(const Session& session) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(session));
  SINTER_ASSIGN_OR_RETURN(const std::vector<CacheRecord> listing, tools->List());
  Json records = Json::array();
  for (const CacheRecord& record : listing) {
    records.push_back({{"kind", record.kind == RecordKind::kKernel ? "kernel" : "plan"},
                       {"key", record.key.Hex()},
                       {"bytes", record.bytes},
                       {"last_use", record.last_use_unix_s},
                       {"sound", record.sound},
                       {"verified", record.verified},
                       {"created", record.created_unix_s},
                       {"arch", record.arch},
                       {"producer", record.producer}});
    AddStory(record.story, &records.back());
  }
  return Json{{"dir", session.context->config.cache_dir},
              {"store", kLocalStoreName},
              {"records", std::move(records)}};
}

absl::StatusOr<Json> ClearCache(const Session& session, bool dry_run) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(session));
  SINTER_ASSIGN_OR_RETURN(const ClearReport report, tools->Clear(dry_run));
  return Reported({{"dir", session.context->config.cache_dir},
                   {"store", kLocalStoreName},
                   {"removed", !dry_run}},
                  report);
}

absl::StatusOr<Json> TrimCache(const Session& session, uint64_t max_bytes) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(session));
  SINTER_ASSIGN_OR_RETURN(const SweepReport report, tools->Trim(max_bytes));
  return FieldsJson(report);
}

absl::StatusOr<Json> PushRecords(const Session& session) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(session));
  SINTER_ASSIGN_OR_RETURN(const PushReport report, tools->Push(VouchedFor(session)));
  return FieldsJson(report);
}

absl::StatusOr<Json> KeptRecords(const Session& session) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(session));
  SINTER_ASSIGN_OR_RETURN(const KeptReport report, tools->Kept());
  return FieldsJson(report);
}

absl::StatusOr<Json> ImportRecords(const Session& session, const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(session));
  SINTER_ASSIGN_OR_RETURN(const ImportReport report, tools->Import(path));
  return Reported({{"path", path}}, report);
}

absl::StatusOr<Json> DescribePack(const Session& session, const std::string& path, bool read_all) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(session));
  SINTER_ASSIGN_OR_RETURN(const PackDescription pack, tools->Describe(path, read_all));
  return PackJson(pack);
}

Outcome CheckExport(const Session& session, const std::string& path,
                    const std::string& signing_key) {
  SINTER_CLI_TRY(CheckWritable(path));
  ExportRequest request;
  request.path = path;
  request.signing_key = signing_key;
  request.dry_run = true;
  Json report;
  return Take(&report, [&] { return ExportRecords(session, request); });
}

Outcome ExportPack(const Session& session, const std::string& path, const std::string& signing_key,
                   bool used_only, Json* report) {
  ExportRequest request;
  request.path = path;
  request.signing_key = signing_key;
  request.used_only = used_only;
  return Take(report, [&] { return ExportRecords(session, request); });
}

std::string ExportText(const Json& report) {
  const auto count = [&](const char* key, const char* noun) {
    return Counted(report.value(key, uint64_t{0}), noun);
  };
  return PrintableAt(report, "path") + ": " + count("plans", "plan") + ", " +
         count("kernels", "kernel") + ", " + count("bytes", "byte");
}

}  // namespace sinter::cli
