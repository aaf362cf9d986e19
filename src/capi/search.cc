// sinter_search: what a prepare would choose, without building it.
#include <memory>
#include <string>

#include "src/base/format.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace capi = sinter::capi;

struct sinter_search : sinter::capi::Handle<sinter_search> {
  static constexpr uint32_t kMagic = 0x53536561;
  static constexpr char kTypeName[] = "sinter_search";
  sinter::SearchedPlan searched;
  std::string name, note;
};

namespace sinter::capi {
namespace {

absl::StatusOr<sinter_search*> Search(const sinter_context* context, const sinter_chain* chain,
                                      int64_t m, const sinter_prepare_options* options) {
  SINTER_ASSIGN_OR_RETURN(const PrepareSettings settings, ReadPrepareSettings(context, options));
  SINTER_ASSIGN_OR_RETURN(const Chain* finished, Finished(chain));
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, settings.stream));
  auto search = std::make_unique<sinter_search>();
  SINTER_RETURN_IF_ERROR(
      AskEngine(*finished, m, settings, [&](const PrepareOptions& left) -> absl::Status {
        SINTER_ASSIGN_OR_RETURN(
            search->searched, context->engine->Search(*finished, finished->UsesM() ? m : 1, left));
        return absl::OkStatus();
      }));
  search->name = std::string(search->searched.plan.Fusion());
  search->note = Printable(search->searched.plan.note);
  return search.release();
}

// What `read` gives for a live search, else `none`.
template <typename T, typename Read>
T Ask(const sinter_search* search, T none, Read&& read) {
  if (!IsLive(search)) return none;
  return GuardOr(none, [&]() -> T { return read(search->searched); });
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_context_search(sinter_context* context, const sinter_chain* chain, int64_t m,
                                    const sinter_prepare_options* options,
                                    sinter_search** out_search, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_search, "out_search"));
    SINTER_ASSIGN_OR_RETURN(*out_search, capi::Search(context, chain, m, options));
    return absl::OkStatus();
  });
}

void sinter_search_retain(const sinter_search* search) { capi::RetainHandle(search); }
void sinter_search_release(const sinter_search* search) { capi::ReleaseHandle(search); }

int64_t sinter_search_get_bucket(const sinter_search* search) {
  return capi::Ask(search, int64_t{0}, [](const auto& found) { return found.plan.bucket; });
}

uint32_t sinter_search_get_kernel_count(const sinter_search* search) {
  return capi::Ask(search, uint32_t{0}, [](const auto& found) {
    return static_cast<uint32_t>(found.plan.kernels.size());
  });
}

double sinter_search_get_predicted_us(const sinter_search* search) {
  return capi::Ask(search, 0.0, [](const auto& found) { return found.plan.PredictedUs(); });
}

double sinter_search_get_unfused_us(const sinter_search* search) {
  return capi::Ask(search, 0.0, [](const auto& found) { return found.unfused_us; });
}

uint64_t sinter_search_get_workspace_size(const sinter_search* search) {
  return capi::Ask(search, uint64_t{0},
                   [](const auto& found) { return found.plan.workspace_bytes; });
}

sinter_choice sinter_search_get_choice(const sinter_search* search) {
  return capi::Ask(search, sinter_choice{SINTER_CHOICE_BEST}, [](const auto& found) {
    return found.plan.fused ? SINTER_CHOICE_FUSED : SINTER_CHOICE_UNFUSED;
  });
}

int32_t sinter_search_is_measured(const sinter_search* search) {
  return capi::Ask(search, int32_t{0}, [](const auto& found) { return found.measured ? 1 : 0; });
}

const char* sinter_search_get_name(const sinter_search* search) {
  return capi::IsLive(search) ? search->name.c_str() : "";
}

const char* sinter_search_get_note(const sinter_search* search) {
  return capi::IsLive(search) ? search->note.c_str() : "";
}

}  // extern "C"
