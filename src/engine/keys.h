// Keys: what a plan and a kernel are looked up by.
#ifndef SINTER_SRC_ENGINE_KEYS_H_
#define SINTER_SRC_ENGINE_KEYS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/record.h"
#include "src/base/keep_going.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/chain/chain.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"

namespace sinter {

// What a plan is asked for.
struct PlanRequest {
  std::shared_ptr<const NormalForm> form;
  // The caller's chain, which keys name; its normal form is what is planned.
  const Chain& chain() const { return *form->callers; }
  const Chain& planned() const { return *form->chain; }
  int64_t bucket = 0;
  bool batch_invariant = false;
  bool allow_cooperative = true;  // false after the driver's residency check failed
  // Asks for the plan that was measured as the fastest (measured_choice.h), not the one that
  // planning chooses. It is looked up in the store and in the tuning set, never searched for.
  bool measured = false;
};

// Digest of the device headers that the kernels of `plan` reach.
Digest HeadersOf(const Plan& plan, const EngineCore& core);
// Whether a library_version field was written by this version.
bool IsOfThisVersion(absl::string_view library_version);

// The flags of a plan key: 1: batch invariant, 2: no waiting across blocks, 4: measured.
uint64_t FlagsOf(const PlanRequest& request);
// A request with only the flags of a key set.
PlanRequest RequestOfFlags(uint64_t flags);

// The key of a plan. It holds no header: when a kernel's header changes the plan stays, and its
// kernels get new keys. The key of a measured plan names the chip in place of its cost model, and
// no version of the search: its kernels decide whether it serves.
std::string PlanKeyBytes(const PlanRequest& request, const EngineCore& core);

// A kernel's key: its code (src/plan/kernel_code.h), the digest of its source, and the digest of
// the device headers that the source reaches. Two kernels with one key are the same binary, even if
// code generation changed between two builds of one version. Buffers, rows and blocks of a launch
// are not part of it. `code` is the code of `spec`; `source` is the SHA-256 of the source that code
// generation makes of `spec`.
std::string KernelKeyOf(const KernelSpec& spec, const KernelCode& code, const Digest& source,
                        absl::string_view toolchain_id, absl::string_view arch,
                        const EngineCore& core);
// The toolchain id in the bytes of a kernel key; "" for any other bytes.
std::string ToolchainOfKey(absl::string_view kernel_key);

// First 16 hex digits of the SHA-256 of a key's bytes: the name of the key in logs and errors.
std::string ShortName(absl::string_view key);

// kCacheMiss naming the key, the reason, and the nearest entry in `store`, if `store` is given.
absl::Status MustHitError(absl::string_view what, RecordKind kind, absl::string_view key,
                          const Lookup& found, Store* store);

// What to do after a miss that had to hit: the bucket, and the command that makes its plan and
// kernels.
std::string HowToWarm(const PlanRequest& request, const EngineCore& core);

// Sends the event of a look-up, if anyone asked for events.
void TellLookUp(const BuildControl& control, std::string subject, const Lookup& found, double us);

// Logs why `key` of a `what` ("plan", "kernel") missed. Nothing is logged for an absent entry, or
// for a store that is off, which was logged once.
void LogMiss(const LogSink& log, absl::string_view what, absl::string_view key,
             const Lookup& found);

// PlanRecord: the payload of a plan entry: the chosen plan, the plans that may replace it, and the
// keys of all their kernels, so that a hit needs neither search nor compiler.

// Layout: u32 version, chain digest, i64 bucket, toolchain id, u64 considered, u64 legal, u8 1 and
// the choice or u8 0, tuning, planned digest, u32 variants; each: decisions, what was replaced, u32
// kernels, the digest of each kernel's source.
constexpr uint32_t kPlanRecordVersion = 8;

// The measurement that chose a record's first plan. It is the one form of a measured choice: in the
// cache, in packs, and in tuning sets.
struct MeasuredChoice {
  std::vector<Digest> kernels;  // KernelIdentity of each kernel of the plan
  double measured_us = 0;       // time of the plan
  double untuned_us = 0;        // time of the predicted choice; 0: not measured
  std::string device, driver;   // that the plan was measured and verified on
  uint64_t seed = 0;            // of the inputs used in verifying
  double error = 0;             // relative error found in verifying
  Digest headers;  // HeadersOf the plan when the kernels were last found unchanged; zero: never
  SINTER_FIELDS(MeasuredChoice, kernels, measured_us, untuned_us, device, driver, seed, error,
                headers);
};

// Decisions, sources and `replaced` are stored; CompletePlanRecord makes the rest from them: of the
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
  std::optional<MeasuredChoice> choice;  // none: prediction chose
  std::string tuning;  // what was measured, or why the tuning set does not choose, in brief
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
// `limits.keep_going`. Trusts nothing. Only the stored fields of the variants are set.
absl::StatusOr<PlanRecord> DecodePlanRecord(absl::string_view payload,
                                            const PlanRecordLimits& limits = {});

// Why a plan that is predicted to be faster does not run: a tuning set or a slot chose by
// measurement.
constexpr absl::string_view kTunedAway = "predicted faster; the measured choice takes its place";

// RecordCheck: whether a record that was not made in this process is what its key says.

// Makes the plans and kernel keys of a decoded record that have not been made. DATA_LOSS or
// FAILED_PRECONDITION unless the record names the chain and bucket of `request`, its decisions fit
// them on the chip of `model`, and the unfused plan is there. It generates no source: a wrong
// source digest only gives a key that no kernel has. Asks `control` before each plan.
absl::Status CompletePlanRecord(const PlanRequest& request, const DeviceModel& model,
                                const EngineCore& core, const BuildControl& control,
                                PlanRecord* record);
// The same for only the chosen plan, which is nearly always the one that runs.
absl::Status CompleteChosen(const PlanRequest& request, const DeviceModel& model,
                            const EngineCore& core, const BuildControl& control,
                            PlanRecord* record);
// Fills in the fields that are not stored: a plan, and the keys of its kernels for `toolchain_id`.
void CompleteVariant(AssembledPlan assembled, absl::string_view toolchain_id,
                     absl::string_view arch, const EngineCore& core, PlanVariant* variant);
// The bounds of a plan record for `request`.
PlanRecordLimits LimitsOf(const PlanRequest& request, const KeepGoing* keep_going = nullptr);

// OK if a decoded kernel record was compiled under `key`. Its recipe is not checked: whoever
// launches it makes that from a plan that fits its chain.
absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key);

// The same checks on bytes, without a request; also makes the sources of a plan's kernels to
// compare them: Engine::CheckStored.
absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);
// An error if a record is not what its key says (RecordCheck). OK also for records that only
// another version, or an engine for another device, can judge. Generates no source.
absl::Status JudgeStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);

// The kernels that a plan's record names, of all its variants; none for a record that cannot be
// used or judged here.
std::vector<Digest> KernelsOfStoredPlan(absl::string_view key, absl::string_view payload,
                                        const EngineCore& core);

// Tells the store never to answer `key` with `payload` again. Returns whether another tier may hold
// a better record.
bool RefuseRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                  const EngineCore& core);
// How many records of one key may be refused in a row before the key counts as a miss.
constexpr int kMostRefused = 4;

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KEYS_H_
