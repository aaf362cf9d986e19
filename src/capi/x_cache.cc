// sinter_x_cache_*: the local tier, for people.
#include "nlohmann/json.hpp"
#include "src/capi/text.h"
#include "src/engine/cache_report.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

std::string ReportJson(const Config& config, const CacheReport& report) {
  using Json = nlohmann::ordered_json;
  const Json object = {{"dir", config.cache_dir},
                       {"plans", report.plans},
                       {"kernels", report.kernels},
                       {"verified_kernels", report.verified_kernels},
                       {"bytes", report.bytes},
                       {"unsound", report.unsound},
                       {"quarantined", report.quarantined},
                       {"temporary", report.temporary},
                       {"findings", report.findings}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_x_cache_inspect(const sinter_context* context, sinter_x_text** out_json,
                                     sinter_error** error) {
  return capi::GiveText(out_json, error, [&]() -> absl::StatusOr<std::string> {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    SINTER_ASSIGN_OR_RETURN(const auto report, sinter::InspectCache(context->config));
    return capi::ReportJson(context->config, report);
  });
}

}  // extern "C"
