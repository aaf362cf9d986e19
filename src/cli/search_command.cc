// sinter search: the space that the paper describes, and what its own rules leave of it.
#include <cstdio>

#include "src/cli/commands.h"
#include "src/cli/session.h"

namespace sinter::cli {

Outcome SearchCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  std::string report;
  SINTER_CLI_TRY(AbiText(&report, [&](sinter_x_text** out, sinter_error** error) {
    return sinter_x_paper_search(session.context.get(), chain.chain.get(), chain.m,
                                 static_cast<uint32_t>(options.top_k), options.json ? 1 : 0, out,
                                 error);
  }));
  std::printf("%s", report.c_str());
  return {};
}

}  // namespace sinter::cli
