// AttentionFamily: attention in one kernel (src/attention). Each answer is declared and given once.
#ifndef SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
#define SINTER_SRC_PLAN_ATTENTION_FAMILY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/attention/source.h"
#include "src/base/status.h"
#include "src/plan/family.h"

namespace sinter {

const KernelFamily& AttentionFamily();

// KernelSpec::own of the family: operands in order are q, k, v, the terms, the result.
struct AttentionSpec {
  AttentionCode code;
  std::vector<AttentionOperand> operands;
};

inline const AttentionSpec& AttentionOf(const KernelSpec& spec) {
  return *static_cast<const AttentionSpec*>(spec.own.get());
}

class AttentionKernels : public KernelFamily {
 public:
  absl::string_view name() const override { return "attention"; }
  uint8_t number() const override { return 2; }
  std::string ProblemText(const KernelSpec& spec) const override {
    return ProblemOf(spec).ToString();
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return ScheduleOf(spec).ToString();
  }

  // attention_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    if (a.own == nullptr || b.own == nullptr) return a.own == b.own;
    return ProblemOf(a) == ProblemOf(b) && ScheduleOf(a) == ScheduleOf(b) &&
           AttentionOf(a).operands == AttentionOf(b).operands;
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return ScheduleOf(spec).Canonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(ProblemOf(spec).Canonical());
    for (const AttentionOperand& operand : AttentionOf(spec).operands) {
      w.I64(operand.buffer);
      w.U64(operand.offset_bytes);
    }
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(ProblemOf(spec).Canonical());
  }

  // M counts batches: a launch's rows are those that it says.
  bool UsesM(const KernelSpec& spec) const override { return ProblemOf(spec).of_m; }
  int64_t Rows(const KernelSpec&, int64_t bucket) const override { return bucket; }
  // Which keys share a tile, and the order of tiles, decide a row's bits; and, where a value that
  // is not finite belongs to a hidden key, whether the row's item looks at that key's tile.
  std::string RowOrder(const KernelSpec& spec) const override {
    const AttentionSchedule& s = ScheduleOf(spec);
    return absl::StrCat("attention ", ProblemOf(spec).ToString(), " keys", s.block_keys,
                        ProblemOf(spec).causal ? absl::StrCat(" rows", s.BlockRows()) : "", "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }
  bool ChoosesRowOrder() const override { return true; }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckAttention(ProblemOf(spec), ScheduleOf(spec), model));
    return KernelLaunch();
  }
  bool LeavesInWorkspace(const KernelSpec& spec) const override {
    return AttentionOf(spec).operands.back().buffer == kWorkspaceBuffer;
  }
  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    SINTER_RETURN_IF_ERROR(CheckAttention(ProblemOf(spec), ScheduleOf(spec), model));
    return PredictAttention(ProblemOf(spec), ScheduleOf(spec), bucket, model);
  }
  bool MeasuresAll() const override { return true; }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (spec.own == nullptr)
      return absl::InvalidArgumentError("a kernel of attention has no problem");
    SINTER_RETURN_IF_ERROR(ProblemOf(spec).Check());
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    auto own = std::make_shared<AttentionCode>(AttentionOf(spec).code);
    own->schedule.grid = 1;
    code.own = std::move(own);
    return code;
  }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override {
    SINTER_ASSIGN_OR_RETURN(KernelCode code, Code(spec));
    SINTER_RETURN_IF_ERROR(CheckAttention(ProblemOf(spec), ScheduleOf(spec), model));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    request->source = AttentionSource(CodeOfAttention(code));
    request->name = absl::StrCat(kAttentionEntry, ".cu");
    request->least_nvrtc = kLeastNvrtc;
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode&) const override { return kAttentionEntry; }
  std::vector<std::string> Headers(const KernelSpec&) const override { return {kAttentionHeader}; }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    w.Bytes(CodeOfAttention(code).problem.Canonical());
  }
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return CodeOfAttention(code).schedule.Canonical();
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return CodeOfAttention(code).problem.ToString();
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return CodeOfAttention(code).schedule.ToString();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    auto own = std::make_shared<AttentionCode>();
    SINTER_ASSIGN_OR_RETURN(own->problem, AttentionProblem::FromCanonical(r.Bytes()));
    SINTER_ASSIGN_OR_RETURN(own->schedule, AttentionSchedule::FromCanonical(schedule));
    code->own = std::move(own);
    return absl::OkStatus();
  }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return AttentionRecipe(CodeOfAttention(code), AttentionOf(spec).operands,
                           ScheduleOf(spec).grid);
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->own = ScheduleBytes(spec);
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.own);
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    if (flags != 0 || decision->ops.turned || decision->ops.first != 0) {
      return LostDecision("flags of a kernel of attention");
    }
    decision->own = std::string(r.Bytes());
    return AttentionSchedule::FromCanonical(decision->own).status();
  }
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override {
    absl::StatusOr<AttentionSchedule> x = AttentionSchedule::FromCanonical(a.own);
    absl::StatusOr<AttentionSchedule> y = AttentionSchedule::FromCanonical(b.own);
    if (!x.ok() || !y.ok()) return false;
    x->grid = y->grid = 1;
    return *x == *y;
  }

 private:
  static constexpr int kLeastNvrtc = 1209;  // as of other kernels that multiply 16-bit elements

  static const AttentionProblem& ProblemOf(const KernelSpec& spec) {
    return AttentionOf(spec).code.problem;
  }
  static const AttentionSchedule& ScheduleOf(const KernelSpec& spec) {
    return AttentionOf(spec).code.schedule;
  }
  static const AttentionCode& CodeOfAttention(const KernelCode& code) {
    return *static_cast<const AttentionCode*>(code.own.get());
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
