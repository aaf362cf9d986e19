// sinter search: the space that the paper describes, and what its own rules leave of it.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/cli/commands.h"
#include "src/cli/session.h"
#include "src/product/matcher.h"
#include "src/product/paper/paper_report.h"

namespace sinter::cli {
namespace {

absl::StatusOr<PaperReport> ReportOf(const Session& session, const LoadedChain& loaded, int top_k) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(*loaded.chain->chain));
  const ProductSequence& s = matched.sequence;
  if (s.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("paper search: the chain has ", s.size(),
                                                   " product", s.size() == 1 ? "" : "s",
                                                   ", must have 2"));
  }
  if (!CanPair(s, 0)) {
    return absl::InvalidArgumentError(
        "paper search: the first product has a residual, or the second is gated or activated");
  }
  const PaperProblem problem{matched.m.At(loaded.m), s[0].n, s[0].k, s[1].n};
  return MakePaperReport(problem, session.context->engine->ports().model,
                         top_k == 0 ? kPaperTopK : top_k);
}

}  // namespace

Outcome SearchCommand(const Options& options) {
  LoadedChain chain;
  SINTER_CLI_TRY(LoadChain(options.chain, &chain));
  Session session;
  SINTER_CLI_TRY(OpenSession(options.device, &session));
  PaperReport report;
  SINTER_CLI_TRY(Take(&report, [&] { return ReportOf(session, chain, options.top_k); }));
  std::printf("%s", (options.json ? PaperReportJson(report) : PaperReportText(report)).c_str());
  return {};
}

}  // namespace sinter::cli
