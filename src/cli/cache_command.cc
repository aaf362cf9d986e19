// sinter cache: what the local tier holds, and packs. Removing a record only makes a later look-up
// miss.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

Outcome NoFolder() {
  return Usage(
      "there is no cache folder: it is turned off, or neither SINTER_CACHE_DIR nor HOME is set; "
      "give --cache-dir");
}

Outcome OpenFolder(const Options& options, Session* session) {
  DeviceArgs args = options.device;
  SINTER_CLI_TRY(CheckCacheFolder(args));
  args.target = "h200";  // the folder is the same with and without a GPU
  SINTER_CLI_TRY(OpenSession(args, session));
  return CacheFolder(*session).empty() ? NoFolder() : Outcome();
}

std::string Human(uint64_t bytes) {
  if (bytes < 10240) return FormatText("%d B", bytes);
  if (bytes < (10u << 20)) return FormatText("%.1f KiB", static_cast<double>(bytes) / 1024);
  return FormatText("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// Runs `call(const Session&) -> absl::StatusOr<Json>` on the session of the cache folder.
template <typename Call>
Outcome AskLibrary(const Options& options, const Call& call, Json* json) {
  Session session;
  SINTER_CLI_TRY(OpenFolder(options, &session));
  return Take(json, [&] { return call(session); });
}

unsigned long long Count(const Json& json, const char* key) { return json.value(key, uint64_t{0}); }
std::string Some(const Json& json, const char* key, const char* noun) {
  return Counted(Count(json, key), noun);
}

void PrintCounts(const Json& report) {
  std::printf("%s: %s, %s (%llu verified), %s\n", PrintableAt(report, "dir").c_str(),
              Some(report, "plans", "plan").c_str(), Some(report, "kernels", "kernel").c_str(),
              Count(report, "verified_kernels"), Human(Count(report, "bytes")).c_str());
  std::printf("other format %llu, unsound %llu, quarantined %llu, temporary %llu\n",
              Count(report, "other_format"), Count(report, "unsound"), Count(report, "quarantined"),
              Count(report, "temporary"));
}

void PrintFindings(const Json& report) {
  for (const Json& finding : report["findings"]) {
    std::printf("%s\n", Printable(finding.get<std::string>()).c_str());
  }
}

// Counts of the records that were read and checked, each with what it means for a user of the
// folder.
void PrintVerdict(const Json& report) {
  const unsigned long long sound = Count(report, "plans") + Count(report, "kernels");
  const unsigned long long records =
      sound + Count(report, "other_format") + Count(report, "unsound");
  std::printf("%s: read every byte of %s, %s\n", PrintableAt(report, "dir").c_str(),
              Counted(records, "record").c_str(), Human(Count(report, "bytes")).c_str());
  std::printf("  %6llu sound: %s, %s; %llu of them compared with the plain plan on a GPU\n", sound,
              Some(report, "plans", "plan").c_str(), Some(report, "kernels", "kernel").c_str(),
              Count(report, "verified_kernels"));
  const std::pair<const char*, const char*> kinds[] = {
      {"unsound", "unsound: a miss until it is built again"},
      {"other_format", "of another version of the library, which only that version can judge"},
      {"quarantined", "quarantined: found wrong once, and not served again"},
      {"temporary", "temporary: left by writers that were killed; a trim removes it"}};
  for (const auto& [key, meaning] : kinds) {
    std::printf("  %6llu %s\n", Count(report, key), meaning);
  }
}

// "3 min": in the largest unit that gives at least two.
std::string Age(int64_t seconds) {
  const struct {
    int64_t seconds;
    const char* name;
  } kUnits[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
  for (const auto& unit : kUnits) {
    if (seconds >= 2 * unit.seconds)
      return std::to_string(seconds / unit.seconds) + " " + unit.name;
  }
  return std::to_string(std::max<int64_t>(0, seconds)) + " s";
}

// One line: its name (16 digits, as in logs), rows, device, age, size, what it is.
void PrintRecord(const Json& record, int64_t created) {
  const std::string rows = record.contains("m") ? "m<=" + record["m"].dump() : "";
  const bool kernel = record.value("kind", "") == "kernel";
  const bool sound = record.value("sound", true);
  const char* verified = !sound                            ? "unsound or of another version"
                         : !kernel                         ? ""
                         : record.value("verified", false) ? ", verified"
                                                           : ", not verified";
  char head[192];
  std::snprintf(head, sizeof(head), "%-6.6s %.16s  %-7.20s %-7.40s %6.20s %10s  ",
                PrintableAt(record, "kind").c_str(), PrintableAt(record, "key").c_str(),
                rows.c_str(), PrintableAt(record, "device").c_str(),
                (created > 0 ? Age(std::time(nullptr) - created) : "").c_str(),
                Human(record.value("bytes", uint64_t{0})).c_str());
  const int room = static_cast<int>(kMostColumns - std::strlen(head) - std::strlen(verified));
  std::printf("%s%s%s\n", head, Fitted(PrintableAt(record, "what"), room).c_str(), verified);
}

Outcome OpenForRecords(const Options& options, Session* session) {
  DeviceArgs args = options.device;
  if (!args.target) args.target = "h200";  // records are the same with and without a GPU
  return OpenSession(args, session);
}

// Describes the pack that options.pack names; checks every byte of it if `read_all`.
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

// The document with --json, else what `print` prints of it.
template <typename Print>
void Show(const Options& options, const Json& document, const Print& print) {
  if (options.json) {
    PrintJson(document);
  } else {
    print(document);
  }
}

Outcome ListPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/false, &pack));
  Show(options, pack, [](const Json& shown) {
    for (const Json& record : shown["records"]) {
      PrintRecord(record, shown.value("created", int64_t{0}));
    }
  });
  return {};
}

Outcome StatPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/false, &pack));
  for (const char* key : {"records", "findings", "unsound"}) pack.erase(key);
  Show(options, pack, PrintPack);
  return {};
}

Outcome VerifyPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/true, &pack));
  pack.erase("records");
  Show(options, pack, [](const Json& shown) {
    PrintFindings(shown);
    PrintPack(shown);
    std::printf("read every byte of %s and the seal: %llu unsound\n",
                Counted(Count(shown, "plans") + Count(shown, "kernels"), "record").c_str(),
                Count(shown, "unsound"));
  });
  if (Count(pack, "unsound") == 0) return {};
  return Documented(Failure("unsound: " + Some(pack, "unsound", "part") + " of the pack"),
                    options.json);
}

}  // namespace

Outcome CacheListCommand(const Options& options) {
  if (!options.pack.empty()) return ListPack(options);
  Json json;
  SINTER_CLI_TRY(AskLibrary(options, ListCache, &json));
  Show(options, json, [](const Json& shown) {
    for (const Json& record : shown["records"]) {
      PrintRecord(record, record.value("created", int64_t{0}));
    }
    if (shown["records"].empty()) std::printf("%s is empty\n", PrintableAt(shown, "dir").c_str());
  });
  return {};
}

Outcome CacheStatCommand(const Options& options) {
  if (!options.pack.empty()) return StatPack(options);
  Json report;
  SINTER_CLI_TRY(AskLibrary(options, InspectCache, &report));
  report.erase("findings");
  Show(options, report, PrintCounts);
  return {};
}

Outcome CacheVerifyCommand(const Options& options) {
  if (!options.pack.empty()) return VerifyPack(options);
  Json report;
  SINTER_CLI_TRY(AskLibrary(options, InspectCache, &report));
  Show(options, report, [](const Json& shown) {
    PrintFindings(shown);
    PrintVerdict(shown);
  });
  if (Count(report, "unsound") == 0) return {};
  return Documented(Failure("unsound: " + Some(report, "unsound", "record") +
                            "; each is a miss until it is built again"),
                    options.json);
}

Outcome CacheClearCommand(const Options& options) {
  Json json;
  SINTER_CLI_TRY(AskLibrary(
      options, [&](const Session& session) { return ClearCache(session, !options.yes); }, &json));
  const uint64_t failed = Count(json, "failed");
  json.erase("failed");
  Show(options, json, [&](const Json& shown) {
    std::printf("%s: %s %s, %s%s\n", PrintableAt(shown, "dir").c_str(),
                options.yes ? "removed" : "would remove", Some(shown, "records", "record").c_str(),
                Human(Count(shown, "bytes")).c_str(), options.yes ? "" : "; --yes does it");
  });
  if (failed == 0) return {};
  return Documented(Failure("could not be removed: " + Counted(failed, "record")), options.json);
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
  Show(options, report, [&](const Json& shown) {
    std::printf("%s%s\n", ExportText(shown).c_str(), options.sign.empty() ? ", not signed" : "");
  });
  return {};
}

Outcome CacheImportCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  Json report;
  SINTER_CLI_TRY(Take(&report, [&] { return ImportRecords(session, options.pack); }));
  Show(options, report, [](const Json& shown) {
    std::printf("%s stored, %llu refused\n", Some(shown, "stored", "record").c_str(),
                Count(shown, "refused"));
  });
  if (Count(report, "refused") == 0) return {};
  return Documented(
      Failure("damaged, or quarantined in the folder: " + Some(report, "refused", "record")),
      options.json);
}

Outcome CachePushCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(CheckCacheFolder(options.device));
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  if (CacheFolder(session).empty()) return NoFolder();
  Json report;
  Outcome pushed;
  {
    const Elapsed elapsed("push");
    pushed = Take(&report, [&] { return PushRecords(session); });
  }
  if (pushed.exit == kUnavailable) pushed.exit = kFailed;  // the store, not this machine
  if (!pushed.ok()) return pushed;
  Show(options, report, [](const Json& shown) {
    std::printf(
        "%s: %llu pushed (%s), %llu there before, %llu withdrawn by the fleet, %llu left "
        "out: unsound, of another version or too large\n",
        Some(shown, "records", "record").c_str(), Count(shown, "pushed"),
        Human(Count(shown, "pushed_bytes")).c_str(), Count(shown, "present"),
        Count(shown, "withdrawn"), Count(shown, "skipped"));
  });
  return {};
}

Outcome CacheTrimCommand(const Options& options) {
  Session session;
  SINTER_CLI_TRY(OpenForRecords(options, &session));
  Json report;
  SINTER_CLI_TRY(Take(&report, [&] { return TrimCache(session, options.max_bytes); }));
  if (report.value("busy", false)) return Failure("another process is trimming the folder");
  Show(options, report, [](const Json& shown) {
    std::printf("removed %llu of %s, %llu of %s, and %s\n", Count(shown, "evicted"),
                Some(shown, "records", "record").c_str(), Count(shown, "evicted_bytes"),
                Some(shown, "bytes", "byte").c_str(),
                Some(shown, "orphans", "leftover file").c_str());
  });
  return {};
}

}  // namespace sinter::cli
