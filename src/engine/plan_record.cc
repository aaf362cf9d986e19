#include "src/engine/plan_record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/format.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int kKeptOfAKind = 2;  // fused plans, unfused plans
constexpr uint32_t kMaxVariants = 16;
constexpr size_t kMostReplacedText = 4096;

absl::StatusOr<Digest> ReadDigest(ByteReader& r) {
  Digest digest;
  const absl::string_view bytes = r.Raw(digest.bytes.size());
  if (!r.ok()) return absl::DataLossError("plan record: truncated");
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

absl::StatusOr<PlanVariant> ReadVariant(ByteReader& r, const PlanRecordLimits& limits) {
  if (limits.keep_going != nullptr) SINTER_RETURN_IF_ERROR(limits.keep_going->Check());
  PlanVariant variant;
  const absl::string_view decisions = r.Bytes();
  variant.replaced = std::string(r.Bytes());
  if (variant.replaced.size() > kMostReplacedText || !IsPrintable(variant.replaced))
    return absl::DataLossError("plan record: what was replaced is not one printable line");
  const uint32_t kernels = r.U32();
  if (kernels > limits.kernels) {
    return absl::DataLossError(
        absl::StrCat("plan record: ", kernels, " kernels, at most ", limits.kernels));
  }
  for (uint32_t i = 0; i < kernels; ++i) {
    SINTER_ASSIGN_OR_RETURN(const Digest source, ReadDigest(r));
    variant.sources.push_back(source);
  }
  SINTER_ASSIGN_OR_RETURN(variant.decisions, DecodeDecisions(decisions));
  if (variant.sources.size() == variant.decisions.kernels.size()) return variant;
  return absl::DataLossError(absl::StrCat("plan record: ", variant.sources.size(), " sources of ",
                                          variant.decisions.kernels.size(), " kernels"));
}

absl::Status CheckVersion(uint32_t version) {
  if (version == kPlanRecordVersion) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("plan record: version = ", version, ", must be ", kPlanRecordVersion));
}

absl::Status CheckVariants(uint32_t variants) {
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
  record.planned = result.chosen.PlanDigest();
  int kept[2] = {0, 0};  // unfused, fused
  const auto keep = [&](Plan& plan) {
    PlanVariant variant;
    variant.decisions = DecisionsOf(plan);
    variant.plan = std::move(plan);
    record.variants.push_back(std::move(variant));
  };
  ++kept[result.chosen.fused];
  keep(result.chosen);
  for (Plan& plan : result.alternatives) {
    if (kept[plan.fused]++ < kKeptOfAKind) keep(plan);
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
  w.Raw(record.planned.View());
  w.U32(static_cast<uint32_t>(record.variants.size()));
  for (const PlanVariant& variant : record.variants) {
    w.Bytes(EncodeDecisions(variant.decisions));
    w.Bytes(variant.replaced);
    w.U32(static_cast<uint32_t>(variant.sources.size()));
    for (const Digest& source : variant.sources) w.Raw(source.View());
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
  SINTER_RETURN_IF_ERROR(CheckVersion(r.U32()));
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
  SINTER_ASSIGN_OR_RETURN(record.planned, ReadDigest(r));
  const uint32_t variants = r.U32();
  SINTER_RETURN_IF_ERROR(CheckVariants(variants));
  for (uint32_t i = 0; i < variants; ++i) {
    SINTER_ASSIGN_OR_RETURN(PlanVariant variant, ReadVariant(r, limits));
    record.variants.push_back(std::move(variant));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("plan record"));
  return record;
}

}  // namespace sinter
