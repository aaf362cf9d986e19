// sinter warm: prepares a whole workload, on a machine without a GPU if need be, and packs it.
// What is cached already is found, so that a warm-up that was stopped goes on where it was.
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/memory.h"
#include "src/cli/session.h"
#include "src/cli/workload.h"

namespace sinter::cli {
namespace {

void Print(const Workload& workload, const WarmResult& warm, const Json& pack) {
  for (const Failed& failed : warm.failed) {
    std::fprintf(stderr, "sinter: %s: %s\n", Printable(failed.chain).c_str(),
                 failed.status.c_str());
  }
  std::printf(
      "%zu of %s prepared in %.1f s with %u at once: searched %llu, compiled %llu, found %s and "
      "%s\n",
      workload.items.size() - warm.failed.size(), Counted(workload.items.size(), "plan").c_str(),
      warm.wall_s, warm.jobs, static_cast<unsigned long long>(warm.stats.searched),
      static_cast<unsigned long long>(warm.stats.kernels_compiled),
      Counted(warm.stats.plan_hits, "plan").c_str(),
      Counted(warm.stats.kernel_hits, "kernel").c_str());
  if (!pack.is_null()) std::printf("%s\n", ExportText(pack).c_str());
}

Json ToJson(const Workload& workload, const WarmResult& warm, const Json& pack) {
  Json failed = Json::array();
  for (const Failed& one : warm.failed) {
    failed.push_back({{"chain", one.chain}, {"status", one.status}});
  }
  return {{"plans", workload.items.size()},
          {"failed", failed},
          {"seconds", warm.wall_s},
          {"jobs", warm.jobs},
          {"pack", pack},
          {"counters", CountersJson(warm.stats)}};
}

}  // namespace

Outcome WarmCommand(const Options& options) {
  Workload workload;
  SINTER_CLI_TRY(LoadWorkload(options.chain, options.rows, &workload));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (!options.pack.empty()) SINTER_CLI_TRY(CheckExport(session, options.pack, options.sign));
  WarmResult warm;
  SINTER_CLI_TRY(PrepareAll(session, workload, options.prepare,
                            options.jobs != 0 ? options.jobs : JobsThatFit(), &warm));
  SINTER_CLI_TRY(Abi(
      [&](sinter_error** error) { return sinter_x_cache_flush(session.context.get(), error); }));
  Json pack;
  if (!options.pack.empty()) {
    SINTER_CLI_TRY(ExportPack(session, options.pack, options.sign, /*used_only=*/true, &pack));
  }
  if (options.json) {
    PrintJson(ToJson(workload, warm, pack));
  } else {
    Print(workload, warm, pack);
  }
  if (warm.failed.empty()) return {};
  return Documented(
      {warm.failed.front().exit,
       std::to_string(warm.failed.size()) + " of " + Counted(workload.items.size(), "plan") +
           " could not be prepared; first: " + warm.failed.front().chain + ": " + warm.message},
      options.json);
}

}  // namespace sinter::cli
