#include "src/capi/tune.h"

#include "src/capi/firewall.h"
#include "src/capi/prepare.h"
#include "src/capi/structs.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

absl::StatusOr<TuneOptions> ToTuneOptions(const sinter_tune_options& given) {
  SINTER_RETURN_IF_ERROR(CheckReserved(given.reserved, "tune"));
  if (given.deadline_us < 0 || given.top_k < 0 || !(given.switch_margin >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("tune: deadline_us is ", given.deadline_us,
                                                   ", top_k ", given.top_k, ", switch_margin ",
                                                   given.switch_margin, ": all must be >= 0"));
  }
  TuneOptions options;
  options.deadline_us = given.deadline_us;
  if (given.top_k != 0) options.top_k = given.top_k;
  if (given.switch_margin != 0) options.switch_margin = given.switch_margin;
  return options;
}

}  // namespace

absl::StatusOr<std::string> Tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                                 const sinter_tune_options* options) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  SINTER_ASSIGN_OR_RETURN(const Chain* finished, Finished(chain));
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, "tune", 0));
  SINTER_ASSIGN_OR_RETURN(const TuneOptions tune, ToTuneOptions(given));
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, given.stream));
  if (finished->UsesM() && m < 0) {
    return absl::InvalidArgumentError(absl::StrCat("m is ", m, ", must be >= 0"));
  }
  return context->engine->Tune(*finished, finished->UsesM() ? m : 1, tune);
}

}  // namespace sinter::capi

extern "C" {

sinter_status sinter_tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                          const sinter_tune_options* options, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::Tune(context, chain, m, options).status(); });
}

sinter_status sinter_x_tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                            const sinter_tune_options* options, sinter_x_text** out_report,
                            sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_report, "out_report"));
    SINTER_ASSIGN_OR_RETURN(std::string report, capi::Tune(context, chain, m, options));
    *out_report = capi::NewText(std::move(report));
    return absl::OkStatus();
  });
}

}  // extern "C"
