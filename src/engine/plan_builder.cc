#include "src/engine/plan_builder.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/engine/measured_choice.h"

namespace sinter {
namespace {

constexpr size_t kMostNotes = 6;  // a record's note has at most 4096 bytes

std::string NotesOf(const NormalForm& form) {
  std::vector<std::string> notes = form.notes;
  if (notes.size() > kMostNotes) {
    const size_t more = notes.size() - kMostNotes;
    notes.resize(kMostNotes);
    notes.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(notes, "; ");
}

constexpr double kPlanned = 0.2;  // of a prepare

}  // namespace

absl::Status TellPlanned(const Plan& plan, double fraction, const BuildControl& control) {
  return control.Enter(
      absl::StrCat("planned: ", Counted(plan.kernels.size(), "kernel"), ", ", plan.PredictedUs(),
                   " us predicted, ", plan.workspace_bytes, " bytes of workspace"),
      fraction);
}

absl::StatusOr<FusionResult> PlanOf(const PlanRequest& request, const FusionOptions& options,
                                    const EngineCore& core) {
  const NormalForm& form = *request.form;
  absl::StatusOr<FusionResult> result =
      core.hooks.plan(*form.chain, request.bucket, core.ports.model, options);
  if (!form.changed()) return result;
  if (!result.ok()) {
    return form.InCallersNumbers(result.status());
  }
  const std::string notes = NotesOf(form);
  const auto tell = [&](Plan& plan) {
    plan.note = absl::StrCat(form.InCallersNumbers(plan.note),
                             plan.note.empty() || notes.empty() ? "" : "; ", notes);
  };
  tell(result->chosen);
  for (Plan& plan : result->alternatives) tell(plan);
  return result;
}

absl::StatusOr<FoundPlan> PlanBuilder::Get(const PlanRequest& request, OnMiss on_miss,
                                           const BuildControl& control) {
  const std::string key = PlanKeyBytes(request, *core_);
  bool waited = false;
  const std::string flight = FlightOf(on_miss, key);
  absl::StatusOr<FoundPlan> found = flights_.Do(
      flight, control, [&] { return GetAlone(request, key, on_miss, control); }, &waited);
  if (waited) core_->counters.waits.fetch_add(1, std::memory_order_relaxed);
  return found;
}

absl::Status PlanBuilder::Missing(const PlanRequest& request, const std::string& key,
                                  OnMiss on_miss, const Lookup& found) const {
  const bool near = on_miss == OnMiss::kRefuse && !request.measured;
  Store* const nearest = near ? core_->ports.store.get() : nullptr;
  return MustHitError("plan", RecordKind::kPlan, key, found, nearest);
}

absl::StatusOr<FoundPlan> PlanBuilder::Choose(const PlanRequest& request, OnMiss on_miss,
                                              const BuildControl& control) {
  const std::string key = PlanKeyBytes(request, *core_);
  RecordPtr record = planned_.Find(key);
  bool from_cache = false;
  if (record == nullptr) {
    Lookup found;
    SINTER_ASSIGN_OR_RETURN(record, Find(request, key, control, &found));
    from_cache = record != nullptr;
    if (!from_cache && !MayBuild(request, on_miss)) return Missing(request, key, on_miss, found);
  }
  if (from_cache) core_->counters.plan_hits.fetch_add(1, std::memory_order_relaxed);
  if (record != nullptr) {
    SINTER_RETURN_IF_ERROR(TellPlanned(record->variants.front().plan, kPlanned, control));
  } else {
    SINTER_ASSIGN_OR_RETURN(record, Planned(request, key, control));
  }
  return FoundPlan{std::move(record), std::make_shared<KernelSources>(core_), from_cache};
}

absl::StatusOr<FoundPlan> PlanBuilder::GetAlone(const PlanRequest& request, const std::string& key,
                                                OnMiss on_miss, const BuildControl& control) {
  Store& store = *core_->ports.store;
  Lookup found;
  SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const PlanRecord> record,
                          Find(request, key, control, &found));
  if (record == nullptr && !MayBuild(request, on_miss)) {
    return Missing(request, key, on_miss, found);
  }
  if (record == nullptr) {
    SINTER_ASSIGN_OR_RETURN(
        const std::shared_ptr<void> lock,
        AwaitBuildLock(store, RecordKind::kPlan, key, control, core_->trace.get()));
    if (!found.hit) {
      SINTER_ASSIGN_OR_RETURN(record, Find(request, key, control, &found));
    }
    if (record == nullptr) return Search(request, key, control);
  }
  core_->counters.plan_hits.fetch_add(1, std::memory_order_relaxed);
  SINTER_RETURN_IF_ERROR(TellPlanned(record->variants.front().plan, kPlanned, control));
  if (on_miss == OnMiss::kBuild && CompilerExchanged(*record)) record = Renewed(request, *record);
  return FoundPlan{std::move(record), std::make_shared<KernelSources>(core_), true};
}

Lookup PlanBuilder::LookUp(const std::string& key, const BuildControl& control) {
  const TraceSpan span(core_->trace.get(), "look up plan");
  const EventClock clock;
  Lookup found = core_->ports.store->Get(RecordKind::kPlan, key);
  if (control.Tells()) TellLookUp(control, "plan", found, clock.us());
  return found;
}

absl::StatusOr<FusionResult> PlanBuilder::RunFusion(const PlanRequest& request,
                                                    const BuildControl& control) {
  FusionOptions options;
  options.keep_going = &control;
  options.batch_invariant = request.batch_invariant;
  options.allow_cooperative = request.allow_cooperative;
  const TraceSpan span(core_->trace.get(), "search");
  const EventClock clock;
  absl::StatusOr<FusionResult> result = PlanOf(request, options, *core_);
  const double us = clock.us();
  core_->counters.search_ns.fetch_add(static_cast<uint64_t>(us * 1e3), std::memory_order_relaxed);
  core_->counters.searched.fetch_add(1, std::memory_order_relaxed);
  if (control.Tells()) {
    EngineEvent event(EventKind::kSearch, "plan");
    event.us = us;
    if (result.ok()) event.plan = result->chosen.PlanDigest();
    if (!result.ok()) event.reason = std::string(result.status().message());
    control.Tell(std::move(event));
  }
  return result;
}

absl::Status PlanBuilder::KeepMeasured(const PlanRequest& request, const TuningEntry& entry,
                                       const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(PlanRecord record, UsableChoice(entry.record, request, control, *core_));
  return Keep(PlanKeyBytes(request, *core_), std::move(record), control).status();
}

absl::StatusOr<PlanBuilder::RecordPtr> PlanBuilder::FromTuningSet(const PlanRequest& request,
                                                                  const BuildControl& control) {
  const TuningKey key = TuningKeyOf(request, *core_);
  const TuningEntry* const entry = core_->ports.tuning->Find(key);
  if (entry == nullptr) return NotFound("the tuning set has no entry for this plan");
  absl::StatusOr<PlanRecord> record = UsableChoice(entry->record, request, control, *core_);
  SINTER_RETURN_IF_ERROR(control.Check("the tuning set was read"));
  if (record.ok()) {
    core_->counters.tuned_plans.fetch_add(1, std::memory_order_relaxed);
    return std::make_shared<const PlanRecord>(*std::move(record));
  }
  const std::string why(record.status().message());
  core_->counters.tuned_refused.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(LogLevel::kWarn,
                 absl::StrCat("the tuning entry for chain ", key.chain.Hex().substr(0, 16),
                              " at m <= ", key.bucket, " is not used: ", why));
  core_->refused_choices.Lock()->emplace(key, why);
  return record.status();
}

absl::StatusOr<PlanBuilder::RecordPtr> PlanBuilder::MakeRecord(const PlanRequest& request,
                                                               const BuildControl& control) {
  if (request.measured) return FromTuningSet(request, control);
  SINTER_RETURN_IF_ERROR(control.Enter("search", 0.1));
  SINTER_ASSIGN_OR_RETURN(FusionResult result, RunFusion(request, control));
  SINTER_RETURN_IF_ERROR(TellPlanned(result.chosen, kPlanned, control));
  auto record = std::make_shared<PlanRecord>(MakePlanRecord(std::move(result)));
  record->chain = request.chain().CanonicalDigest();
  record->bucket = request.bucket;
  record->tuning = WhySetIsPassedOver(request, *core_);
  if (record->tuning.empty() && core_->ports.tuning != nullptr) {
    record->tuning = "entry not used: its plan does not run here";
  }
  return RecordPtr(std::move(record));
}

absl::StatusOr<PlanBuilder::RecordPtr> PlanBuilder::Planned(const PlanRequest& request,
                                                            const std::string& key,
                                                            const BuildControl& control) {
  return searches_.Do(key, control, [&]() -> absl::StatusOr<RecordPtr> {
    if (RecordPtr known = planned_.Find(key)) return known;
    SINTER_ASSIGN_OR_RETURN(RecordPtr record, MakeRecord(request, control));
    planned_.Insert(key, record);
    return record;
  });
}

absl::StatusOr<FoundPlan> PlanBuilder::Search(const PlanRequest& request, const std::string& key,
                                              const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(const RecordPtr planned, Planned(request, key, control));
  return Keep(key, *planned, control);
}

absl::StatusOr<FoundPlan> PlanBuilder::Keep(const std::string& key, PlanRecord made,
                                            const BuildControl& control) {
  auto record = std::make_shared<PlanRecord>(std::move(made));
  SINTER_RETURN_IF_ERROR(control.Enter("open compiler", 0.3));
  const TraceSpan span(core_->trace.get(), "generate");
  SINTER_ASSIGN_OR_RETURN(record->toolchain_id, core_->ports.compiler->ToolchainId());
  auto sources = std::make_shared<KernelSources>(core_);
  SINTER_RETURN_IF_ERROR(FillKeys(*record, *sources, control));
  core_->ports.store->Put(RecordKind::kPlan, key, EncodePlanRecord(*record));
  planned_.Erase(key);
  return FoundPlan{std::move(record), std::move(sources), false};
}

// A variant whose source cannot be generated is dropped: it could never be built. If it is the
// chosen plan, the next variant takes its place, so the order is kept. A measured choice has no
// substitute.
absl::Status PlanBuilder::FillKeys(PlanRecord& record, KernelSources& sources,
                                   const BuildControl& control) const {
  std::vector<PlanVariant> kept;
  absl::Status first_error;
  for (PlanVariant& variant : record.variants) {
    const absl::Status status = FillVariant(variant, record.toolchain_id, sources, control);
    if (status.ok()) {
      kept.push_back(std::move(variant));
      continue;
    }
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
    if (record.choice.has_value() && kept.empty()) return status;
    core_->log.Log(LogLevel::kWarn, absl::StrCat("plan '", variant.plan.name(),
                                                 "' is left out: ", status.message()));
    first_error.Update(status);
  }
  if (kept.empty()) return first_error;
  record.variants = std::move(kept);
  if (record.choice.has_value()) {
    record.choice->headers = HeadersOf(record.variants.front().plan, *core_);
  }
  return absl::OkStatus();
}

absl::Status PlanBuilder::FillVariant(PlanVariant& variant, absl::string_view toolchain,
                                      KernelSources& sources, const BuildControl& control) const {
  variant.sources.clear();
  variant.kernel_keys.clear();
  for (PlannedKernel& kernel : variant.plan.kernels) {
    SINTER_RETURN_IF_ERROR(control.Check("the sources were generated"));
    SINTER_ASSIGN_OR_RETURN(const KernelSourcePtr source, sources.Of(kernel.spec));
    variant.sources.push_back(source->digest);
    variant.kernel_keys.push_back(KernelKeyOf(kernel.spec, source->kernel.code, source->digest,
                                              toolchain, source->kernel.request.arch, *core_));
    kernel.kernel_digest = Sha256(variant.kernel_keys.back());
  }
  return absl::OkStatus();
}

PlanRecord PlanBuilder::Learn(const PlanRequest& request, const PlanRecord& record, size_t at,
                              const PlanVariant& variant) {
  PlanRecord learnt = record;
  learnt.variants[at] = variant;
  core_->ports.store->Put(RecordKind::kPlan, PlanKeyBytes(request, *core_),
                          EncodePlanRecord(learnt));
  return learnt;
}

absl::StatusOr<std::shared_ptr<const PlanRecord>> PlanBuilder::Find(const PlanRequest& request,
                                                                    const std::string& key,
                                                                    const BuildControl& control,
                                                                    Lookup* found) {
  *found = LookUp(key, control);
  for (int refused = 0; refused < kMostRefused; ++refused) {
    bool again = false;
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const PlanRecord> record,
                            FromStore(request, key, control, found, &again));
    if (record != nullptr || !again) return record;
    Lookup next = LookUp(key, control);
    if (!next.hit) return record;
    *found = std::move(next);
  }
  return std::shared_ptr<const PlanRecord>();
}

absl::StatusOr<std::shared_ptr<const PlanRecord>> PlanBuilder::FromStore(
    const PlanRequest& request, const std::string& key, const BuildControl& control, Lookup* found,
    bool* again) {
  if (!found->hit) {
    LogMiss(core_->log, "plan", key, *found);
    return std::shared_ptr<const PlanRecord>();
  }
  absl::StatusOr<PlanRecord> record = DecodePlanRecord(found->payload, LimitsOf(request, &control));
  absl::Status status = record.ok()
                            ? CompleteChosen(request, core_->ports.model, *core_, control, &*record)
                            : record.status();
  if (status.ok() && request.measured) status = CheckMeasured(request, &*record);
  if (status.ok()) return std::make_shared<const PlanRecord>(*std::move(record));
  if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
  *again = Refuse(key, status, found);
  return std::shared_ptr<const PlanRecord>();
}

absl::Status PlanBuilder::CheckMeasured(const PlanRequest& request, PlanRecord* record) {
  if (!record->choice.has_value()) return DataLoss("plan record: its plan was not measured");
  const Plan& plan = record->variants.front().plan;
  if (record->choice->headers == HeadersOf(plan, *core_)) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(CheckKernels(*record, *core_));
  const RecordPtr renewed = Refilled(request, *record, record->toolchain_id);
  if (renewed != nullptr) *record = *renewed;
  return absl::OkStatus();
}

bool PlanBuilder::Refuse(const std::string& key, const absl::Status& why, Lookup* found) {
  core_->counters.refused_plans.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(LogLevel::kWarn, absl::StrCat("plan ", ShortName(key), " from ", found->tier,
                                               " is made again: ", why.message()));
  found->detail = std::string(why.message());
  return RefuseRecord(RecordKind::kPlan, key, found->payload, *core_);
}

absl::StatusOr<bool> PlanBuilder::Complete(const PlanRequest& request, OnMiss on_miss,
                                           const BuildControl& control, FoundPlan* found) {
  bool another = false;
  for (int refused = 0; !found->record->HasAllPlans(); ++refused) {
    auto record = std::make_shared<PlanRecord>(*found->record);
    const absl::Status status =
        CompletePlanRecord(request, core_->ports.model, *core_, control, record.get());
    if (status.ok()) {
      found->record = std::move(record);
      break;
    }
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
    const std::string key = PlanKeyBytes(request, *core_);
    Lookup lost;
    lost.hit = true;
    lost.tier = "the cache";
    lost.payload = EncodePlanRecord(*record);
    another = true;
    if (Refuse(key, status, &lost) && refused < kMostRefused) {
      SINTER_ASSIGN_OR_RETURN(*found, Get(request, on_miss, control));
      continue;
    }
    if (!MayBuild(request, on_miss)) {
      return MustHitError("plan", RecordKind::kPlan, key, lost, nullptr);
    }
    SINTER_ASSIGN_OR_RETURN(
        const std::shared_ptr<void> lock,
        AwaitBuildLock(*core_->ports.store, RecordKind::kPlan, key, control, core_->trace.get()));
    SINTER_ASSIGN_OR_RETURN(*found, Search(request, key, control));
  }
  return another;
}

bool PlanBuilder::CompilerExchanged(const PlanRecord& record) {
  const std::string build_id = BuildId();
  return !build_id.empty() && !absl::StrContains(record.toolchain_id, build_id);
}

// Threads that ask at the same time may each read the file.
std::string PlanBuilder::BuildId() {
  {
    const auto known = build_id_.Lock();
    if (known->has_value()) return **known;
  }
  std::string build_id = core_->ports.compiler->PeekBuildId();
  *build_id_.Lock() = build_id;
  return build_id;
}

std::shared_ptr<const PlanRecord> PlanBuilder::Renewed(const PlanRequest& request,
                                                       const PlanRecord& record) {
  const absl::StatusOr<std::string> toolchain = core_->ports.compiler->ToolchainId();
  std::shared_ptr<const PlanRecord> renewed;
  if (toolchain.ok() && *toolchain != record.toolchain_id) {
    renewed = Refilled(request, record, *toolchain);
  }
  return renewed != nullptr ? renewed : std::make_shared<const PlanRecord>(record);
}

// Null for a denied compiler: the record stays as it is, since a store may have the kernels it
// names.
std::shared_ptr<const PlanRecord> PlanBuilder::Refilled(const PlanRequest& request,
                                                        const PlanRecord& record,
                                                        const std::string& toolchain) {
  if (!core_->denied.Match(toolchain).empty()) return nullptr;
  auto renewed = std::make_shared<PlanRecord>(record);
  renewed->toolchain_id = toolchain;
  const BuildControl control;
  KernelSources sources(core_);
  if (!CompletePlanRecord(request, core_->ports.model, *core_, control, renewed.get()).ok() ||
      !FillKeys(*renewed, sources, control).ok()) {
    return nullptr;
  }
  core_->ports.store->Put(RecordKind::kPlan, PlanKeyBytes(request, *core_),
                          EncodePlanRecord(*renewed));
  return renewed;
}

void PlanBuilder::Renew(const PlanRequest& request, const PlanRecord& record) {
  const absl::StatusOr<std::string> toolchain = core_->ports.compiler->ToolchainId();
  if (toolchain.ok()) Refilled(request, record, *toolchain);
}

}  // namespace sinter
