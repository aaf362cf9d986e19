// A workload: chains, each with the rows to prepare it for.
#ifndef SINTER_SRC_CLI_WORKLOAD_H_
#define SINTER_SRC_CLI_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/chain_source.h"
#include "src/cli/session.h"

namespace sinter::cli {

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

#endif  // SINTER_SRC_CLI_WORKLOAD_H_
