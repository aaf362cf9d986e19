// PlanRecord: the payload of a plan entry: the chosen plan, the plans that may replace it, and the
// keys of all their kernels, so that a hit needs neither search nor compiler.
#ifndef SINTER_SRC_ENGINE_PLAN_RECORD_H_
#define SINTER_SRC_ENGINE_PLAN_RECORD_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/keep_going.h"
#include "src/fusion/fusion.h"
#include "src/plan/decisions.h"

namespace sinter {

// Layout: u32 version, chain digest, i64 bucket, toolchain id, u64 considered, u64 legal, u8 tuned,
// tuning, planned digest, u32 variants; each: decisions, what was replaced, u32 kernels, the digest
// of each kernel's source.
constexpr uint32_t kPlanRecordVersion = 7;

// Decisions, sources and `replaced` are stored; record_check.h makes the rest from them: of the
// chosen plan at once, of the others when one is wanted.
struct PlanVariant {
  Decisions decisions;
  std::vector<Digest> sources;  // of each kernel: SHA-256 of its source
  // What the compiler said of kernels that were replaced; "" when none was.
  std::string replaced;
  Plan plan;                             // each kernel's kernel_digest is the digest of its key
  std::vector<std::string> kernel_keys;  // one per kernel

  bool HasPlan() const { return !plan.kernels.empty(); }
};

// Invariants: variants is not empty; variants[0] is the chosen plan; the unfused plan is among
// them.
struct PlanRecord {
  Digest chain;  // canonical digest of the chain that the plans are for
  int64_t bucket = 0;
  std::string toolchain_id;  // the one in the kernel keys
  uint64_t considered = 0, legal = 0;
  bool tuned = false;  // the tuning set named the chosen plan
  std::string tuning;  // what the tuning set said, in brief; "" without a set
  Digest planned;      // PlanDigest of the choice before kernels of it were replaced
  std::vector<PlanVariant> variants;

  bool HasAllPlans() const {
    return std::all_of(variants.begin(), variants.end(),
                       [](const PlanVariant& variant) { return variant.HasPlan(); });
  }
};

// The chosen plan, then the best few alternatives and always the unfused plan. Sources and kernel
// keys are not filled in yet.
PlanRecord MakePlanRecord(FusionResult result);

std::string EncodePlanRecord(const PlanRecord& record);
constexpr uint64_t kMostPlanRecordBytes = uint64_t{16} << 20;

struct PlanRecordLimits {
  uint64_t kernels = 8192;                // in a plan; a chain has at most one per op
  const KeepGoing* keep_going = nullptr;  // asked before each plan
};

// DATA_LOSS unless `payload` is a whole record of this version within its limits; or the error of
// `limits.keep_going`. Trusts nothing. Of the variants only the stored fields are set.
absl::StatusOr<PlanRecord> DecodePlanRecord(absl::string_view payload,
                                            const PlanRecordLimits& limits = {});

// Why a plan that is predicted to be faster does not run: a tuning set or a slot chose by
// measurement.
constexpr absl::string_view kTunedAway = "predicted faster; the measured choice takes its place";

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PLAN_RECORD_H_
