// sinter cache: the folder of the local tier. One file is one record; removing one is a miss later.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/pack_file.h"
#include "src/cli/session.h"

namespace sinter::cli {
namespace {

namespace fs = std::filesystem;

struct Record {
  fs::path path;
  std::string kind;    // "plan", "kernel"
  std::string digest;  // of its key
  uint64_t bytes = 0;
};

Outcome CacheDir(const Options& options, Session* session, std::string* dir) {
  DeviceArgs args = options.device;
  if (args.target.empty()) args.target = "h200";  // the folder is the same with and without a GPU
  SINTER_CLI_TRY(OpenSession(args, session));
  *dir = sinter_x_context_get_cache_dir(session->context.get());
  return dir->empty() ? Usage(
                            "there is no cache folder: it is turned off, or neither "
                            "SINTER_CACHE_DIR nor HOME is set; give --cache-dir")
                      : Outcome{};
}

void Walk(const fs::path& folder, const std::string& kind, std::vector<Record>* out) {
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || it->is_symlink(ignored)) continue;
    if (it->path().extension() != ".ldb") continue;
    const std::string parent = it->path().parent_path().filename().string();
    out->push_back({it->path(), kind, parent + it->path().stem().string(),
                    static_cast<uint64_t>(it->file_size(ignored))});
  }
}

// The layout of a cache folder: its README.
std::vector<Record> Records(const std::string& dir) {
  std::vector<Record> records;
  Walk(fs::path(dir) / "v1" / "plan", "plan", &records);
  Walk(fs::path(dir) / "v1" / "obj", "kernel", &records);
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    return a.kind != b.kind ? a.kind > b.kind : a.digest < b.digest;
  });
  return records;
}

std::string Human(uint64_t bytes) {
  char text[32];
  if (bytes < 10240) {
    std::snprintf(text, sizeof(text), "%llu B", static_cast<unsigned long long>(bytes));
  } else if (bytes < (10u << 20)) {
    std::snprintf(text, sizeof(text), "%.1f KiB", static_cast<double>(bytes) / 1024);
  } else {
    std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  }
  return text;
}

void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

Outcome Inspect(const Options& options, Json* json) {
  Session session;
  std::string dir, text;
  SINTER_CLI_TRY(CacheDir(options, &session, &dir));
  SINTER_CLI_TRY(AbiText(&text, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_cache_inspect(session.context.get(), out, error);
  }));
  *json = Json::parse(text, nullptr, false);
  return json->is_discarded() ? Failure("the library's cache report is not JSON") : Outcome{};
}

void PrintCounts(const Json& report) {
  const auto count = [&](const char* key) {
    return static_cast<unsigned long long>(report.value(key, uint64_t{0}));
  };
  std::printf("%s: %llu plans, %llu kernels (%llu verified), %s\n", report.value("dir", "").c_str(),
              count("plans"), count("kernels"), count("verified_kernels"),
              Human(count("bytes")).c_str());
  std::printf("other format %llu, unsound %llu, quarantined %llu, temporary %llu\n",
              count("other_format"), count("unsound"), count("quarantined"), count("temporary"));
}

Outcome ListPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/false, &pack));
  if (options.json) PrintJson(pack);
  if (options.json) return {};
  for (const Json& record : pack["records"]) {
    std::printf("%-6s %s %10s%s%s%s\n", record.value("kind", "").c_str(),
                record.value("key", "").c_str(), Human(record.value("bytes", uint64_t{0})).c_str(),
                record.value("arch", "").empty() ? "" : " ", record.value("arch", "").c_str(),
                record.value("verified", false) ? " verified" : "");
  }
  return {};
}

Outcome StatPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/false, &pack));
  for (const char* key : {"records", "findings", "unsound"}) pack.erase(key);
  if (options.json) {
    PrintJson(pack);
  } else {
    PrintPack(pack);
  }
  return {};
}

Outcome VerifyPack(const Options& options) {
  Json pack;
  SINTER_CLI_TRY(InspectPack(options, /*read_all=*/true, &pack));
  pack.erase("records");
  if (options.json) {
    PrintJson(pack);
  } else {
    for (const Json& finding : pack["findings"]) {
      std::printf("%s\n", finding.get<std::string>().c_str());
    }
    PrintPack(pack);
  }
  const uint64_t unsound = pack.value("unsound", uint64_t{0});
  return unsound == 0 ? Outcome{}
                      : Failure(std::to_string(unsound) + " parts of the pack are unsound");
}

}  // namespace

Outcome CacheListCommand(const Options& options) {
  if (!options.pack.empty()) return ListPack(options);
  Session session;
  std::string dir;
  SINTER_CLI_TRY(CacheDir(options, &session, &dir));
  Json json = {{"dir", dir}, {"records", Json::array()}};
  for (const Record& record : Records(dir)) {
    if (!options.json) {
      std::printf("%-6s %s %10s\n", record.kind.c_str(), record.digest.c_str(),
                  Human(record.bytes).c_str());
    }
    json["records"].push_back(
        {{"kind", record.kind}, {"key", record.digest}, {"bytes", record.bytes}});
  }
  if (options.json) PrintJson(json);
  if (!options.json && json["records"].empty()) std::printf("%s is empty\n", dir.c_str());
  return {};
}

Outcome CacheStatCommand(const Options& options) {
  if (!options.pack.empty()) return StatPack(options);
  Json report;
  SINTER_CLI_TRY(Inspect(options, &report));
  report.erase("findings");
  if (options.json) {
    PrintJson(report);
  } else {
    PrintCounts(report);
  }
  return {};
}

Outcome CacheVerifyCommand(const Options& options) {
  if (!options.pack.empty()) return VerifyPack(options);
  Json report;
  SINTER_CLI_TRY(Inspect(options, &report));
  if (options.json) {
    PrintJson(report);
  } else {
    for (const Json& finding : report["findings"]) {
      std::printf("%s\n", finding.get<std::string>().c_str());
    }
    PrintCounts(report);
  }
  const uint64_t unsound = report.value("unsound", uint64_t{0});
  return unsound == 0 ? Outcome{}
                      : Failure(std::to_string(unsound) +
                                " records are unsound; each is a miss "
                                "until it is built again");
}

Outcome CacheClearCommand(const Options& options) {
  Session session;
  std::string dir;
  SINTER_CLI_TRY(CacheDir(options, &session, &dir));
  uint64_t count = 0, bytes = 0, failed = 0;
  for (const Record& record : Records(dir)) {
    std::error_code error;
    if (options.yes && !fs::remove(record.path, error)) {
      ++failed;
      continue;
    }
    ++count;
    bytes += record.bytes;
  }
  if (options.json) {
    PrintJson({{"dir", dir}, {"removed", options.yes}, {"records", count}, {"bytes", bytes}});
  } else {
    std::printf("%s: %s %llu records, %s%s\n", dir.c_str(),
                options.yes ? "removed" : "would remove", static_cast<unsigned long long>(count),
                Human(bytes).c_str(), options.yes ? "" : "; --yes does it");
  }
  return failed == 0 ? Outcome{}
                     : Failure(std::to_string(failed) + " records could not be removed");
}

}  // namespace sinter::cli
