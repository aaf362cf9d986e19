// sinter cache export, import, trim, and ls, stat and verify of a pack file.
#include <cstdio>

#include "src/cli/cache_report.h"
#include "src/cli/commands.h"
#include "src/cli/pack_file.h"
#include "src/cli/session.h"
#include "src/cli/workload.h"

namespace sinter::cli {
namespace {

Outcome OpenForRecords(const Options& options, Session* session) {
  DeviceArgs args = options.device;
  if (!args.target_given) args.target = "h200";  // records are the same with and without a GPU
  args.target_given = true;
  return OpenSession(args, session);
}

unsigned long long Count(const Json& json, const char* key) { return json.value(key, uint64_t{0}); }
std::string Some(const Json& json, const char* key, const char* noun) {
  return Counted(Count(json, key), noun);
}

}  // namespace

Outcome InspectPack(const Options& options, bool read_all, Json* report) {
  Session session;
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  return Take(report, [&] { return DescribePack(session, options.pack, read_all); });
}

void PrintPack(const Json& pack) {
  const Json& signers = pack["signed_by"];
  std::printf("%s: %s, %s (%llu verified), %s, by %s, %s\n", PrintableAt(pack, "path").c_str(),
              Some(pack, "plans", "plan").c_str(), Some(pack, "kernels", "kernel").c_str(),
              Count(pack, "verified_kernels"), Some(pack, "bytes", "byte").c_str(),
              PrintableAt(pack, "producer").c_str(),
              signers.empty() ? "signed by nobody trusted"
                              : ("signed by " + signers[0].get<std::string>()).c_str());
}

Outcome CacheExportCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(CheckCacheFolder(options.device));
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  const bool some = !options.chain.words.empty() || !options.chain.file.empty();
  if (!some &&
      (!options.rows.empty() || !options.chain.id.empty() || options.prepare.batch_invariant)) {
    return Usage(
        "--m, --id and --batch-invariant need a chain or --file: without one every record "
        "is written");
  }
  SINTER_CLI_TRY(CheckExport(session, options.pack, options.sign));
  if (some) {
    Workload workload;
    SINTER_CLI_TRY(LoadWorkload(options.chain, options.rows, &workload));
    PrepareArgs args = options.prepare;
    args.must_hit = true;
    WarmResult found;
    SINTER_CLI_TRY(PrepareAll(session, workload, args, 0, &found));
    if (!found.failed.empty()) {
      return {found.failed.front().exit, found.failed.front().chain + ": " + found.message};
    }
  }
  Json report;
  SINTER_CLI_TRY(ExportPack(session, options.pack, options.sign, some, &report));
  if (options.json) {
    PrintJson(report);
  } else {
    std::printf("%s%s\n", ExportText(report).c_str(), options.sign.empty() ? ", not signed" : "");
  }
  return {};
}

Outcome CacheImportCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  Json report;
  SINTER_CLI_TRY(Take(&report, [&] { return ImportRecords(session, options.pack); }));
  if (options.json) {
    PrintJson(report);
  } else {
    std::printf("%s stored, %llu refused\n", Some(report, "stored", "record").c_str(),
                Count(report, "refused"));
  }
  if (Count(report, "refused") == 0) return {};
  return Documented(
      Failure("damaged, or quarantined in the folder: " + Some(report, "refused", "record")),
      options.json);
}

Outcome CacheTrimCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  Json report;
  SINTER_CLI_TRY(Take(&report, [&] { return TrimCache(session, options.max_bytes); }));
  if (report.value("busy", false)) return Failure("another process is trimming the folder");
  if (options.json) {
    PrintJson(report);
  } else {
    std::printf("removed %llu of %s, %llu of %s, and %s\n", Count(report, "evicted"),
                Some(report, "records", "record").c_str(), Count(report, "evicted_bytes"),
                Some(report, "bytes", "byte").c_str(),
                Some(report, "orphans", "leftover file").c_str());
  }
  return {};
}

}  // namespace sinter::cli
