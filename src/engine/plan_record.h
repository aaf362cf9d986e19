// PlanRecord: the payload of a plan entry: the plan that was chosen, those that may stand in for
// it, and the keys of their kernels, so that a hit needs neither search nor compiler.
#ifndef SINTER_SRC_ENGINE_PLAN_RECORD_H_
#define SINTER_SRC_ENGINE_PLAN_RECORD_H_

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

// Decisions, sources and `replaced` are stored; the rest is made from them (CompletePlanRecord).
struct PlanVariant {
  Decisions decisions;
  std::vector<Digest> sources;  // of each kernel: SHA-256 of its source
  // What the compiler said of kernels that others have replaced; "" when the plan is as planned.
  std::string replaced;
  Plan plan;                             // kernel_digest of each kernel is the digest of its key
  std::vector<std::string> kernel_keys;  // one per kernel
};

// Invariants: variants is not empty; variants[0] is the chosen plan; the unfused plan is among
// them.
struct PlanRecord {
  Digest chain;  // canonical, that the plans are for
  int64_t bucket = 0;
  std::string toolchain_id;  // that the kernel keys name
  uint64_t considered = 0, legal = 0;
  bool tuned = false;  // the tuning set named the chosen plan
  std::string tuning;  // what the tuning set said, in a few words; "" without a set
  Digest planned;      // PlanDigest of what was chosen, before kernels of it were replaced
  std::vector<PlanVariant> variants;
};

// The chosen plan, then of the alternatives the best few and always the unfused one. No sources and
// no kernel keys yet.
PlanRecord MakePlanRecord(FusionResult result);

std::string EncodePlanRecord(const PlanRecord& record);
constexpr uint64_t kMostPlanRecordBytes = uint64_t{16} << 20;

struct PlanRecordLimits {
  uint64_t kernels = 8192;                // of a plan; a chain has at most one for every op
  const KeepGoing* keep_going = nullptr;  // asked before each plan
};

// DATA_LOSS unless `payload` is a whole record of this version within its limits; the error of
// `limits.keep_going`. Trusts nothing. Of its variants only what is stored.
absl::StatusOr<PlanRecord> DecodePlanRecord(absl::string_view payload,
                                            const PlanRecordLimits& limits = {});

// Why a plan does not run that is predicted to be faster than what a tuning set or a slot measured.
constexpr absl::string_view kTunedAway = "predicted faster; the measured choice takes its place";

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PLAN_RECORD_H_
