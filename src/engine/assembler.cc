#include "src/engine/assembler.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/plan/family.h"
#include "src/reference/rows.h"

namespace sinter {
namespace {

using Choice = PrepareOptions::Choice;

constexpr double kMostSavedUs = 1e9;  // a record that promises more is damaged

bool Wanted(const Decisions& decisions, Choice choice) {
  if (choice == Choice::kBest) return true;
  return decisions.fused == (choice == Choice::kFused);
}

absl::Status NoPlanOf(Choice choice, const PlanRecord& record) {
  const std::string& note = record.variants.front().plan.note;
  return FailedPrecondition(
      "this chain has no plan of choice ", choice == Choice::kUnfused ? "'unfused'" : "'fused'",
      note.empty() ? "" : absl::StrCat(" (", note, ")"), ": leave the choice to 'best'");
}

// Errors that end the call: no other variant is tried.
bool IsFinal(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) || IsCacheMiss(status) ||
         IsContextLost(status);
}

uint64_t Blocks(const std::array<uint32_t, 3>& v) { return uint64_t{v[0]} * v[1] * v[2]; }

// `core` outlives the lease: the plan that holds the lease keeps it.
std::shared_ptr<const void> LeaseOf(EngineCore* core, const std::vector<BuiltKernelPtr>& kernels) {
  std::set<std::string> distinct;
  for (const BuiltKernelPtr& kernel : kernels) distinct.insert(kernel->key);
  std::vector<std::string> keys(distinct.begin(), distinct.end());
  return std::shared_ptr<const void>(
      core, [core, keys = std::move(keys)](const void*) { core->modules.Released(keys); });
}

// The most rows of a launch of kernel `i`. A self-check of the plan covers this many rows of its
// code.
int64_t RowsAt(const Plan& plan, size_t i) {
  const KernelSpec& spec = plan.kernels[i].spec;
  return spec.family->RowsOf(spec, plan.bucket).most;
}

bool IsChecked(const LoadedPlan& plan, size_t i) {
  return plan.kernels[i]->checked_rows >= RowsAt(plan.plan, i);
}

constexpr int kMostRounds = 32;          // of replacing kernels
constexpr size_t kMostReasonText = 400;  // of what the compiler said

// One line about kernels that were replaced by others.
std::string ReplacedText(size_t count, absl::string_view first) {
  const std::string why(Printable(first).substr(0, kMostReasonText));
  return absl::StrCat(Counted(count, "kernel"), " replaced, the compiler refused the planned one",
                      count == 1 ? "" : "s", ": ", why);
}

// Whether several different kernels were asked for and every one was refused. Then the fault is the
// compiler's, and it would refuse other kernels too.
bool RefusesAll(const std::vector<std::string>& keys, const std::vector<size_t>& refused) {
  return refused.size() == keys.size() && std::count(keys.begin(), keys.end(), keys.front()) !=
                                              static_cast<std::ptrdiff_t>(keys.size());
}

// Positions of equal keys.
struct FirstPositions {
  explicit FirstPositions(const std::vector<std::string>& keys) {
    std::map<absl::string_view, size_t> known;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto [at, fresh] = known.try_emplace(keys[i], i);
      if (fresh) distinct.push_back(i);
      of.push_back(at->second);
    }
  }
  std::vector<size_t> distinct;  // the first position of each key, ascending
  std::vector<size_t> of;        // for each position, the first one with its key
};

// What the unfused plan would take longer: by measured times if both plans have them, else by
// predicted ones.
uint64_t SavedNs(const PlanRecord& record, const Plan& runs) {
  for (const PlanVariant& variant : record.variants) {
    const std::vector<KernelDecision>& kernels = variant.decisions.kernels;
    if (variant.decisions.fused) continue;
    const double unfused = MeasuredUsOf(kernels), own = MeasuredUs(runs);
    const double saved =
        unfused > 0 && own > 0 ? unfused - own : PredictedUsOf(kernels) - runs.PredictedUs();
    return saved > 0 && saved < kMostSavedUs ? static_cast<uint64_t>(saved * 1e3) : 0;
  }
  return 0;
}

PassedOver::Why WhyPassedOver(const Plan& plan, const Plan& executed, bool tuned) {
  if (plan.PredictedUs() >= executed.PredictedUs()) return PassedOver::Why::kSlower;
  return tuned ? PassedOver::Why::kTunedAway : PassedOver::Why::kNotAskedFor;
}

}  // namespace

// One call of Assemble: what was asked for, and what was found out on the way.
struct PlanAssembler::Walk {
  const AssembleOptions& options;
  const BuildControl& control;
  std::shared_ptr<const NormalForm> form;
  PlanRequest request;  // that the record is for
  FoundPlan found;
  std::shared_ptr<LoadedPlan> result;  // of the variant that runs
  size_t runs = 0;                     // that variant's number
  std::string replaced;                // PlanVariant::replaced of the variant that runs
  absl::optional<PlanRecord> learnt;   // the record with what was replaced in this call
  std::vector<PassedOver> failed;      // in order of trial
  bool not_resident = false;
  bool other_toolchain = false;  // a kernel was built under another key than its record names

  const PlanRecord& record() const { return *found.record; }
  Building building() const { return {request, options.on_miss, control, *found.sources}; }
};

bool PlanAssembler::Resident(const BuiltKernels& built, std::string* why) const {
  for (size_t i = 0; i < built.kernels.size(); ++i) {
    const LaunchRecipe& recipe = built.recipes[i];
    const LoadedKernel* loaded = built.kernels[i]->loaded.get();
    if (!recipe.cooperative || loaded == nullptr) continue;
    const uint64_t clusters = Blocks(recipe.grid) / Blocks(recipe.cluster);
    const absl::StatusOr<int> fit = loaded->MaxActiveClusters(recipe);
    if (fit.ok() && *fit >= 0 && static_cast<uint64_t>(*fit) >= clusters) continue;
    *why = fit.ok() ? absl::StrCat("the driver keeps ", *fit, " clusters of ",
                                   Blocks(recipe.cluster), " resident, the plan needs ", clusters)
                    : absl::StrCat("resident clusters are unknown: ", fit.status().message());
    return false;
  }
  return true;
}

absl::Status CheckWorkspace(const Plan& plan) {
  if (plan.workspace_bytes <= kMaxRecipeBytes) return absl::OkStatus();
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("it needs a workspace of ", plan.workspace_bytes,
                                " bytes, at most 2^40 are taken: prepare the chain for fewer "
                                "rows, or compute its largest values in chains of their own"));
}

absl::StatusOr<std::vector<LaunchRecipe>> PlanAssembler::RecipesOf(const Plan& plan) const {
  SINTER_RETURN_IF_ERROR(CheckWorkspace(plan));
  std::vector<LaunchRecipe> recipes;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    absl::StatusOr<LaunchRecipe> recipe = core_->RecipeOf(plan.kernels[i].spec);
    if (!recipe.ok()) return Annotate(recipe.status(), absl::StrCat("kernel ", i));
    recipes.push_back(*std::move(recipe));
  }
  return recipes;
}

// Per position: what LoadedPlan holds of the plan's kernels, or why there is none.
struct PlanAssembler::Attempt {
  std::vector<LaunchRecipe> recipes;
  std::vector<absl::StatusOr<BuiltKernelPtr>> kernels;
};

absl::StatusOr<PlanAssembler::Attempt> PlanAssembler::TryKernels(const Building& building,
                                                                 const PlanVariant& variant) {
  Attempt attempt;
  SINTER_ASSIGN_OR_RETURN(attempt.recipes, RecipesOf(variant.plan));
  const std::vector<std::string>& keys = variant.kernel_keys;
  const FirstPositions first(keys);
  attempt.kernels.assign(keys.size(), absl::UnknownError("not built"));
  const auto build = [&](int j) {
    const size_t i = first.distinct[static_cast<size_t>(j)];
    attempt.kernels[i] = kernels_->Get(variant.plan.kernels[i].spec, attempt.recipes[i], keys[i],
                                       building.on_miss, building.control, building.sources);
  };
  reference::ForEachIndex(static_cast<int>(first.distinct.size()), build,
                          building.control.threads());
  for (size_t i = 0; i < keys.size(); ++i) attempt.kernels[i] = attempt.kernels[first.of[i]];
  return attempt;
}

absl::StatusOr<BuiltKernels> PlanAssembler::Finish(Attempt attempt) const {
  BuiltKernels built;
  for (size_t i = 0; i < attempt.kernels.size(); ++i) {
    const absl::StatusOr<BuiltKernelPtr>& kernel = attempt.kernels[i];
    absl::Status status = kernel.status();
    if (kernel.ok() && (*kernel)->loaded != nullptr) {
      status = (*kernel)->loaded->CheckRecipe(attempt.recipes[i]);
    }
    if (!status.ok()) return Annotate(status, absl::StrCat("kernel ", i));
    built.kernels.push_back(*kernel);
  }
  built.recipes = std::move(attempt.recipes);
  return built;
}

absl::StatusOr<BuiltKernels> PlanAssembler::BuildKernels(const Building& building,
                                                         absl::string_view toolchain,
                                                         PlanVariant* variant) {
  if (variant->kernel_keys.empty()) {
    SINTER_RETURN_IF_ERROR(
        plans_->FillVariant(*variant, toolchain, building.sources, building.control));
  }
  std::vector<KernelDecision> refused;
  std::string first_refusal;
  std::vector<absl::StatusOr<BuiltKernelPtr>> held;  // so that built kernels stay alive
  for (int round = 0;; ++round) {
    SINTER_ASSIGN_OR_RETURN(Attempt attempt, TryKernels(building, *variant));
    std::vector<size_t> positions;
    for (size_t i = 0; i < attempt.kernels.size(); ++i) {
      const absl::Status& status = attempt.kernels[i].status();
      if (!status.ok() && !IsRefusedByCompiler(status))
        return Annotate(status, absl::StrCat("kernel ", i));
      if (status.ok()) continue;
      if (first_refusal.empty()) first_refusal = std::string(status.message());
      positions.push_back(i);
      refused.push_back(variant->decisions.kernels[i]);
    }
    if (positions.empty() || !core_->hooks.replace || round == kMostRounds ||
        RefusesAll(variant->kernel_keys, positions)) {
      return Finish(std::move(attempt));
    }
    std::move(attempt.kernels.begin(), attempt.kernels.end(), std::back_inserter(held));
    const absl::Status status = Replace(building, toolchain, positions, refused, variant);
    if (IsFinal(status)) return status;
    if (!status.ok()) {
      return WithFieldsOf(MakeError(ErrorCode::kCompileFailed,
                                    absl::StrCat("kernel ", positions.front(), ": ", first_refusal,
                                                 "; no other takes its place: ", status.message())),
                          status);
    }
    variant->replaced = ReplacedText(refused.size(), first_refusal);
    core_->log.Log(LogLevel::kWarn,
                   absl::StrCat("plan '", variant->plan.name(), "': ", variant->replaced));
  }
}

absl::Status PlanAssembler::Replace(const Building& building, absl::string_view toolchain,
                                    const std::vector<size_t>& positions,
                                    const std::vector<KernelDecision>& refused,
                                    PlanVariant* variant) const {
  const PlanRequest& request = building.request;
  const DeviceModel& model = core_->ports.model;
  const TraceSpan span(core_->trace.get(), "replace kernels");
  FusionOptions options;
  options.keep_going = &building.control;
  options.batch_invariant = request.batch_invariant;
  options.allow_cooperative = request.allow_cooperative;
  absl::StatusOr<Decisions> others = core_->hooks.replace(request.planned(), model, options,
                                                          variant->decisions, positions, refused);
  if (!others.ok()) return request.form->InCallersNumbers(others.status());
  variant->decisions = *std::move(others);
  const PlanAssembly assemble =
      core_->AssemblyOf(request.planned(), request.bucket, model,
                        {request.batch_invariant, request.allow_cooperative, &building.control});
  absl::StatusOr<AssembledPlan> assembled = assemble(variant->decisions);
  if (!assembled.ok()) return request.form->InCallersNumbers(assembled.status());
  variant->plan = std::move(assembled->plan);
  return plans_->FillVariant(*variant, toolchain, building.sources, building.control);
}

LoadedPlanPtr PlanAssembler::MakeLoaded(std::shared_ptr<const NormalForm> form, Plan plan,
                                        BuiltKernels built) const {
  std::shared_ptr<LoadedPlan> loaded = NewLoadedPlan(std::move(form), std::move(plan));
  loaded->owner = core_;
  loaded->kernels = std::move(built.kernels);
  loaded->recipes = std::move(built.recipes);
  loaded->check_bind = core_->hooks.check_bind;
  loaded->lease = LeaseOf(core_.get(), loaded->kernels);
  for (size_t i = 0; i < loaded->kernels.size(); ++i) {
    loaded->plan.kernels[i].kernel_digest = Sha256(loaded->kernels[i]->key);
  }
  return loaded;
}

void PlanAssembler::Record(const LoadedPlan& plan, const Verdict& verdict) {
  const Ports& ports = core_->ports;
  const std::string device =
      absl::StrCat(ports.device_name.empty() ? ports.model.name : ports.device_name,
                   ports.driver_name.empty() ? "" : ", ", ports.driver_name);
  std::map<const BuiltKernel*, int64_t> unchecked;  // each with the most rows of its positions
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (IsChecked(plan, i)) continue;
    int64_t& rows = unchecked[plan.kernels[i].get()];
    rows = std::max(rows, RowsAt(plan.plan, i));
  }
  for (const auto& [kernel, rows] : unchecked) {
    if (verdict.right) {
      kernels_->MarkVerified(*kernel, {device, verdict.seed, verdict.error, rows});
    } else {
      kernels_->Quarantine(*kernel, absl::StrCat(device, ": ", verdict.detail));
    }
  }
}

std::shared_ptr<const PlanRecord> PlanAssembler::WholeRecord(const Walk& walk) const {
  if (walk.record().HasAllPlans()) return walk.found.record;
  auto whole = std::make_shared<PlanRecord>(walk.record());
  const absl::Status status =
      CompletePlanRecord(walk.request, core_->ports.model, *core_, walk.control, whole.get());
  if (status.ok()) return whole;
  core_->log.Log(LogLevel::kWarn, absl::StrCat("a plan's record: ", status.message()));
  return nullptr;
}

LoadedPlanPtr PlanAssembler::BuildUnfused(Walk& walk) {
  const std::shared_ptr<const PlanRecord> record = WholeRecord(walk);
  if (record == nullptr) return nullptr;
  for (PlanVariant variant : record->variants) {
    if (variant.decisions.fused) continue;
    absl::StatusOr<BuiltKernels> built =
        BuildKernels(walk.building(), record->toolchain_id, &variant);
    if (built.ok()) return MakeLoaded(walk.form, variant.plan, *std::move(built));
    core_->log.Log(LogLevel::kWarn, absl::StrCat("the self-check goes without the plain plan: ",
                                                 built.status().message()));
  }
  return nullptr;
}

absl::Status PlanAssembler::VerifyVariant(const LoadedPlanPtr& candidate, Walk& walk) {
  // A single rank would wait for the others.
  const bool split = walk.form->callers->ranks() > 1;
  if (!walk.options.verify || split || core_->ports.loader == nullptr ||
      core_->ports.measurer == nullptr) {
    return absl::OkStatus();
  }
  bool all = true;
  for (size_t i = 0; i < candidate->kernels.size(); ++i) all = all && IsChecked(*candidate, i);
  if (all) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(walk.control.Enter("verify", 0.8));
  const TraceSpan span(core_->trace.get(), "verify");
  const LoadedPlanPtr unfused = candidate->plan.fused ? BuildUnfused(walk) : nullptr;
  absl::StatusOr<std::unique_ptr<Verifier>> verifier =
      Verifier::Make(core_.get(), walk.form->callers, candidate->plan.bucket, candidate->fixed_rows,
                     core_->ports.measurer.get());
  absl::StatusOr<Verdict> verdict =
      verifier.ok() ? (*verifier)->Check(candidate, unfused) : verifier.status();
  if (IsFinal(verdict.status())) return verdict.status();
  if (!verdict.ok()) {
    core_->log.Log(LogLevel::kWarn, absl::StrCat("plan '", candidate->plan.name(),
                                                 "' runs unchecked: ", verdict.status().message()));
    return absl::OkStatus();
  }
  Record(*candidate, *verdict);
  if (verdict->right) return absl::OkStatus();
  if (!verdict->fault.ok()) return Annotate(verdict->fault, "the self-check");
  return QuarantinedError(candidate->kernels.front()->key, verdict->detail);
}

absl::Status PlanAssembler::TryVariant(size_t at, Walk& walk) {
  const PlanRecord& record = walk.record();
  PlanVariant variant = record.variants[at];
  const std::string known = variant.replaced;
  SINTER_ASSIGN_OR_RETURN(BuiltKernels built,
                          BuildKernels(walk.building(), record.toolchain_id, &variant));
  for (size_t i = 0; i < built.kernels.size(); ++i) {
    walk.other_toolchain |= built.kernels[i]->key != variant.kernel_keys[i];
  }
  std::string why;
  if (!Resident(built, &why)) {
    walk.not_resident = true;
    return FailedPrecondition(why);
  }
  const LoadedPlanPtr loaded = MakeLoaded(walk.form, variant.plan, std::move(built));
  SINTER_RETURN_IF_ERROR(VerifyVariant(loaded, walk));
  if (variant.replaced != known) walk.learnt = plans_->Learn(walk.request, record, at, variant);
  walk.result = std::make_shared<LoadedPlan>(*loaded);
  walk.runs = at;
  walk.replaced = variant.replaced;
  return absl::OkStatus();
}

absl::Status PlanAssembler::TryVariants(Walk& walk) {
  absl::Status first_error;
  bool unfused_only = false;
  std::string denied;  // reported once: as an error, or in the log where another variant runs
  for (size_t at = 0; at < walk.record().variants.size(); ++at) {
    const Decisions& decisions = walk.record().variants[at].decisions;
    if (!Wanted(decisions, walk.options.choice)) continue;
    if (unfused_only && decisions.fused) continue;
    if (!walk.record().variants[at].HasPlan()) {
      SINTER_ASSIGN_OR_RETURN(
          const bool another,
          plans_->Complete(walk.request, walk.options.on_miss, walk.control, &walk.found));
      if (another) {
        walk.failed.clear();
        return TryVariants(walk);
      }
    }
    const PlanVariant& variant = walk.record().variants[at];
    const absl::Status status = TryVariant(at, walk);
    if (status.ok() && !denied.empty()) core_->log.Log(LogLevel::kWarn, denied);
    if (status.ok() || IsFinal(status)) return status;
    walk.failed.push_back({variant.plan.PlanDigest(), variant.plan.fused,
                           variant.plan.PredictedUs(), PassedOver::Why::kFailed,
                           std::string(status.message())});
    const std::string why =
        absl::StrCat("plan '", variant.plan.name(), "' does not run: ", status.message());
    if (!IsDeniedToolchain(status)) {
      core_->log.Log(LogLevel::kWarn, why);
    } else if (denied.empty()) {
      denied = why;
    }
    first_error.Update(Annotate(status, absl::StrCat("plan '", variant.plan.name(), "'")));
    if (walk.not_resident) return first_error;
    unfused_only |= IsQuarantined(status);
  }
  if (!first_error.ok()) return first_error;
  return NoPlanOf(walk.options.choice, walk.record());
}

absl::StatusOr<const Plan*> PlanAssembler::FirstOf(const PlanRequest& request,
                                                   const AssembleOptions& options,
                                                   const BuildControl& control, FoundPlan* found) {
  absl::Status first_error;
  for (size_t at = 0; at < found->record->variants.size(); ++at) {
    if (!Wanted(found->record->variants[at].decisions, options.choice)) continue;
    if (!found->record->variants[at].HasPlan()) {
      SINTER_ASSIGN_OR_RETURN(const bool another,
                              plans_->Complete(request, options.on_miss, control, found));
      if (another) return FirstOf(request, options, control, found);
    }
    const Plan& plan = found->record->variants[at].plan;
    const absl::Status fits = CheckWorkspace(plan);
    if (fits.ok()) return &plan;
    first_error.Update(Annotate(fits, absl::StrCat("plan '", plan.name(), "'")));
  }
  return first_error.ok() ? NoPlanOf(options.choice, *found->record) : first_error;
}

absl::StatusOr<SearchedPlan> PlanAssembler::Search(const PlanRequest& request,
                                                   const AssembleOptions& options,
                                                   const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(FoundPlan found, plans_->Choose(request, options.on_miss, control));
  SINTER_ASSIGN_OR_RETURN(const Plan* const plan, FirstOf(request, options, control, &found));
  SearchedPlan searched;
  searched.plan = *plan;
  const std::vector<PlanVariant>& variants = found.record->variants;
  const auto plain = std::find_if(variants.begin(), variants.end(), [](const PlanVariant& variant) {
    return !variant.decisions.fused;
  });
  if (plain != variants.end()) searched.unfused_us = PredictedUsOf(plain->decisions.kernels);
  searched.measured = found.record->choice.has_value() && options.choice == Choice::kBest;
  return searched;
}

// Looks up or makes the plan that never waits across blocks, by prediction: nobody measured it.
absl::Status PlanAssembler::FallBack(Walk& walk) {
  core_->counters.non_resident_fallbacks.fetch_add(1, std::memory_order_relaxed);
  walk.not_resident = false;
  PlanRequest smaller = walk.request;
  smaller.allow_cooperative = false;
  smaller.measured = false;
  SINTER_ASSIGN_OR_RETURN(walk.found, plans_->Get(smaller, walk.options.on_miss, walk.control));
  walk.request = smaller;
  return TryVariants(walk);
}

// Planning reports why untried variants were passed over; it lists more plans. Only if it listed
// none, or if the choice was not made by its prediction, are their plans made for the report.
void PlanAssembler::ListPassedOver(Walk& walk) const {
  LoadedPlan& loaded = *walk.result;
  std::set<Digest> told = {loaded.chosen_digest};
  for (const PassedOver& failed : walk.failed) told.insert(failed.plan);
  loaded.passed_over = std::move(walk.failed);
  const bool tuned = walk.record().choice.has_value() && walk.options.choice == Choice::kBest;
  const bool listed = !tuned && !loaded.plan.runners_up.empty();
  const auto record = listed ? nullptr : WholeRecord(walk);
  if (record == nullptr) return;
  for (size_t i = 0; i < record->variants.size(); ++i) {
    const Plan& plan = record->variants[i].plan;
    if (i == walk.runs) continue;
    const Digest digest = plan.PlanDigest();
    if (!told.insert(digest).second) continue;
    loaded.passed_over.push_back(
        {digest, plan.fused, plan.PredictedUs(), WhyPassedOver(plan, loaded.plan, tuned), ""});
  }
}

absl::StatusOr<LoadedPlanPtr> PlanAssembler::Assemble(const PlanRequest& request,
                                                      const AssembleOptions& options,
                                                      const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(FoundPlan found, plans_->Get(request, options.on_miss, control));
  Walk walk{options, control, request.form, request, std::move(found), nullptr, 0, "", {}, {}};
  absl::Status status = TryVariants(walk);
  const std::shared_ptr<const PlanRecord> first = walk.found.record;
  if (walk.not_resident && request.allow_cooperative) status = FallBack(walk);
  SINTER_RETURN_IF_ERROR(status);
  const PlanRecord& record = walk.record();
  if (walk.other_toolchain && first == walk.found.record) {
    plans_->Renew(request, walk.learnt.has_value() ? *walk.learnt : record);
  }
  LoadedPlan& loaded = *walk.result;
  ListPassedOver(walk);
  loaded.chosen_digest = first->planned;
  loaded.from_cache = walk.found.from_cache;
  loaded.saved_ns_per_pass = SavedNs(record, loaded.plan);
  loaded.considered = record.considered;
  loaded.legal = record.legal;
  loaded.tuning_digest = core_->tuning_digest;
  loaded.tuning = first->tuning;
  if (!loaded.passed_over.empty() && loaded.passed_over[0].why == PassedOver::Why::kFailed) {
    const PassedOver& failed = loaded.passed_over[0];
    loaded.fallback = absl::StrCat(PlanName(failed.fused), ": ", failed.failure);
  } else if (!walk.replaced.empty()) {
    loaded.fallback = walk.replaced;
  }
  if (!loaded.fallback.empty()) {
    loaded.plan.note =
        absl::StrCat(loaded.plan.note, loaded.plan.note.empty() ? "" : "; ", loaded.fallback);
  }
  if (control.Tells() && !loaded.fallback.empty()) {
    EngineEvent event(EventKind::kFallback, "plan");
    event.plan = loaded.plan.PlanDigest();
    event.reason = loaded.fallback;
    control.Tell(std::move(event));
  }
  return LoadedPlanPtr(walk.result);
}

}  // namespace sinter
