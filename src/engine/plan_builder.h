// PlanBuilder: plan key -> plan record: from the store, or by fusion and search.
#ifndef SINTER_SRC_ENGINE_PLAN_BUILDER_H_
#define SINTER_SRC_ENGINE_PLAN_BUILDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "src/base/fork_local.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/kernel_sources.h"
#include "src/engine/keys.h"
#include "src/engine/plan_record.h"
#include "src/engine/single_flight.h"

namespace sinter {

// What planning makes of the request's normal form, with the form's notes in the plans' own.
absl::StatusOr<FusionResult> PlanOf(const PlanRequest& request, const FusionOptions& options,
                                    const EngineCore& core);

struct FoundPlan {
  std::shared_ptr<const PlanRecord> record;
  std::shared_ptr<KernelSources> sources;  // those made for the record's keys are in it
  bool from_cache = false;
};

// Thread-safe. One thread searches for a key, others wait.
class PlanBuilder {
 public:
  // `core` outlives the builder.
  explicit PlanBuilder(EngineCore* core) : core_(core) {}

  // Kernel keys are filled in. A hit opens no compiler unless the compiler's file was exchanged
  // since the record was made; a record is then renewed, and its plans are kept. kCacheMiss
  // unless it may build (any toolchain serves then), kNoLegalPlan, UNAVAILABLE without a compiler,
  // CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<FoundPlan> Get(const PlanRequest& request, OnMiss on_miss,
                                const BuildControl& control);

  // Publishes the plan of `entry`, which was measured for a request that is else the same, as that
  // of `request`, whose `measured` is set. FAILED_PRECONDITION where the entry cannot be used.
  absl::Status KeepMeasured(const PlanRequest& request, const TuningEntry& entry,
                            const BuildControl& control);

  // Writes the record again with keys for this machine's compiler: one of its kernels had to be
  // built by it.
  void Renew(const PlanRequest& request, const PlanRecord& record);

  // Sources and keys of a variant's plan, for `toolchain`. Errors of code generation.
  absl::Status FillVariant(PlanVariant& variant, absl::string_view toolchain,
                           KernelSources& sources, const BuildControl& control) const;
  // Writes the record again with `variant` in the place of variants[at]: kernels of it were
  // replaced. The record that was written.
  PlanRecord Learn(const PlanRequest& request, const PlanRecord& record, size_t at,
                   const PlanVariant& variant);

 private:
  absl::StatusOr<FoundPlan> GetAlone(const PlanRequest& request, const std::string& key,
                                     OnMiss on_miss, const BuildControl& control);
  // `measured`: the choice, whatever prediction and the tuning set say; may be null.
  absl::StatusOr<FoundPlan> Search(const PlanRequest& request, const std::string& key,
                                   const TuningEntry* measured, const BuildControl& control);
  Lookup LookUp(const std::string& key, const BuildControl& control);
  absl::StatusOr<FusionResult> RunFusion(const PlanRequest& request, const BuildControl& control);
  // From the nearest tier whose record can be used, or null. `found`: the last answer that counts,
  // a hit if it was refused. CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<std::shared_ptr<const PlanRecord>> Find(const PlanRequest& request,
                                                         const std::string& key,
                                                         const BuildControl& control,
                                                         Lookup* found);
  // Null when the lookup missed or its record cannot be used, which is logged, counted and said in
  // found->detail; then `again` says whether another tier may have a better one.
  absl::StatusOr<std::shared_ptr<const PlanRecord>> FromStore(const PlanRequest& request,
                                                              const std::string& key,
                                                              const BuildControl& control,
                                                              Lookup* found, bool* again);
  // With keys for `toolchain`; null when that cannot be.
  std::shared_ptr<const PlanRecord> Refilled(const std::string& key, const PlanRecord& record,
                                             const std::string& toolchain);
  std::shared_ptr<const PlanRecord> Renewed(const std::string& key, const PlanRecord& record);
  absl::Status FillKeys(PlanRecord& record, KernelSources& sources,
                        const BuildControl& control) const;
  std::string BuildId();
  bool CompilerExchanged(const PlanRecord& record);

  EngineCore* const core_;
  SingleFlight<FoundPlan> flights_;
  ForkLocal<absl::optional<std::string>>
      build_id_;  // of the compiler's file, once it was peeked at
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PLAN_BUILDER_H_
