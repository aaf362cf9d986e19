// StitchFamily: memory-intensive kernels. Each answer is declared and given once, here; what is
// told of a kernel is in stitch_description.cc.
#ifndef SINTER_SRC_PLAN_STITCH_FAMILY_H_
#define SINTER_SRC_PLAN_STITCH_FAMILY_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/plan/family.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/spec.h"

namespace sinter {

constexpr uint32_t kPackedChoice = 2;  // a choice's flag: it has parts

// Of a spec: what its launch needs besides its code.
inline StitchBinding StitchBindingOf(const KernelSpec& spec) {
  const StitchSpec& stitch = *spec.stitch;
  return {stitch.operands, stitch.schedule.grid, spec.workspace_flags_offset,
          stitch.scratch_offset};
}

// Hbm and l2, one after the other; issue and latency where `times` are known; then "together", the
// time of these as they overlap, and "fixed". The last two add up to the prediction.
std::vector<LevelCost> StitchLevels(const PlannedKernel& kernel, const StitchTerms& times,
                                    const DeviceModel& model);

class StitchKernels : public KernelFamily {
 public:
  absl::string_view name() const override { return "stitch"; }
  uint8_t number() const override { return 1; }
  std::string ProblemText(const KernelSpec& spec) const override {
    return BodyText(spec.stitch->body);
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return spec.stitch->ScheduleText();
  }
  bool TakesSeveralOps(const KernelSpec& spec) const override {
    return CountComputed(spec.stitch->body) > 1;
  }

  // stitch_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  absl::StatusOr<std::vector<Composition>> Compositions(const KernelSpec& spec) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;
  const Chain* BodyOf(const KernelSpec& spec) const override { return &spec.stitch->body; }
  ApartReasons WhyApart() const override { return {}; }

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    if (a.stitch == nullptr || b.stitch == nullptr) return a.stitch == b.stitch;
    return *a.stitch == *b.stitch;
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return spec.stitch->ScheduleCanonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(spec.stitch->body.CanonicalBytes());
    w.U64(spec.stitch->scratch_offset);
    for (const BufferPlace& operand : spec.stitch->operands) w(operand);
  }
  // Not the kernel's code: that needs its program.
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    w.Raw(spec.stitch->body.CanonicalDigest().View());
  }

  bool UsesM(const KernelSpec& spec) const override { return spec.stitch->body.UsesM(); }
  int64_t Rows(const KernelSpec&, int64_t bucket) const override { return bucket; }
  int64_t RowsAtOnce(const KernelSpec&) const override { return kMaxExtent; }
  bool MixesRows(const KernelSpec& spec) const override {
    const StitchSpec& stitch = *spec.stitch;
    const Chain& body = stitch.body;
    if (CountsRows(body) || std::any_of(body.ops().begin(), body.ops().end(),
                                        [&](const Op& op) { return MixesRowsByIds(body, op); })) {
      return true;
    }
    const absl::StatusOr<StitchProgram> program =
        MakeStitchProgram(stitch.body, stitch.schedule.owner, stitch.schedule.handed);
    return program.ok() && program->units_symbolic && program->phases.size() > 1;
  }
  // All blocks compute every unit by the same text, so the grid is left out.
  std::string RowOrder(const KernelSpec& spec) const override {
    StitchSpec any_grid = *spec.stitch;
    any_grid.schedule.grid = any_grid.schedule.LaunchCluster();
    return absl::StrCat("stitch ", any_grid.body.CanonicalDigest().Hex(), " ",
                        absl::BytesToHexString(any_grid.ScheduleCanonical()), "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }
  bool ChoosesRowOrder() const override { return true; }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                     const DeviceModel& model,
                                     StitchBudget* budget) const override {
    SINTER_ASSIGN_OR_RETURN(const StitchLaunch launch,
                            CheckStitchLaunch(*spec.stitch, *code.stitch, model, budget));
    return KernelLaunch{launch.cooperative, launch.scratch_bytes};
  }
  bool IsJoined(const KernelDecision& decision) const override { return !decision.parts.empty(); }
  bool LeavesInWorkspace(const KernelSpec& spec) const override {
    const StitchSpec& stitch = *spec.stitch;
    return std::any_of(stitch.operands.begin() + stitch.body.num_inputs(), stitch.operands.end(),
                       [](const BufferPlace& result) { return result.buffer == kWorkspaceBuffer; });
  }

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    return AccountOf(*spec.stitch, bucket, model, nullptr);
  }
  bool IsForTuning(const KernelSpec&) const override { return true; }
  bool MeasuresAll() const override { return true; }
  bool IsSlowBehindCodes() const override { return true; }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (spec.stitch == nullptr) return absl::InvalidArgumentError("a stitch kernel has no body");
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    SINTER_ASSIGN_OR_RETURN(StitchCode stitch, CodeOf(spec.stitch));
    code.stitch = std::make_shared<const StitchCode>(std::move(stitch));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    const bool packed = !code.stitch->parts.empty();
    SINTER_ASSIGN_OR_RETURN(request->source,
                            packed ? PackedSource(*code.stitch) : StitchSource(*code.stitch));
    request->name = absl::StrCat(kStitchEntry, ".cu");
    request->most_spill_bytes = kMostSpillBytes;
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode&) const override { return kStitchEntry; }
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    return StitchHeaders(spec.stitch->body);
  }
  uint32_t CodeWord(const KernelCode&) const override { return kStitchWord; }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    w.Bytes(code.stitch->body->CanonicalBytes());
    w.U8(!code.stitch->parts.empty());
  }
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return code.stitch->ScheduleBytes();
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return BodyText(*code.stitch->body);
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return code.stitch->Text();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    SINTER_ASSIGN_OR_RETURN(Chain body, ChainFromCanonicalBytes(r.Bytes()));
    auto stitch = std::make_shared<StitchCode>();
    stitch->body = std::make_shared<const Chain>(std::move(body));
    const uint8_t packed = r.U8();
    if (packed > 1) return LostCode("packed");
    ByteReader s(schedule);
    SINTER_ASSIGN_OR_RETURN(stitch->schedule, StitchSchedule::FromCanonical(s.Bytes()));
    if (packed == 1) {
      SINTER_ASSIGN_OR_RETURN(stitch->parts, ReadParts(s));
    }
    SINTER_RETURN_IF_ERROR(s.Finish("kernel code"));
    code->stitch = std::move(stitch);
    return absl::OkStatus();
  }
  const Chain* BodyOf(const KernelCode& code) const override { return code.stitch->body.get(); }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return StitchRecipe(*code.stitch, StitchBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->stitch = spec.stitch->schedule;
    decision->parts = spec.stitch->parts;
  }
  uint32_t ChoiceFlags(const KernelDecision& decision) const override {
    return decision.parts.empty() ? 0 : kPackedChoice;
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.stitch.Canonical());
    if (!decision.parts.empty()) WriteParts(decision.parts, w);
  }
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override {
    if (decision->ops.first != 0) return LostDecision("a first product of a stitched kernel");
    SINTER_ASSIGN_OR_RETURN(decision->stitch, StitchSchedule::FromCanonical(r.Bytes()));
    if ((flags & kPackedChoice) == 0) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(decision->parts, ReadParts(r));
    return decision->parts.empty() ? LostDecision("a packed kernel without parts")
                                   : absl::OkStatus();
  }
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override {
    StitchSchedule x = a.stitch, y = b.stitch;
    x.grid = y.grid = 1;
    return x == y && a.parts == b.parts;
  }

 private:
  // A memory-bound kernel with few register spills loses less than the kernels that would replace
  // it.
  static constexpr int kMostSpillBytes = 1024;

  // Whether it numbers rows: a piece's rows would begin at 0 again.
  static bool CountsRows(const Chain& body) {
    return std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
      if (op.kind == OpKind::kRandom) return SymbolicAxis(op.type.dims) >= 0;
      return op.kind == OpKind::kIota && op.type.dims[static_cast<size_t>(op.axis)].symbolic;
    });
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_STITCH_FAMILY_H_
