// sinter_x_cache_* and sinter_x_pack_*: the local tier and packs, for people.
#include "nlohmann/json.hpp"
#include "src/capi/structs.h"
#include "src/capi/text.h"
#include "src/engine/cache_tools.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ReportJson(const Config& config, const CacheReport& report) {
  const Json object = {{"dir", config.cache_dir},
                       {"store", report.store},
                       {"plans", report.plans},
                       {"kernels", report.kernels},
                       {"verified_kernels", report.verified_kernels},
                       {"other_format", report.other_format},
                       {"bytes", report.bytes},
                       {"unsound", report.unsound},
                       {"quarantined", report.quarantined},
                       {"temporary", report.temporary},
                       {"findings", report.findings}};
  return Dump(object);
}

absl::StatusOr<CacheTools*> Tools(const sinter_context* context) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  CacheTools* tools = context->engine->ports().cache_tools.get();
  if (tools != nullptr) return tools;
  return absl::UnavailableError("the context's cache has no tools");
}

// Of a context that has a local tier.
absl::StatusOr<CacheTools*> LocalTools(const sinter_context* context) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(context));
  if (context->config.cache_enabled && !context->config.cache_dir.empty()) return tools;
  return absl::UnavailableError("there is no local cache: it is turned off or has no folder");
}

absl::StatusOr<std::string> Inspect(const sinter_context* context) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(context));
  SINTER_ASSIGN_OR_RETURN(const CacheReport report, tools->Inspect());
  return ReportJson(context->config, report);
}

// What the record is, behind what it is called.
void AddStory(const RecordStory& story, Json* record) {
  (*record)["what"] = story.what;
  (*record)["device"] = story.device;
  if (story.uses_m) (*record)["m"] = story.bucket;
}

absl::StatusOr<std::string> List(const sinter_context* context) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(context));
  SINTER_ASSIGN_OR_RETURN(const CacheListing listing, tools->List());
  Json records = Json::array();
  for (const CacheRecord& record : listing.records) {
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
  return Dump({{"dir", context->config.cache_dir},
               {"store", listing.store},
               {"records", std::move(records)}});
}

absl::StatusOr<std::string> Clear(const sinter_context* context, uint32_t flags) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, LocalTools(context));
  SINTER_RETURN_IF_ERROR(CheckFlags(flags, SINTER_X_CLEAR_DRY_RUN, "clear"));
  const bool dry_run = (flags & SINTER_X_CLEAR_DRY_RUN) != 0;
  SINTER_ASSIGN_OR_RETURN(const ClearResult result, tools->Clear(dry_run));
  return Dump({{"dir", context->config.cache_dir},
               {"store", result.store},
               {"removed", !dry_run},
               {"records", result.records},
               {"bytes", result.bytes},
               {"failed", result.failed}});
}

absl::StatusOr<std::string> Export(const sinter_context* context, const char* path,
                                   const sinter_x_export_options* given) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(context));
  SINTER_RETURN_IF_ERROR(CheckNotNull(path, "path"));
  SINTER_ASSIGN_OR_RETURN(
      const sinter_x_export_options options,
      ReadOptions(given, "export", SINTER_X_EXPORT_USED | SINTER_X_EXPORT_DRY_RUN));
  ExportRequest request;
  request.path = path;
  request.used_only = (options.flags & SINTER_X_EXPORT_USED) != 0;
  request.dry_run = (options.flags & SINTER_X_EXPORT_DRY_RUN) != 0;
  if (options.signing_key != nullptr) request.signing_key = options.signing_key;
  request.wanted = [context](RecordKind kind, absl::string_view key, absl::string_view payload) {
    return context->engine->CheckStored(kind, key, payload).ok();
  };
  SINTER_ASSIGN_OR_RETURN(const ExportResult result, tools->Export(request));
  return Dump({{"path", request.path},
               {"plans", result.plans},
               {"kernels", result.kernels},
               {"bytes", result.bytes},
               {"skipped", result.skipped}});
}

absl::StatusOr<std::string> Import(const sinter_context* context, const char* path) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(context));
  SINTER_RETURN_IF_ERROR(CheckNotNull(path, "path"));
  SINTER_ASSIGN_OR_RETURN(const ImportResult result, tools->Import(path));
  return Dump({{"path", path}, {"stored", result.stored}, {"refused", result.refused}});
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

absl::StatusOr<std::string> Describe(const sinter_context* context, const char* path,
                                     uint32_t flags) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(context));
  SINTER_RETURN_IF_ERROR(CheckNotNull(path, "path"));
  SINTER_RETURN_IF_ERROR(CheckFlags(flags, SINTER_X_PACK_READ_ALL, "pack"));
  SINTER_ASSIGN_OR_RETURN(const PackDescription pack,
                          tools->Describe(path, (flags & SINTER_X_PACK_READ_ALL) != 0));
  return Dump(PackJson(pack));
}

absl::StatusOr<std::string> Trim(const sinter_context* context, uint64_t max_bytes) {
  SINTER_ASSIGN_OR_RETURN(CacheTools * tools, Tools(context));
  if (max_bytes == 0) return absl::InvalidArgumentError("max_bytes is 0, must be 1 or more");
  SINTER_ASSIGN_OR_RETURN(const TrimResult result, tools->Trim(max_bytes));
  return Dump({{"busy", result.busy},
               {"records", result.records},
               {"bytes", result.bytes},
               {"evicted", result.evicted},
               {"evicted_bytes", result.evicted_bytes},
               {"orphans", result.orphans}});
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_x_cache_inspect(const sinter_context* context, sinter_x_text** out_json,
                                     sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Inspect(context); });
}

sinter_status sinter_x_cache_list(const sinter_context* context, sinter_x_text** out_json,
                                  sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::List(context); });
}

sinter_status sinter_x_cache_clear(sinter_context* context, uint32_t flags,
                                   sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Clear(context, flags); });
}

sinter_status sinter_x_cache_export(sinter_context* context, const char* path,
                                    const sinter_x_export_options* options,
                                    sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Export(context, path, options); });
}

sinter_status sinter_x_cache_import(sinter_context* context, const char* path,
                                    sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Import(context, path); });
}

sinter_status sinter_x_pack_inspect(sinter_context* context, const char* path, uint32_t flags,
                                    sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Describe(context, path, flags); });
}

sinter_status sinter_x_cache_trim(sinter_context* context, uint64_t max_bytes,
                                  sinter_x_text** out_json, sinter_error** error) {
  return capi::GiveText(out_json, error, [&] { return capi::Trim(context, max_bytes); });
}

sinter_status sinter_x_cache_flush(sinter_context* context, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    context->engine->WriteTraceNow();
    SINTER_ASSIGN_OR_RETURN(sinter::CacheTools * tools, capi::Tools(context));
    tools->Flush();
    return absl::OkStatus();
  });
}

}  // extern "C"
