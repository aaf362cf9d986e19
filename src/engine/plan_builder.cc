#include "src/engine/plan_builder.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/build_lock.h"
#include "src/engine/tuned_choice.h"

namespace sinter {
absl::StatusOr<FoundPlan> PlanBuilder::Get(const PlanRequest& request, bool must_hit,
                                           const BuildControl& control) {
  const std::string key = PlanKeyBytes(request, *core_);
  bool waited = false;
  const std::string flight = absl::StrCat(must_hit ? "h" : "b", key);
  absl::StatusOr<FoundPlan> found = flights_.Do(
      flight, control, [&] { return GetAlone(request, key, must_hit, control); }, &waited);
  if (waited) core_->counters.waits.fetch_add(1, std::memory_order_relaxed);
  return found;
}

absl::StatusOr<FoundPlan> PlanBuilder::GetAlone(const PlanRequest& request, const std::string& key,
                                                bool must_hit, const BuildControl& control) {
  Store& store = *core_->ports.store;
  const Lookup found = store.Get(RecordKind::kPlan, key);
  std::shared_ptr<const PlanRecord> record = FromStore(key, found);
  if (record == nullptr && must_hit) {
    return MustHitError("plan", RecordKind::kPlan, key, found, &store);
  }
  if (record == nullptr) {
    SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<void> lock,
                            AwaitBuildLock(store, RecordKind::kPlan, key, control));
    if (!found.hit) record = FromStore(key, store.Get(RecordKind::kPlan, key));
    if (record == nullptr) return Search(request, key, control);
  }
  core_->counters.plan_hits.fetch_add(1, std::memory_order_relaxed);
  if (!must_hit && CompilerExchanged(*record)) record = Renewed(key, *record);
  return FoundPlan{std::move(record), true};
}

absl::StatusOr<FusionResult> PlanBuilder::RunFusion(const PlanRequest& request) {
  FusionOptions options;
  options.deterministic = request.deterministic;
  options.allow_cooperative = request.allow_cooperative;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<FusionResult> result =
      core_->hooks.plan(*request.chain, request.bucket, core_->ports.model, options);
  const auto spent = std::chrono::steady_clock::now() - start;
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
  core_->counters.search_ns.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
  core_->counters.searched.fetch_add(1, std::memory_order_relaxed);
  return result;
}

absl::StatusOr<FoundPlan> PlanBuilder::Search(const PlanRequest& request, const std::string& key,
                                              const BuildControl& control) {
  SINTER_RETURN_IF_ERROR(control.Enter("search", 0.1));
  SINTER_ASSIGN_OR_RETURN(FusionResult result, RunFusion(request));
  TuningOutcome tuning = ApplyTuning(request, *core_, &result);
  auto record = std::make_shared<PlanRecord>(MakePlanRecord(std::move(result)));
  record->tuned = tuning.taken;
  record->tuning = std::move(tuning.words);
  SINTER_RETURN_IF_ERROR(control.Enter("open compiler", 0.3));
  SINTER_ASSIGN_OR_RETURN(record->toolchain_id, core_->ports.compiler->ToolchainId());
  SINTER_RETURN_IF_ERROR(FillKeys(*record));
  core_->ports.store->Put(RecordKind::kPlan, key, EncodePlanRecord(*record));
  return FoundPlan{std::move(record), false};
}

// A variant whose source cannot be generated is dropped: nothing could build it later either. The
// chosen plan's failure is the next variant's chance, so order is kept.
absl::Status PlanBuilder::FillKeys(PlanRecord& record) const {
  std::vector<PlanVariant> kept;
  absl::Status first_error;
  for (PlanVariant& variant : record.variants) {
    variant.kernel_keys.clear();
    absl::Status status;
    for (PlannedKernel& kernel : variant.plan.kernels) {
      absl::StatusOr<std::string> key = KernelKeyBytes(kernel.spec, record.toolchain_id, *core_);
      status.Update(key.status());
      if (!key.ok()) break;
      kernel.kernel_digest = Sha256(*key);
      variant.kernel_keys.push_back(*std::move(key));
    }
    if (status.ok()) {
      kept.push_back(std::move(variant));
      continue;
    }
    core_->log.Log(LogLevel::kWarn,
                   absl::StrCat("plan '", variant.plan.name, "' is left out: ", status.message()));
    first_error.Update(status);
  }
  if (kept.empty()) return first_error;
  record.variants = std::move(kept);
  return absl::OkStatus();
}

std::shared_ptr<const PlanRecord> PlanBuilder::FromStore(const std::string& key,
                                                         const Lookup& found) {
  if (found.hit) {
    absl::StatusOr<PlanRecord> record = DecodePlanRecord(found.payload);
    if (record.ok()) return std::make_shared<const PlanRecord>(*std::move(record));
    core_->log.Log(LogLevel::kWarn, absl::StrCat("plan ", ShortName(key),
                                                 " is made again: ", record.status().message()));
  } else {
    LogMiss(core_->log, "plan", key, found);
  }
  return nullptr;
}

bool PlanBuilder::CompilerExchanged(const PlanRecord& record) {
  std::call_once(peeked_, [this] { build_id_ = core_->ports.compiler->PeekBuildId(); });
  return !build_id_.empty() && !absl::StrContains(record.toolchain_id, build_id_);
}

std::shared_ptr<const PlanRecord> PlanBuilder::Renewed(const std::string& key,
                                                       const PlanRecord& record) {
  auto renewed = std::make_shared<PlanRecord>(record);
  const absl::StatusOr<std::string> toolchain = core_->ports.compiler->ToolchainId();
  // A compiler that may not compile leaves the record as it is: its kernels may be there.
  const bool denied = toolchain.ok() && !core_->denied.Match(*toolchain).empty();
  if (toolchain.ok() && !denied && *toolchain != record.toolchain_id) {
    renewed->toolchain_id = *toolchain;
    if (FillKeys(*renewed).ok()) {
      core_->ports.store->Put(RecordKind::kPlan, key, EncodePlanRecord(*renewed));
      return renewed;
    }
  }
  return std::make_shared<PlanRecord>(record);
}

void PlanBuilder::Renew(const PlanRequest& request, const PlanRecord& record) {
  Renewed(PlanKeyBytes(request, *core_), record);
}

}  // namespace sinter
