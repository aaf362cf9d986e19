// sinter_x_paper_search: the search of the paper that kernels of two products come from.
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/text.h"
#include "src/product/matcher.h"
#include "src/product/paper/paper_report.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

absl::StatusOr<PaperReport> ReportOf(const sinter_context& context, const Chain& chain, int64_t m,
                                     uint32_t top_k) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(chain));
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
  const PaperProblem problem{matched.m.At(m), s[0].n, s[0].k, s[1].n};
  return MakePaperReport(problem, context.engine->ports().model, top_k == 0 ? kPaperTopK : top_k);
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_x_paper_search(const sinter_context* context, const sinter_chain* chain,
                                    int64_t m, uint32_t top_k, int32_t json,
                                    sinter_x_text** out_text, sinter_error** error) {
  return capi::GiveText(out_text, error, [&]() -> absl::StatusOr<std::string> {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    SINTER_ASSIGN_OR_RETURN(const sinter::Chain* finished, capi::Finished(chain));
    SINTER_ASSIGN_OR_RETURN(const sinter::PaperReport report,
                            capi::ReportOf(*context, *finished, m, top_k));
    return json != 0 ? sinter::PaperReportJson(report) : sinter::PaperReportText(report);
  });
}

}  // extern "C"
