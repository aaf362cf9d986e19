#include "tests/compile/renew_set.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/measured_choice.h"
#include "src/fusion/assembly.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"

namespace sinter {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

// The kernel's identity under the embedded headers; an error unless it is as measured.
absl::StatusOr<Digest> Renewed(const KernelSpec& spec, const Digest& measured,
                               const DeviceModel& model, const Headers& old_headers,
                               const MachineCodeOf& machine_code) {
  SINTER_ASSIGN_OR_RETURN(const GeneratedKernel now, Generate(spec, model));
  const Digest identity = KernelIdentity(spec, now);
  if (identity == measured) return identity;
  GeneratedKernel old = now;
  old.request.headers = old_headers;
  if (KernelIdentity(spec, old) != measured) {
    return absl::FailedPreconditionError("is not as measured under the old headers");
  }
  SINTER_ASSIGN_OR_RETURN(const std::string code, machine_code(now.request));
  SINTER_ASSIGN_OR_RETURN(const std::string old_code, machine_code(old.request));
  if (code != old_code) return absl::FailedPreconditionError("has other machine code");
  return identity;
}

// The flags of a tuning key are those of a plan key: 1 batch-invariant, 2 no waiting across blocks.
absl::StatusOr<Plan> PlanOf(const TuningEntry& entry, const Chain* chain,
                            const DeviceModel& model) {
  if (chain == nullptr) return absl::FailedPreconditionError("is of a chain that is not listed");
  SINTER_ASSIGN_OR_RETURN(const Decisions decisions, DecodeDecisions(entry.bytes));
  const AssemblyRequest request{(entry.key.flags & 1) != 0, (entry.key.flags & 2) == 0};
  SINTER_ASSIGN_OR_RETURN(AssembledPlan assembled,
                          Assembly(*chain, entry.key.bucket, model, request).Assemble(decisions));
  return std::move(assembled.plan);
}

absl::StatusOr<TuningEntry> RenewedEntry(TuningEntry entry, const Chain* chain,
                                         const DeviceModel& model, const Headers& old_headers,
                                         const MachineCodeOf& machine_code) {
  SINTER_ASSIGN_OR_RETURN(const Plan plan, PlanOf(entry, chain, model));
  if (plan.kernels.size() != entry.kernels.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", plan.kernels.size(), " kernels, not ", entry.kernels.size()));
  }
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::StatusOr<Digest> identity =
        Renewed(plan.kernels[i].spec, entry.kernels[i], model, old_headers, machine_code);
    if (!identity.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("kernel ", i, " ", identity.status().message()));
    }
    entry.kernels[i] = *identity;
  }
  return entry;
}

}  // namespace

RenewedSet RenewSet(const TuningSet& set, const DeviceModel& model,
                    const std::function<const Chain*(const Digest&)>& chain_of,
                    const Headers& old_headers, const MachineCodeOf& machine_code) {
  RenewedSet result;
  for (const auto& [key, entry] : set.entries()) {
    absl::StatusOr<TuningEntry> renewed =
        key.chip == ChipDigest(model)
            ? RenewedEntry(entry, chain_of(key.chain), model, old_headers, machine_code)
            : absl::FailedPreconditionError("is of another chip");
    if (renewed.ok()) {
      result.set.Add(*std::move(renewed));
    } else {
      result.left_out.push_back(absl::StrCat("chain ", key.chain.Hex(), " m ", key.bucket, ": ",
                                             renewed.status().message()));
    }
  }
  return result;
}

}  // namespace sinter
