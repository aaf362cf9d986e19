// KernelFamily: what plans, planning and the engine ask of a kernel, whatever kind of kernel it is.
// Who asks calls the kernel's family and knows none by name. Nothing here is on the launch path.
#ifndef SINTER_SRC_PLAN_FAMILY_H_
#define SINTER_SRC_PLAN_FAMILY_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"
#include "src/base/compile_request.h"
#include "src/base/device_model.h"
#include "src/base/launch_recipe.h"
#include "src/plan/description.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"

namespace sinter {

struct SearchOptions;  // model/search.h
struct StitchBudget;   // stitch/body_work.h

// What a kernel's launch needs of the chip.
struct KernelLaunch {
  bool cooperative = false;    // blocks wait for one another: all must be resident
  uint64_t scratch_bytes = 0;  // workspace that only the kernel uses
};

// What NVRTC 12.4 to 12.8 make of a 16-bit product waits for each tensor core instruction (remark
// C7515); of 8-bit products it does not.
constexpr int kLeastNvrtcOf16BitProducts = 1209;

constexpr uint32_t kChoiceFlags = 0xfffe;  // of a decision's word: flags that are its family's own

// Ops of a chain that kernels of one family compute as a whole, as its finder found them
// (src/fusion/product_runs.h).
struct OwnRun {
  struct Operand {
    ValueId value = -1;  // lies in memory
    uint64_t offset_bytes = 0;
  };

  const KernelFamily* family = nullptr;
  KernelBodyPtr problem;          // what is computed; the family knows its type
  std::string text;               // for notes of plans: "grouped gated pair + silu"
  std::vector<Operand> operands;  // in the order in which its kernels take them
  DType result = DType::kF32;     // of the run's result in memory
};

// One way to compute such a run, by one kernel or several.
struct OwnChoice {
  std::string own;                  // KernelDecision::own of each kernel
  std::vector<Prediction> kernels;  // in the order in which they run
};

// Why a kernel of a family is not one with another kernel: of the same family, with one that reads
// its results, with one whose results it reads. "": the two are joined and looked at.
struct ApartReasons {
  absl::string_view alike = "kernels that are never one";
  absl::string_view reader = "a kernel that takes no other ops along";
  absl::string_view writer = "a kernel that takes no other ops along";
};

// What holds for every kernel of a family.
struct FamilyTraits {
  absl::string_view name;  // "product"
  uint8_t number = 0;      // part of digests and records: never used again for another family
  ApartReasons apart = {};
  // Tuning measures every kernel of the family, because predictions are not sure.
  bool measures_all = false;
  // Planning chooses the row order of batch-invariant kernels. It must be that of the plan for
  // kRowOrderBucket rows (src/fusion/assembly.cc).
  bool chooses_row_order = false;
  bool is_stand_in = false;  // its kernels come with the library and are not compiled (src/standin)
  bool on_all_chips = false;  // its kernels need no ArchFeatures::products
};

// What holds for one kernel.
struct KernelTraits {
  bool takes_several_ops = true;  // of the chain, casts and views not counted
  bool uses_m = true;             // its rows depend on M
  int ranks = 1;                  // GPUs of the group over which it sums; 1: it needs no group
  // Tuning should measure the kernel, and planning by prediction may leave it out.
  bool is_for_tuning = false;
};

// One line each.
struct KernelTexts {
  std::string problem, schedule;
  std::string identity;  // what a tuning set's identity has besides schedule, source and recipe
};

// How many rows a launch has.
struct KernelRows {
  int64_t most = 0;  // in a plan for the asked bucket
  // The most in one launch of the only kernel of a plan for the largest bucket; 0: that bucket.
  int64_t at_once = 0;
};

// KernelCode's bytes: their first word, what follows it, and the schedule.
struct CodeBytes {
  uint32_t word = 0;
  std::string problem, schedule;
};

// One line each, and the kernel's name in the source.
struct CodeTexts {
  std::string problem, schedule, entry;
};

// What all kernels of a choice need.
struct ChoiceNeeds {
  int kernels = 1;             // all have the choice's bytes
  uint64_t scratch_bytes = 0;  // of the workspace, which only the choice's kernels use
};

// Ops of a body but inputs, scalars, casts and views.
int CountComputed(const Chain& body);

// One object for each family, in static storage, without state. Specs and codes that a family is
// asked about are its own. src/plan/README.md says what moves in with another one.
class KernelFamily {
 public:
  explicit KernelFamily(const FamilyTraits& traits) : traits_(traits) {}
  virtual ~KernelFamily() = default;

  const FamilyTraits& traits() const { return traits_; }
  absl::string_view name() const { return traits_.name; }
  uint8_t number() const { return traits_.number; }

  // ---- Describe
  virtual KernelTraits TraitsOf(const KernelSpec& spec) const = 0;
  virtual KernelTexts TextsOf(const KernelSpec& spec) const = 0;
  // The buffers of the caller and of the workspace that the kernel reads or writes. Each has its
  // bytes in a plan for `bucket` rows.
  virtual std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const = 0;
  // The full description of the kernel. By default: its lines, buffers and time.
  virtual KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket,
                                     const DeviceModel& model, const BufferNames& names) const;
  // Adds the family's fields of a kernel in a plan's JSON (docs/plan-formats.md).
  virtual void WriteJson(const KernelSpec&, nlohmann::ordered_json*) const {}

  // ---- What is equal
  // Versioned bytes of the schedule, with its grid.
  virtual std::string ScheduleBytes(const KernelSpec& spec) const = 0;
  // What PlanDigest covers besides schedule and flags. Kernels are equal if these are.
  virtual void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const = 0;
  // What, with the schedule, the source is made from. Only for keys inside of a process.
  virtual void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const = 0;

  // ---- Rows
  virtual KernelRows RowsOf(const KernelSpec& spec, int64_t bucket) const = 0;
  // The most rows of a launch whose messages fit into a group's slots of `slot_bytes` bytes. Only
  // of kernels with several ranks.
  virtual int64_t RowsOfSlots(const KernelSpec&, uint64_t slot_bytes) const { return kMaxExtent; }
  // Whether pieces of the rows, taken one after another, would give other results.
  virtual bool MixesRows(const KernelSpec&) const { return false; }
  // A line for each product, or one: equal where a row's bits are equal (plan.h).
  virtual std::string RowOrder(const KernelSpec& spec) const = 0;
  // OK if rows of the kernel, which is batch-invariant, have the order that all buckets share; or
  // why not. OK if the family chooses_row_order.
  virtual absl::Status CheckRowOrder(const KernelSpec&) const { return absl::OkStatus(); }

  // ---- Check and predict
  // FAILED_PRECONDITION or INVALID_ARGUMENT naming the field, its value and the bound: of the chip
  // (shared memory, threads, clusters, resident blocks), or of code generation for this problem.
  // Every schedule of the search passes. `code` is the code of `spec`, whose operands need no
  // places yet. RESOURCE_EXHAUSTED once `budget`, which may be null, is spent.
  virtual absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                             const DeviceModel& model,
                                             StitchBudget* budget) const = 0;
  // Recomputed for a plan of `bucket` rows, as if no kernel stood before this one.
  // FAILED_PRECONDITION where the schedule cannot compute the body.
  virtual absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                             const DeviceModel& model) const = 0;

  // ---- Code
  // INVALID_ARGUMENT or FAILED_PRECONDITION for a spec that says no kernel.
  virtual absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const = 0;
  // The code of an unchecked spec: refuses the specs that Source and Recipe cannot take.
  virtual absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                                 const DeviceModel& model) const {
    return Code(spec);
  }
  // Source of `request`, and what of a compiled kernel is refused; the file name of stand-ins.
  virtual absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                                    CompileRequest* request) const = 0;
  // The device library's headers that the source includes: "kernels/product.cuh" first.
  virtual std::vector<std::string> Headers(const KernelSpec& spec) const = 0;
  // Families from number 2 on have the word WordOfFamily().
  virtual CodeBytes BytesOfCode(const KernelCode& code) const = 0;
  virtual CodeTexts TextsOfCode(const KernelCode& code) const = 0;
  // From those bytes. DATA_LOSS on damage; trusts nothing.
  virtual absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                                KernelCode* code) const = 0;
  // The launch: tensor maps, arguments, grid. INVALID_ARGUMENT or FAILED_PRECONDITION naming the
  // misfit. `code` is the code of `spec`.
  virtual absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                              const KernelCode& code) const = 0;

  // ---- Decide
  // The choice made for the kernel: fields of `decision` besides its ops and times.
  virtual void Decide(const KernelSpec& spec, KernelDecision* decision) const = 0;
  // The choice as bytes, and as flags within kChoiceFlags, which it returns; and back: DATA_LOSS
  // unless its fields are within their bounds. `decision` has its ops already.
  virtual uint32_t WriteChoice(const KernelDecision& decision, ByteWriter& w) const = 0;
  virtual absl::Status ReadChoice(uint32_t flags, ByteReader& r,
                                  KernelDecision* decision) const = 0;
  // Whether kernels of the same ops are compiled from one source, as far as decisions show: grids
  // do not matter.
  virtual bool SameSource(const KernelDecision& a, const KernelDecision& b) const = 0;

  // ---- Runs of the family's own. Families without such runs, such as the family of products,
  // leave these out. Legal choices, one or more, the fastest by prediction first, at most
  // options.top_k. `replaces`: a compiler refused kernels of the run; then all, also what is
  // offered only where others are refused. FAILED_PRECONDITION where none is legal.
  virtual absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                         const DeviceModel& model,
                                                         const SearchOptions& options,
                                                         bool replaces) const {
    return absl::UnimplementedError(name());
  }
  // Without scratch if `run` has no problem.
  virtual ChoiceNeeds NeedsOf(const OwnRun& run, absl::string_view choice, int64_t bucket) const {
    return {};
  }
  // Kernel `kernel` of a choice, with `places` of the run's operands, its result, its auxiliary
  // results and the scratch, where there is some; without any to be checked before they are known.
  // FAILED_PRECONDITION, INVALID_ARGUMENT or DATA_LOSS where the choice is none of the run.
  virtual absl::StatusOr<KernelSpec> BindOwn(const OwnRun& run, absl::string_view choice,
                                             int kernel,
                                             const std::vector<BufferPlace>& places) const {
    return absl::UnimplementedError(name());
  }

 protected:
  uint32_t WordOfFamily() const { return 2u + number(); }

 private:
  const FamilyTraits traits_;
};

// The families whose kernels records hold: the one place that lists them.
const std::vector<const KernelFamily*>& Families();
// The one of this number, or null.
const KernelFamily* FamilyOfNumber(uint32_t number);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_FAMILY_H_
