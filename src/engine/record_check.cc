#include "src/engine/record_check.h"

#include "absl/strings/str_cat.h"
#include "cache/key/key.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// The model of a plan key: the engine's own, or one that every library has.
absl::StatusOr<DeviceModel> ModelOf(const Digest& digest, const EngineCore& core) {
  if (core.model_digest == digest) return core.ports.model;
  for (const std::string& name : BuiltinModelNames()) {
    absl::StatusOr<DeviceModel> model = BuiltinModel(name);
    if (model.ok() && model->ModelDigest() == digest) return model;
  }
  return absl::FailedPreconditionError("plan record: of a device model that is not known here");
}

absl::Status CheckStoredPlan(absl::string_view bytes, absl::string_view payload,
                             const EngineCore& core) {
  SINTER_ASSIGN_OR_RETURN(const PlanKey key, DecodePlanKey(bytes));
  if (!IsOfThisVersion(key.library_version)) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan record: of library ", key.library_version));
  }
  SINTER_ASSIGN_OR_RETURN(const DeviceModel model, ModelOf(key.device_model, core));
  SINTER_ASSIGN_OR_RETURN(const Chain chain, ChainFromCanonicalBytes(key.chain));
  SINTER_ASSIGN_OR_RETURN(const PlanRecord record, DecodePlanRecord(payload));
  PlanRequest request = RequestOfFlags(key.flags);
  request.chain = &chain;
  request.bucket = key.bucket;
  return CheckPlanRecord(record, request, model, core);
}

}  // namespace

absl::Status CheckPlanRecord(const PlanRecord& record, const PlanRequest& request,
                             const DeviceModel& model, const EngineCore& core) {
  if (record.chain != request.chain->CanonicalDigest() || record.bucket != request.bucket) {
    return absl::DataLossError(absl::StrCat(
        "plan record: for chain ", record.chain.Hex().substr(0, 16), " at bucket ", record.bucket));
  }
  const PlanJudge fits = core.JudgeOf(*request.chain, request.bucket, model,
                                      {request.batch_invariant, request.allow_cooperative});
  for (const PlanVariant& variant : record.variants) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<KernelCode> codes, CodesOf(variant.plan));
    for (size_t i = 0; i < variant.kernel_keys.size(); ++i) {
      SINTER_RETURN_IF_ERROR(CheckKernelKey(variant.kernel_keys[i], variant.plan.kernels[i].spec,
                                            codes[i], record.toolchain_id, model.arch, core));
    }
    const absl::Status status = fits(variant.plan, codes);
    if (!status.ok()) return Annotate(status, absl::StrCat("plan '", variant.plan.name(), "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key) {
  if (record.key == Sha256(key)) return absl::OkStatus();
  return absl::DataLossError("kernel record: of another kernel than its key's");
}

absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core) {
  if (kind == RecordKind::kPlan) return CheckStoredPlan(key, payload, core);
  SINTER_ASSIGN_OR_RETURN(const KernelRecord record,
                          DecodeKernelRecord(payload, core.hooks.format));
  return CheckKernelRecord(record, key);
}

}  // namespace sinter
