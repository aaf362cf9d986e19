// PlanBuilder: gives the plan record of a plan key: from the store, or by fusion and search.
#ifndef SINTER_SRC_ENGINE_PLAN_BUILDER_H_
#define SINTER_SRC_ENGINE_PLAN_BUILDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "src/base/fork_local.h"
#include "src/base/recent.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/kernel_builder.h"
#include "src/engine/keys.h"

namespace sinter {

// Plans the request's normal form; the plans' notes hold the form's notes too.
absl::StatusOr<FusionResult> PlanOf(const PlanRequest& request, const FusionOptions& options,
                                    const EngineCore& core);

// Tells the progress callback, for people, what was chosen, before anything is built. Programs ask
// Engine::Search. `fraction`: of the whole call.
absl::Status TellPlanned(const Plan& plan, double fraction, const BuildControl& control);

struct FoundPlan {
  std::shared_ptr<const PlanRecord> record;  // of the cache: perhaps with only the chosen plan
  std::shared_ptr<KernelSources> sources;    // holds those made for the record's keys
  bool from_cache = false;
};

// Thread-safe. One thread searches for a key, the others wait.
class PlanBuilder {
 public:
  // `core` outlives the builder.
  explicit PlanBuilder(EngineCore* core) : core_(core) {}

  // Returns the record with the kernel keys of its chosen plan at least. A hit opens no compiler,
  // unless the compiler's file was replaced since the record was made; then the record is renewed
  // and keeps its plans. kCacheMiss unless it may build (then any toolchain serves), kNoLegalPlan,
  // UNAVAILABLE without a compiler, CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<FoundPlan> Get(const PlanRequest& request, OnMiss on_miss,
                                const BuildControl& control);

  // What Get would choose, without making sources or keys, and without a compiler: a record of the
  // cache, or of a search, which Get then does not do again.
  absl::StatusOr<FoundPlan> Choose(const PlanRequest& request, OnMiss on_miss,
                                   const BuildControl& control);

  // Makes the plans of all variants of `found`, which Get returned. Where one is none of the
  // chain's, the record is refused: then `found` is what Get would have returned without it, and
  // the result is true.
  absl::StatusOr<bool> Complete(const PlanRequest& request, OnMiss on_miss,
                                const BuildControl& control, FoundPlan* found);

  // Stores the entry's record for `request`, whose `measured` is set. Errors of UsableChoice, of a
  // compiler that does not open.
  absl::Status KeepMeasured(const PlanRequest& request, const TuningEntry& entry,
                            const BuildControl& control);

  // Writes the record again with keys for this machine's compiler, which had to build one of its
  // kernels.
  void Renew(const PlanRequest& request, const PlanRecord& record);

  // Makes the sources and keys of a variant's plan for `toolchain`. Errors of code generation.
  absl::Status FillVariant(PlanVariant& variant, absl::string_view toolchain,
                           KernelSources& sources, const BuildControl& control) const;
  // Writes the record again with `variant`, some of whose kernels were replaced, in place of
  // variants[at]. Returns what was written.
  PlanRecord Learn(const PlanRequest& request, const PlanRecord& record, size_t at,
                   const PlanVariant& variant);

 private:
  absl::StatusOr<FoundPlan> GetAlone(const PlanRequest& request, const std::string& key,
                                     OnMiss on_miss, const BuildControl& control);
  using RecordPtr = std::shared_ptr<const PlanRecord>;
  // The record of a search, without sources and keys. A measured request gets the record of the
  // tuning set.
  absl::StatusOr<RecordPtr> MakeRecord(const PlanRequest& request, const BuildControl& control);
  // A record of the tuning set that cannot serve is counted, logged and not tried again.
  absl::StatusOr<RecordPtr> FromTuningSet(const PlanRequest& request, const BuildControl& control);
  // The same of an earlier search, if there was one, or of another thread's.
  absl::StatusOr<RecordPtr> Planned(const PlanRequest& request, const std::string& key,
                                    const BuildControl& control);
  absl::StatusOr<FoundPlan> Search(const PlanRequest& request, const std::string& key,
                                   const BuildControl& control);
  // Makes sources and keys of a record's plans, and stores it.
  absl::StatusOr<FoundPlan> Keep(const std::string& key, PlanRecord record,
                                 const BuildControl& control);
  bool MayBuild(const PlanRequest& request, OnMiss on_miss) const {
    return on_miss == OnMiss::kBuild && (!request.measured || core_->ports.tuning != nullptr);
  }
  // OK if the kernels of a stored choice are still the measured ones. If they were last compared
  // with other device headers, the record gets new keys.
  absl::Status CheckMeasured(const PlanRequest& request, PlanRecord* record);
  // kCacheMiss of a plan that may not be searched for.
  absl::Status Missing(const PlanRequest& request, const std::string& key, OnMiss on_miss,
                       const Lookup& found) const;
  Lookup LookUp(const std::string& key, const BuildControl& control);
  absl::StatusOr<FusionResult> RunFusion(const PlanRequest& request, const BuildControl& control);
  // Looks in the tiers, nearest first, until a record can be used; null if none can. `found`: the
  // last answer that counts, a hit if its record was refused. CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<std::shared_ptr<const PlanRecord>> Find(const PlanRequest& request,
                                                         const std::string& key,
                                                         const BuildControl& control,
                                                         Lookup* found);
  // Null when the lookup missed or its record cannot be used, which is logged, counted and written
  // to found->detail; `again` then says whether another tier may have a better one.
  absl::StatusOr<std::shared_ptr<const PlanRecord>> FromStore(const PlanRequest& request,
                                                              const std::string& key,
                                                              const BuildControl& control,
                                                              Lookup* found, bool* again);
  // Counts, logs and refuses a record that cannot be used, for `why`, which goes to found->detail.
  // Returns whether another tier may have a better one.
  bool Refuse(const std::string& key, const absl::Status& why, Lookup* found);
  // The record with keys for `toolchain`; null when they cannot be made.
  std::shared_ptr<const PlanRecord> Refilled(const PlanRequest& request, const PlanRecord& record,
                                             const std::string& toolchain);
  std::shared_ptr<const PlanRecord> Renewed(const PlanRequest& request, const PlanRecord& record);
  absl::Status FillKeys(PlanRecord& record, KernelSources& sources,
                        const BuildControl& control) const;
  std::string BuildId();
  bool CompilerExchanged(const PlanRecord& record);

  EngineCore* const core_;
  SingleFlight<FoundPlan> flights_;
  SingleFlight<RecordPtr> searches_;
  Recent<RecordPtr, 128> planned_;  // searched for and not built yet, without sources and keys
  ForkLocal<absl::optional<std::string>> build_id_;  // of the compiler's file, once it was read
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PLAN_BUILDER_H_
