// sinter_tune, sinter_x_tune, sinter_tuning_set_*: measured choices.
#include <limits>
#include <type_traits>

#include "src/base/enough_stack.h"
#include "src/base/exit_gate.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/tuning_set.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

constexpr uint32_t kTuneFlags = SINTER_TUNE_BATCH_INVARIANT | SINTER_TUNE_KEEP;

// Keeps the set alive for the call.
struct Into {
  std::shared_ptr<const TuningSet> Copy() const {
    std::lock_guard<std::mutex> lock(set->mutex);
    return std::make_shared<const TuningSet>(set->set);
  }
  void Add(const TuningEntry& entry) const {
    std::lock_guard<std::mutex> lock(set->mutex);
    set->set.Add(entry);
  }

  const HandleRef<sinter_tuning_set> set;  // may be null
};

template <typename T>
absl::Status CheckNumber(absl::string_view field, T value) {
  if (value >= 0 && value <= std::numeric_limits<T>::max()) return absl::OkStatus();
  return InvalidField(absl::StrCat("tune.", field), value,
                      std::is_integral<T>::value ? ">= 0" : "finite and >= 0");
}

absl::StatusOr<TuneOptions> ToTuneOptions(const sinter_tune_options& given) {
  SINTER_RETURN_IF_ERROR(CheckNumber("deadline_us", given.deadline_us));
  SINTER_RETURN_IF_ERROR(CheckNumber("top_k", given.top_k));
  SINTER_RETURN_IF_ERROR(CheckNumber("switch_margin", given.switch_margin));
  if (given.into != nullptr) SINTER_RETURN_IF_ERROR(Check(given.into, "tune.into"));
  if ((given.flags & SINTER_TUNE_KEEP) != 0 && given.into == nullptr) {
    return Invalid("tune: SINTER_TUNE_KEEP needs a set in tune.into");
  }
  TuneOptions options;
  options.deadline_us = given.deadline_us;
  if (given.top_k != 0) options.top_k = given.top_k;
  if (given.switch_margin != 0) options.switch_margin = given.switch_margin;
  options.batch_invariant = (given.flags & SINTER_TUNE_BATCH_INVARIANT) != 0;
  return options;
}

absl::Status CheckMeasured(const TuneResult& result) {
  if (result.entry != nullptr) return absl::OkStatus();
  return FailedPrecondition(
      "no candidate could be measured; the report of sinter_x_tune says why of each");
}

absl::StatusOr<TuneResult> Tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                                const sinter_tune_options* options) {
  SINTER_RETURN_IF_ERROR(Check(context, "context"));
  SINTER_ASSIGN_OR_RETURN(const Chain* finished, Finished(chain));
  SINTER_ASSIGN_OR_RETURN(const auto given, ReadOptions(options, "tune", kTuneFlags));
  SINTER_ASSIGN_OR_RETURN(TuneOptions tune, ToTuneOptions(given));
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, given.stream));
  if (finished->UsesM() && m < 0) return InvalidField("m", m, ">= 0");
  const ExitGate::Pass inside;
  if (!inside) return Cancelled("tune: the process exits");
  const Into into{RefTo(given.into)};
  if ((given.flags & SINTER_TUNE_KEEP) != 0) tune.keep = into.Copy();
  TuneResult result;
  SINTER_RETURN_IF_ERROR(OnEnoughStack([&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(result,
                            context->engine->Tune(*finished, finished->UsesM() ? m : 1, tune));
    return absl::OkStatus();
  }));
  if (into.set != nullptr && result.entry != nullptr) into.Add(*result.entry);
  return result;
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                          const sinter_tune_options* options, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const auto result, capi::Tune(context, chain, m, options));
    return capi::CheckMeasured(result);
  });
}

sinter_status sinter_x_tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                            const sinter_tune_options* options, sinter_x_text** out_report,
                            sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_report, "out_report"));
    SINTER_ASSIGN_OR_RETURN(auto result, capi::Tune(context, chain, m, options));
    *out_report = capi::NewText(sinter::PrintableLines(result.report));
    return capi::CheckMeasured(result);
  });
}

}  // extern "C"

namespace sinter::capi {
namespace {

TuningSet Copy(const sinter_tuning_set& set) {
  std::lock_guard<std::mutex> lock(set.mutex);
  return set.set;
}

absl::Status CheckPath(const char* path) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(path, "path"));
  return *path != '\0' ? absl::OkStatus() : WithField(Invalid("path is empty"), "path");
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_tuning_set_create(sinter_tuning_set** out_set, sinter_error** error) {
  return capi::Give(out_set, "out_set", error,
                    []() -> absl::StatusOr<sinter_tuning_set*> { return new sinter_tuning_set; });
}

void sinter_tuning_set_retain(const sinter_tuning_set* set) { capi::RetainHandle(set); }
void sinter_tuning_set_release(const sinter_tuning_set* set) { capi::ReleaseHandle(set); }

sinter_status sinter_tuning_set_add_file(sinter_tuning_set* set, const char* path,
                                         sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    SINTER_RETURN_IF_ERROR(capi::CheckPath(path));
    SINTER_ASSIGN_OR_RETURN(const sinter::TuningSet other, sinter::ReadTuningFile(path));
    std::lock_guard<std::mutex> lock(set->mutex);
    set->set.Merge(other);
    return absl::OkStatus();
  });
}

sinter_status sinter_tuning_set_write(const sinter_tuning_set* set, const char* path,
                                      sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    SINTER_RETURN_IF_ERROR(capi::CheckPath(path));
    return sinter::WriteTuningFile(capi::Copy(*set), path);
  });
}

uint64_t sinter_tuning_set_get_count(const sinter_tuning_set* set) {
  if (!capi::IsLive(set)) return 0;
  std::lock_guard<std::mutex> lock(set->mutex);
  return set->set.entries().size();
}

sinter_status sinter_tuning_set_get_digest(const sinter_tuning_set* set, uint8_t out_digest[32],
                                           sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    return capi::CopyDigest(capi::Copy(*set).SetDigest(), out_digest);
  });
}

}  // extern "C"
