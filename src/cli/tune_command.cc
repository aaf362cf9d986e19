// sinter tune: builds and measures what the search ranked best.
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/session.h"

namespace sinter::cli {

Outcome TuneCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  if (!session.has_gpu()) {
    return {kUnavailable, "tuning measures kernels and needs a GPU: " + session.no_gpu};
  }
  sinter_tune_options tune = SINTER_INIT(sinter_tune_options);
  tune.deadline_us = static_cast<int64_t>(options.budget_s * 1e6);
  tune.top_k = options.top_k;
  std::string report;
  SINTER_CLI_TRY(AbiText(&report, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_tune(session.context.get(), chain.chain.get(), chain.m, &tune, out, error);
  }));
  if (!options.json) {
    std::printf("%s\n%s", chain.text.c_str(), report.c_str());
    return {};
  }
  const Json json = {{"chain", chain.text},
                     {"m", chain.m},
                     {"device", session.device},
                     {"report", report},
                     {"counters", CountersJson(StatsOf(session))}};
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  return {};
}

}  // namespace sinter::cli
