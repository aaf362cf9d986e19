// Plan: an ordered list of kernels, their buffers and their predicted cost. Immutable once made.
#ifndef SINTER_SRC_PLAN_PLAN_H_
#define SINTER_SRC_PLAN_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/fields.h"
#include "src/model/search.h"
#include "src/product/operand.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"
#include "src/stitch/spec.h"

namespace sinter {

class KernelFamily;  // family.h
const KernelFamily& ProductFamily();
const KernelFamily& StitchFamily();
absl::string_view NameOf(const KernelFamily* family);  // "product"

// A value of a type that one family of kernels knows: what a kernel computes and how, what of it is
// compiled, or what a run of ops computes. Immutable once made; any thread may read it.
struct KernelBody {
  virtual ~KernelBody() = default;
};
using KernelBodyPtr = std::shared_ptr<const KernelBody>;

template <typename T>
struct BodyWith final : KernelBody {
  explicit BodyWith(T of) : value(std::move(of)) {}
  T value;
};
template <typename T>
KernelBodyPtr MakeBody(T value) {
  return std::make_shared<BodyWith<T>>(std::move(value));
}
// The value of a body; null if there is no body, or if its value has another type.
template <typename T>
const T* BodyAs(const KernelBodyPtr& body) {
  const auto* with = dynamic_cast<const BodyWith<T>*>(body.get());
  return with == nullptr ? nullptr : &with->value;
}

// One kernel of a plan as planning makes it: code and binding (kernel_code.h) together.
struct KernelSpec {
  const KernelFamily* family = &ProductFamily();  // answers what is asked of the kernel; static
  // What the kernel computes, its schedule and where its operands lie. The family knows its type:
  // ProductBody, StitchSpec or OwnSpec (own_family.h).
  KernelBodyPtr body;
  uint64_t workspace_flags_offset = 0;  // ready flags, or the grid barrier
  // Compiled without fused multiply-adds, and with the row order that plans of all buckets share
  // (RowOrder).
  bool batch_invariant = false;

  bool operator==(const KernelSpec& o) const;
};

// The body of a kernel of products.
struct ProductBody {
  ProductSequence sequence;  // one or two products
  Schedule schedule;
  std::vector<OperandBinding> operands;
  bool constant_weights = true;  // weights and biases never change: only then may they be loaded
                                 // before the predecessor has ended
  bool constant_rows = false;    // the kernel has sequence.rows() rows, whatever the launch's m
};
inline bool HasProducts(const KernelSpec& spec) {
  return BodyAs<ProductBody>(spec.body) != nullptr;
}
// Without products for any other kernel.
const ProductBody& ProductOf(const KernelSpec& spec);
// The body of a stitched kernel; null for any other kernel.
inline const StitchSpec* StitchOf(const KernelSpec& spec) { return BodyAs<StitchSpec>(spec.body); }

// One line each, for any family: the problem and the schedule.
std::string ProblemText(const KernelSpec& spec);
std::string ScheduleText(const KernelSpec& spec);
std::string BodyText(const Chain& body);  // "8 ops, 2 inputs, 1 outputs"
// Versioned bytes of the schedule, with its grid.
std::string ScheduleBytes(const KernelSpec& spec);

// Which of a chain's ops a kernel computes. With the chain and its schedule that is all that a
// kernel's spec is made from (src/fusion/assembly.h).
struct KernelOps {
  // For a stitched kernel: the chain's values that it computes and no other kernel does, ascending.
  // Views and other ops that every reader computes for itself are not listed. For a kernel of
  // products: the result of its run.
  std::vector<ValueId> values;
  // A stitched kernel reduces middle axes as rows of a transpose, and transposes as they stand.
  // Else it reduces middle axes in their memory order, and reads the operand of the transpose
  // (straight_reductions.h).
  bool turned = false;
  int first = 0;  // of a run's products, the kernel's first
  SINTER_FIELDS(KernelOps, values, turned, first);
};

// What products take that may as well be another kernel's, where nobody else reads it.
struct Absorbed {
  bool norms = false;  // a factor that is the norm of a product's own rows (ProductEpilogue::norm)
  bool groups = true;  // the quantiser of its result by groups of 128 columns
  // Only what the library's own kernels have a form of, where they can. Such plans are not
  // recorded.
  bool stand_ins = false;
  bool attention = false;  // kernels of attention take batched products with the ops in between
  bool four_bits = false;  // products of few rows unpack their weights of four bits
  bool mma = false;        // kernels of mma.sync take all products, for chips without wgmma
  SINTER_FIELDS(Absorbed, norms, groups, stand_ins, attention, four_bits, mma);
};

struct PlannedKernel {
  KernelSpec spec;
  KernelOps ops;
  Prediction prediction;
  double measured_us = 0;  // 0 unless tuned
  Digest kernel_digest;    // of the kernel key; zero until the engine knows the toolchain
};

// A plan that was considered and not chosen, for `explain`.
struct Candidate {
  std::string name;  // NameInList: for people
  double predicted_us = 0;
  std::string why_not;
  Digest plan = {};  // PlanDigest
  SINTER_FIELDS(Candidate, name, predicted_us, why_not, plan);
};

// The names of the choices of the plain plan and of others (SINTER_CHOICE_UNFUSED, --choice
// unfused).
inline absl::string_view PlanName(bool fused) { return fused ? "fused" : "unfused"; }

struct Plan {
  bool fused = false;  // false: the plain plan, one kernel for each product with what it absorbs,
                       // and one for each other op
  int64_t bucket = 0;
  Absorbed absorbed;
  std::vector<PlannedKernel> kernels;
  uint64_t workspace_bytes = 0;
  std::string note;  // why products are apart, or why another variant was taken
  std::vector<Candidate> runners_up;
  Digest planned_digest;  // PlanDigest when planning was done with it; zero: nobody planned it

  // The choice by which it is got, for logs and tuning sets.
  absl::string_view name() const { return IsStandIn() ? "stand-in" : PlanName(fused); }
  // What it is: "fused", one kernel; "unfused", each computes one op; "partly fused"; "stand-in".
  absl::string_view Fusion() const;
  double PredictedUs() const;  // PredictedUsOf(kernels)
  // Whether all kernels are: a row's bits then do not depend on the number of rows.
  bool IsBatchInvariant() const;
  // Whether its kernels are stand-ins: all, or none.
  bool IsStandIn() const;
  // Whether any kernel's rows depend on M: false for a chain of constant extents.
  bool UsesM() const;
  std::string ToText() const;  // a line a kernel: for logs and failed tests
  Digest PlanDigest() const;   // of the executed specs, without times and runners-up
};
int64_t ComputedPlanDigests();  // by PlanDigest in this process, for tests

// What a list of candidates calls a plan: "1 kernel: [grid-exchange bm128 ..]"; equal schedules
// once.
std::string NameInList(const Plan& plan);

// Microseconds of all kernels of a Plan or of Decisions: predicted; or measured, 0 unless each was
// measured.
template <typename Kernels>
double PredictedUsOf(const Kernels& kernels) {
  double total = 0;
  for (const auto& kernel : kernels) total += kernel.prediction.total_us;
  return total;
}
template <typename Kernels>
double MeasuredUsOf(const Kernels& kernels) {
  double total = 0;
  for (const auto& kernel : kernels) {
    if (!(kernel.measured_us > 0)) return 0;
    total += kernel.measured_us;
  }
  return total;
}
inline double MeasuredUs(const Plan& plan) { return MeasuredUsOf(plan.kernels); }

// RowOrder: the part of a kernel that decides the bits of a row of its results. Kernels with equal
// row orders give equal bits for equal rows, whatever their other rows, buckets and grids.
//
// It relies on --fmad=false (KernelSpec::batch_invariant): without contraction an f32 operation of
// the source is one rounded operation, in any kernel and place. The device library then computes an
// element of a product
//   - as one sequence of wgmma steps of 16 along K, from 0, into one accumulator. Tile extents,
//     stages, block_k and pairs of blocks move loads, not steps; steps beyond K multiply zeros;
//   - with split_k > 1 as one such sequence for each range of K, added in the order of the ranges;
//     with ranges > 1 the second product in the same way by ranges of N;
//   - through one epilogue in f32, and one rounding where it is stored: for the next product of the
//     kernel, for the next kernel, or as the result.
// The PTX ISA defines an element of wgmma by its row of A, its column of B and its accumulator, not
// by N or its position. It does not say that swapped operands give the same bits, so they are an
// order of their own.

// One line for each product of the kernel, equal to the line of the single product: extents and
// epilogue, steps of K, ranges of K or of N, order of the parts, swapped operands. A stitched
// kernel has one line: its body, and its schedule without the grid (every unit is computed by the
// same text). Equal where a row's bits are equal. Not versioned, so not for storage.
std::string RowOrder(const KernelSpec& spec);
std::string RowOrderOfProducts(const ProductSequence& sequence, const Schedule& schedule);
// The lines of all kernels, in order: equal for plans that cut a sequence of products differently.
std::string RowOrder(const Plan& plan);

// Decisions: what planning decided of a chain: which ops share a kernel, and how each kernel runs.
// Assembly (src/fusion/assembly.h) makes the plan of a chain from them. They name no buffer, no
// offset and no kernel's key, so that damaged ones can choose badly and nothing else.

struct KernelDecision {
  const KernelFamily* family = &StitchFamily();
  KernelOps ops;
  int products = 0;   // of products: how many of its run
  Schedule schedule;  // of products
  // The schedule of a stitched kernel; for a packed one, the common launch and the parts.
  StitchSchedule stitch;
  std::vector<StitchPart> parts;
  std::string own;  // of any other family: its choice as bytes
  Prediction prediction;
  double measured_us = 0;  // 0 unless tuned

  // Whether several kernels of an unfused plan are joined in this one.
  bool IsJoined() const { return products > 1 || !parts.empty(); }
};

struct Decisions {
  bool fused = false;
  bool batch_invariant = false;
  int64_t bucket = 0;
  Absorbed absorbed;
  std::vector<KernelDecision> kernels;  // in the order in which they run
  std::string note;                     // Plan::note
  std::vector<Candidate> runners_up;    // Plan::runners_up
};

// Decisions of a plan that needs a compiler: it has no stand-ins.
Decisions DecisionsOf(const Plan& plan);

// DATA_LOSS of the bytes of decisions.
absl::Status LostDecision(absl::string_view what);

std::string EncodeDecisions(const Decisions& decisions);
// Trusts nothing: DATA_LOSS unless `bytes` encode decisions whose fields are within their bounds.
// Assembly checks whether they are decisions of a chain.
absl::StatusOr<Decisions> DecodeDecisions(absl::string_view bytes);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PLAN_H_
