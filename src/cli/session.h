// Session: the context that a command works in; preparing in it.
#ifndef SINTER_SRC_CLI_SESSION_H_
#define SINTER_SRC_CLI_SESSION_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "src/cli/chain_source.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/print.h"

namespace sinter::cli {

// The library's messages, which come from any thread.
struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;  // guarded by mutex
};

struct Session {
  ContextPtr context;
  std::string device;      // "NVIDIA H200", or the model's name
  std::string no_gpu;      // why there is no GPU; "" with one
  bool fell_back = false;  // no GPU was found, though --target did not ask for going without
  bool has_gpu() const { return sinter_context_has_device(context.get()) == 1; }
};

// Opens a context for the GPU; without one, if neither --device nor --target is given, for the
// built-in h200 model. Warnings go to `log`, unless it is null.
Outcome OpenSession(const DeviceArgs& args, Session* out, Log* log = nullptr);
// A usage error if the folder of --cache-dir does not exist: commands that look into one do not
// make it.
Outcome CheckCacheFolder(const DeviceArgs& args);
// "no GPU was found: .."; "" when there is one or a target was asked for.
std::string NoGpuLine(const Session& session);

struct Prepared {
  PlanPtr plan;
  double wall_us = 0, search_us = 0, compile_us = 0;
};
// The library's options for `args`, without a progress callback.
Outcome PrepareOptions(const PrepareArgs& args, sinter_prepare_options* out);
Outcome Prepare(const Session& session, const LoadedChain& chain, const PrepareArgs& args,
                Prepared* out);

// The folder of the local tier; "" where there is none.
std::string CacheFolder(const Session& session);
sinter_stats StatsOf(const Session& session);
std::string CountersText(const sinter_stats& stats);
Json CountersJson(const sinter_stats& stats);
std::string Hex(const uint8_t (&digest)[32]);
std::string DigestHex(const sinter_plan* plan);

// A workload: chains, each with the rows to prepare it for.

struct Workload {
  struct Item {
    const LoadedChain* chain = nullptr;  // points into `chains`
    int64_t m = 0;
  };
  std::vector<LoadedChain> chains;
  std::vector<Item> items;
};

// The chains that `args` name. A chain that uses M is prepared for each of `rows`, or without
// `rows` for those in its line.
Outcome LoadWorkload(const ChainArgs& args, const std::vector<int64_t>& rows, Workload* out);

struct Failed {
  std::string chain, status;
  int exit = 1;
};
struct WarmResult {
  std::vector<Failed> failed;
  std::string message;  // of the first one that failed
  sinter_stats stats{};
  double wall_s = 0;
  uint32_t jobs = 0;
};

// Prepares everything, `jobs` at once, with a progress bar. A failure does not stop the others.
// Fails itself only when nothing could be tried.
Outcome PrepareAll(const Session& session, const Workload& workload, const PrepareArgs& args,
                   uint32_t jobs, WarmResult* out);

// Called before the work whose result goes into a pack: fails with the error that ExportPack would
// have with this key or path.
Outcome CheckExport(const Session& session, const std::string& path,
                    const std::string& signing_key);
// Writes a pack; `report` is the library's.
Outcome ExportPack(const Session& session, const std::string& path, const std::string& signing_key,
                   bool used_only, Json* report);
// "PATH: 2 plans, 1 kernel, 8192 bytes" of its report.
std::string ExportText(const Json& report);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_SESSION_H_
