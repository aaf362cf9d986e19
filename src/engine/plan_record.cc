#include "src/engine/plan_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int kKeptOfAKind = 2;  // fused plans, unfused plans
constexpr uint32_t kMaxVariants = 16;

// The keys are counted and read before their plan, which takes longer.
absl::StatusOr<PlanVariant> ReadVariant(ByteReader& r, const PlanRecordLimits& limits) {
  if (limits.keep_going != nullptr) SINTER_RETURN_IF_ERROR(limits.keep_going->Check());
  const absl::string_view plan = r.Bytes();
  const uint32_t keys = r.U32();
  if (keys > limits.kernels) {
    return absl::DataLossError(
        absl::StrCat("plan record: ", keys, " kernels, at most ", limits.kernels));
  }
  PlanVariant variant;
  for (uint32_t i = 0; i < keys && r.ok(); ++i) variant.kernel_keys.emplace_back(r.Bytes());
  SINTER_ASSIGN_OR_RETURN(variant.plan, Plan::Decode(plan));
  if (variant.kernel_keys.size() != variant.plan.kernels.size()) {
    return absl::DataLossError(absl::StrCat("plan record: ", variant.kernel_keys.size(),
                                            " kernel keys for ", variant.plan.kernels.size(),
                                            " kernels"));
  }
  for (size_t i = 0; i < variant.kernel_keys.size(); ++i) {
    if (variant.plan.kernels[i].kernel_digest == Sha256(variant.kernel_keys[i])) continue;
    return absl::DataLossError("plan record: a kernel's digest is not that of its key");
  }
  return variant;
}

absl::Status CheckHead(uint32_t version, uint32_t variants) {
  if (version != kPlanRecordVersion) {
    return absl::DataLossError(
        absl::StrCat("plan record: version = ", version, ", must be ", kPlanRecordVersion));
  }
  if (variants == 0 || variants > kMaxVariants) {
    return absl::DataLossError(
        absl::StrCat("plan record: variants = ", variants, ", must be 1..", kMaxVariants));
  }
  return absl::OkStatus();
}

}  // namespace

PlanRecord MakePlanRecord(FusionResult result) {
  PlanRecord record;
  record.considered = result.considered;
  record.legal = result.legal;
  int kept[2] = {0, 0};  // unfused, fused
  size_t most = 0;       // kernels of a fused plan that is kept
  bool smaller = false;  // whether one with more and smaller kernels is
  const auto keep = [&](Plan& plan) {
    if (plan.fused) most = std::max(most, plan.kernels.size());
    record.variants.push_back({std::move(plan), {}});
  };
  ++kept[result.chosen.fused];
  keep(result.chosen);
  for (Plan& plan : result.alternatives) {
    if (kept[plan.fused]++ < kKeptOfAKind) {
      keep(plan);
    } else if (plan.fused && !smaller && plan.kernels.size() > most) {
      smaller = true;
      keep(plan);
    }
  }
  return record;
}

std::string EncodePlanRecord(const PlanRecord& record) {
  ByteWriter w;
  w.U32(kPlanRecordVersion);
  w.Raw(record.chain.View());
  w.I64(record.bucket);
  w.Bytes(record.toolchain_id);
  w.U64(record.considered);
  w.U64(record.legal);
  w.U8(record.tuned ? 1 : 0);
  w.Bytes(record.tuning);
  w.U32(static_cast<uint32_t>(record.variants.size()));
  for (const PlanVariant& variant : record.variants) {
    w.Bytes(variant.plan.Encode());
    w.U32(static_cast<uint32_t>(variant.kernel_keys.size()));
    for (const std::string& key : variant.kernel_keys) w.Bytes(key);
  }
  return w.Take();
}

absl::StatusOr<PlanRecord> DecodePlanRecord(absl::string_view payload,
                                            const PlanRecordLimits& limits) {
  if (payload.size() > kMostPlanRecordBytes) {
    return absl::DataLossError(
        absl::StrCat("plan record: ", payload.size(), " bytes, at most ", kMostPlanRecordBytes));
  }
  ByteReader r(payload);
  const uint32_t version = r.U32();
  PlanRecord record;
  const absl::string_view chain = r.Raw(record.chain.bytes.size());
  if (r.ok()) std::copy(chain.begin(), chain.end(), record.chain.bytes.begin());
  record.bucket = r.I64();
  record.toolchain_id = std::string(r.Bytes());
  record.considered = r.U64();
  record.legal = r.U64();
  const uint8_t tuned = r.U8();
  if (tuned > 1) return absl::DataLossError(absl::StrCat("plan record: tuned = ", tuned));
  record.tuned = tuned != 0;
  record.tuning = std::string(r.Bytes());
  const uint32_t variants = r.U32();
  SINTER_RETURN_IF_ERROR(CheckHead(version, variants));
  for (uint32_t i = 0; i < variants; ++i) {
    SINTER_ASSIGN_OR_RETURN(PlanVariant variant, ReadVariant(r, limits));
    record.variants.push_back(std::move(variant));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  return record;
}

}  // namespace sinter
