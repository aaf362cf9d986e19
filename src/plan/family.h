// KernelFamily: what plans, planning and the engine ask of a kernel, whatever kind of kernel it is.
// Who asks calls the kernel's family and knows none by name. Nothing here is on the launch path.
#ifndef SINTER_SRC_PLAN_FAMILY_H_
#define SINTER_SRC_PLAN_FAMILY_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
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
  uint64_t scratch_bytes = 0;  // workspace for the kernel alone
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
  std::shared_ptr<const void> problem;  // what is computed; the family alone knows its type
  std::vector<Operand> operands;        // in the order in which its kernels take them
  DType result = DType::kF32;           // of the run's result in memory
};

// One way to compute such a run, by one kernel or several.
struct OwnChoice {
  std::string own;                  // KernelDecision::own of each kernel
  std::vector<Prediction> kernels;  // in the order in which they run
};

// Why a kernel of a family is not one with another kernel: of the same family, with one that reads
// its results, with one whose results it reads. "": the two are joined and looked at.
struct ApartReasons {
  absl::string_view alike, reader, writer;
};

// Ops of a body but inputs, scalars, casts and views.
int CountComputed(const Chain& body);

// One object for each family, in static storage, without state. Specs and codes that a family is
// asked about are its own. src/plan/README.md says what moves in with another one.
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;

  // ---- Describe
  virtual absl::string_view name() const = 0;  // "product"
  // Part of digests and records: never used again for another family.
  virtual uint8_t number() const = 0;
  // Whether its kernels come with the library and are not compiled (src/standin).
  virtual bool IsStandIn() const { return false; }
  // One line each: the problem and the schedule.
  virtual std::string ProblemText(const KernelSpec& spec) const = 0;
  virtual std::string ScheduleText(const KernelSpec& spec) const = 0;
  // Whether it computes more than one op of the chain, casts and views not counted.
  virtual bool TakesSeveralOps(const KernelSpec&) const { return true; }
  // Those of the caller and of the workspace that the kernel reads, and those that it writes, with
  // their bytes in a plan for `bucket` rows.
  virtual std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const = 0;
  // All that is told of the kernel. Without an answer of the family: its lines, buffers and time.
  virtual KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket,
                                     const DeviceModel& model, const BufferNames& names) const;
  // Adds the family's fields of a kernel in a plan's JSON (docs/plan-formats.md).
  virtual void WriteJson(const KernelSpec&, nlohmann::ordered_json*) const {}
  // The ops that the kernel computes, where they are a graph: each is told of. Else null.
  virtual const Chain* BodyOf(const KernelSpec&) const { return nullptr; }
  // By op of the body, through what its result reaches the ops that read it.
  virtual absl::StatusOr<std::vector<Composition>> Compositions(const KernelSpec&) const {
    return std::vector<Composition>();
  }
  virtual ApartReasons WhyApart() const {
    return {"kernels that are never one", "a kernel that takes no other ops along",
            "a kernel that takes no other ops along"};
  }

  // ---- What is equal
  // Whether what only this family has is equal; operator== compares the rest.
  virtual bool Equal(const KernelSpec& a, const KernelSpec& b) const = 0;
  // Versioned bytes of the schedule, with its grid.
  virtual std::string ScheduleBytes(const KernelSpec& spec) const = 0;
  // What PlanDigest covers besides schedule and flags.
  virtual void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const = 0;
  // What, with the schedule, the source is made from. Only for keys inside of a process.
  virtual void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const = 0;
  // What a tuning set's identity of the kernel has besides schedule, source and recipe.
  virtual std::string IdentityText(const KernelSpec&) const { return ""; }

  // ---- Rows
  virtual bool UsesM(const KernelSpec& spec) const = 0;
  // The most rows of a launch in a plan for `bucket` rows.
  virtual int64_t Rows(const KernelSpec& spec, int64_t bucket) const = 0;
  // The most rows that a kernel takes in one launch where it is alone in its plan and the plan is
  // for the largest bucket; 0: that bucket.
  virtual int64_t RowsAtOnce(const KernelSpec&) const { return 0; }
  // Whether pieces of the rows, taken one after another, would give other results.
  virtual bool MixesRows(const KernelSpec&) const { return false; }
  // A line for each product, or one: equal where a row's bits are equal (plan.h).
  virtual std::string RowOrder(const KernelSpec& spec) const = 0;
  // OK if rows of the kernel, which is batch-invariant, have the order that all buckets share; or
  // why not. A family whose order planning chooses says OK and ChoosesRowOrder: it must be that of
  // the plan for kRowOrderBucket rows (src/fusion/assembly.cc).
  virtual absl::Status CheckRowOrder(const KernelSpec& spec) const = 0;
  virtual bool ChoosesRowOrder() const { return false; }

  // ---- Ranks
  // GPUs of the group over which the kernel sums; 1: it needs no group.
  virtual int Ranks(const KernelSpec&) const { return 1; }
  // Of a run that sums over ranks: its choice where the kernel before it, which computes the first
  // operand, pushes that to the other ranks (Schedule::pushes), in `turns` turns; or, if they are
  // 0, pushes its first `columns` columns. And whether a choice is such a one, and of how many
  // columns; 0: of all.
  virtual absl::StatusOr<OwnChoice> RankPushed(const OwnRun& run, int64_t turns, int64_t columns,
                                               int64_t bucket, const DeviceModel& model) const {
    return absl::UnimplementedError(name());
  }
  virtual bool TakesPushed(absl::string_view choice) const { return false; }
  virtual int64_t PushedColumns(absl::string_view choice) const { return 0; }
  // The most rows of a launch whose messages fit into a group's slots of `slot_bytes` bytes.
  virtual int64_t RowsOfSlots(const KernelSpec&, uint64_t slot_bytes) const { return kMaxExtent; }

  // ---- Check
  // FAILED_PRECONDITION or INVALID_ARGUMENT naming the field, its value and the bound: of the chip
  // (shared memory, threads, clusters, resident blocks), or of code generation for this problem.
  // Every schedule of the search passes. `code` is that of `spec`, whose operands need no places
  // yet. RESOURCE_EXHAUSTED once `budget`, which may be null, is spent.
  virtual absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                             const DeviceModel& model,
                                             StitchBudget* budget) const = 0;
  // Whether a result is left to other kernels in the workspace.
  virtual bool LeavesInWorkspace(const KernelSpec& spec) const = 0;

  // ---- Predict
  // Computed anew for a plan of `bucket` rows, as if no kernel stood before this one.
  // FAILED_PRECONDITION where the schedule cannot compute the body.
  virtual absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                             const DeviceModel& model) const = 0;
  // Whether tuning should measure what planning by prediction may leave out: of this kernel; of
  // every kernel of the family, because its predictions are not sure.
  virtual bool IsForTuning(const KernelSpec&) const { return false; }
  virtual bool MeasuresAll() const { return false; }
  // A kernel that IsSlowBehindCodes takes longer behind one that MultipliesCodes than alone.
  virtual bool MultipliesCodes(const KernelSpec&) const { return false; }
  virtual bool IsSlowBehindCodes() const { return false; }

  // ---- Code
  // INVALID_ARGUMENT or FAILED_PRECONDITION for a spec that says no kernel.
  virtual absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const = 0;
  // Of a spec that nobody has checked: refuses what Source and Recipe cannot take.
  virtual absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                                 const DeviceModel& model) const {
    return Code(spec);
  }
  // Source and file name of `request`, and what of a compiled kernel is refused.
  virtual absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                                    CompileRequest* request) const = 0;
  virtual std::string Entry(const KernelCode& code) const = 0;
  // The device library's headers that the source includes: "kernels/product.cuh" first.
  virtual std::vector<std::string> Headers(const KernelSpec& spec) const = 0;
  // KernelCode's bytes: their first word, 2 + number() of families from number 2 on, and what is
  // behind it; its schedule's bytes; one line of each.
  virtual uint32_t CodeWord(const KernelCode&) const { return 2u + number(); }
  virtual void WriteCode(const KernelCode& code, ByteWriter& w) const = 0;
  virtual std::string CodeScheduleBytes(const KernelCode& code) const = 0;
  virtual std::string CodeProblemText(const KernelCode& code) const = 0;
  virtual std::string CodeScheduleText(const KernelCode& code) const = 0;
  // From those bytes. DATA_LOSS on damage; trusts nothing.
  virtual absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                                KernelCode* code) const = 0;
  // The ops that a code computes, where they are a graph; else null.
  virtual const Chain* BodyOf(const KernelCode&) const { return nullptr; }

  // ---- Bind
  // The launch: tensor maps, arguments, grid. INVALID_ARGUMENT or FAILED_PRECONDITION naming the
  // misfit. `code` is that of `spec`.
  virtual absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                              const KernelCode& code) const = 0;

  // ---- Decide
  // What was chosen for the kernel: fields of `decision` besides its ops and times.
  virtual void Decide(const KernelSpec& spec, KernelDecision* decision) const = 0;
  // Whether several kernels of an unfused plan are joined in this one.
  virtual bool IsJoined(const KernelDecision&) const { return false; }
  // The choice as flags within kChoiceFlags and bytes, and back: DATA_LOSS unless its fields are
  // within their bounds. `decision` has its ops already.
  virtual uint32_t ChoiceFlags(const KernelDecision&) const { return 0; }
  virtual void WriteChoice(const KernelDecision& decision, ByteWriter& w) const = 0;
  virtual absl::Status ReadChoice(uint32_t flags, ByteReader& r,
                                  KernelDecision* decision) const = 0;
  // Whether kernels of the same ops are compiled from one source, as far as decisions tell: grids
  // are no part of it.
  virtual bool SameSource(const KernelDecision& a, const KernelDecision& b) const = 0;

  // ---- Runs of the family's own. Families without such runs, as of products, leave these out.
  // For notes of plans: "grouped gated pair + silu".
  virtual std::string OwnText(const OwnRun&) const { return std::string(name()); }
  // Legal choices, one or more, the fastest by prediction first, at most options.top_k. `replaces`:
  // a compiler refused kernels of the run; then all, also what is offered only where others are
  // refused. FAILED_PRECONDITION where none is legal.
  virtual absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                         const DeviceModel& model,
                                                         const SearchOptions& options,
                                                         bool replaces) const {
    return absl::UnimplementedError(name());
  }
  // How many kernels a choice has, of which all have these bytes.
  virtual int KernelsOf(absl::string_view choice) const { return 1; }
  // Bytes of the workspace for the choice's kernels alone.
  virtual uint64_t ScratchOf(const OwnRun&, absl::string_view choice, int64_t bucket) const {
    return 0;
  }
  // Kernel `kernel` of a choice, with `places` of the run's operands, its result, its auxiliary
  // results and the scratch, where there is some; without any to be checked before they are known.
  // FAILED_PRECONDITION, INVALID_ARGUMENT or DATA_LOSS where the choice is none of the run.
  virtual absl::StatusOr<KernelSpec> BindOwn(const OwnRun& run, absl::string_view choice,
                                             int kernel,
                                             const std::vector<BufferPlace>& places) const {
    return absl::UnimplementedError(name());
  }
};

// The families whose kernels records hold: the one place that lists them.
const std::vector<const KernelFamily*>& Families();
// The one of this number, or null.
const KernelFamily* FamilyOfNumber(uint32_t number);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_FAMILY_H_
