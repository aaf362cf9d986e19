// StitchFamily: memory-intensive kernels. Each answer is declared and given once, here; the
// description of a kernel is in stitch_description.cc.
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

// The binding of a spec: the data that its launch needs besides its code.
inline StitchBinding StitchBindingOf(const KernelSpec& spec) {
  const StitchSpec& stitch = *StitchOf(spec);
  return {stitch.operands, stitch.schedule.grid, spec.workspace_flags_offset,
          stitch.scratch_offset};
}

// Hbm and l2, one after the other; issue and latency where `times` are known; then "together", the
// time of these as they overlap, and "fixed". The last two add up to the prediction.
std::vector<LevelCost> StitchLevels(const PlannedKernel& kernel, const StitchTerms& times,
                                    const DeviceModel& model);

// By op of the body, through what its result reaches the ops that read it.
absl::StatusOr<std::vector<Composition>> CompositionsOf(const StitchSpec& spec);

class StitchKernels : public KernelFamily {
 public:
  static const StitchCode& Of(const KernelCode& code) { return *BodyAs<StitchCode>(code.body); }

  explicit StitchKernels(bool is_stand_in = false)
      : KernelFamily({"stitch", 1, {"", "", ""}, true, true, is_stand_in, true}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    const Chain& body = StitchOf(spec)->body;
    return {CountComputed(body) > 1, body.UsesM(), 1, true};
  }
  KernelTexts TextsOf(const KernelSpec& spec) const override {
    return {BodyText(StitchOf(spec)->body), StitchOf(spec)->ScheduleText(), ""};
  }

  // stitch_description.cc
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override;
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override;
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override;

  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return StitchOf(spec)->ScheduleCanonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    w.Bytes(StitchOf(spec)->body.CanonicalBytes());
    w.U64(StitchOf(spec)->scratch_offset);
    for (const BufferPlace& operand : StitchOf(spec)->operands) w(operand);
  }
  // Not the kernel's code: that needs its program.
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    w.Raw(StitchOf(spec)->body.CanonicalDigest().View());
  }

  KernelRows RowsOf(const KernelSpec&, int64_t bucket) const override {
    return {bucket, kMaxExtent};
  }
  bool MixesRows(const KernelSpec& spec) const override {
    const StitchSpec& stitch = *StitchOf(spec);
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
    StitchSpec any_grid = *StitchOf(spec);
    any_grid.schedule.grid = any_grid.schedule.cluster;
    return absl::StrCat("stitch ", any_grid.body.CanonicalDigest().Hex(), " ",
                        absl::BytesToHexString(any_grid.ScheduleCanonical()), "\n");
  }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                     const DeviceModel& model,
                                     StitchBudget* budget) const override {
    SINTER_ASSIGN_OR_RETURN(const StitchLaunch launch,
                            CheckStitchLaunch(*StitchOf(spec), Of(code), model, budget));
    return KernelLaunch{launch.cooperative, launch.scratch_bytes};
  }
  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    return AccountOf(*StitchOf(spec), bucket, model, nullptr);
  }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    const StitchSpec* const stitch = StitchOf(spec);
    if (stitch == nullptr) return absl::InvalidArgumentError("a stitch kernel has no body");
    KernelCode code;
    code.family = spec.family;
    code.batch_invariant = spec.batch_invariant;
    SINTER_ASSIGN_OR_RETURN(StitchCode own,
                            CodeOf(std::shared_ptr<const StitchSpec>(spec.body, stitch)));
    code.body = MakeBody(std::move(own));
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    const bool packed = !Of(code).parts.empty();
    SINTER_ASSIGN_OR_RETURN(request->source,
                            packed ? PackedSource(Of(code)) : StitchSource(Of(code)));
    request->most_spill_bytes = kMostSpillBytes;
    return absl::OkStatus();
  }
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    return StitchHeaders(StitchOf(spec)->body);
  }
  CodeBytes BytesOfCode(const KernelCode& code) const override {
    ByteWriter w;
    w.Bytes(Of(code).body->CanonicalBytes());
    w.U8(!Of(code).parts.empty());
    return {kStitchWord, w.Take(), Of(code).ScheduleBytes()};
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {BodyText(*Of(code).body), Of(code).Text(), kStitchEntry};
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule,
                        KernelCode* code) const override {
    SINTER_ASSIGN_OR_RETURN(Chain body, ChainFromCanonicalBytes(r.Bytes()));
    StitchCode stitch;
    stitch.body = std::make_shared<const Chain>(std::move(body));
    const uint8_t packed = r.U8();
    if (packed > 1) return LostCode("packed");
    ByteReader s(schedule);
    SINTER_ASSIGN_OR_RETURN(stitch.schedule, StitchSchedule::FromCanonical(s.Bytes()));
    if (packed == 1) {
      SINTER_ASSIGN_OR_RETURN(stitch.parts, ReadParts(s));
    }
    SINTER_RETURN_IF_ERROR(s.Finish("kernel code"));
    code->body = MakeBody(std::move(stitch));
    return absl::OkStatus();
  }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return StitchRecipe(Of(code), StitchBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->stitch = StitchOf(spec)->schedule;
    decision->parts = StitchOf(spec)->parts;
  }
  uint32_t WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.stitch.Canonical());
    if (decision.parts.empty()) return 0;
    WriteParts(decision.parts, w);
    return kPackedChoice;
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
    return std::any_of(body.ops().begin(), body.ops().end(), [&body](const Op& op) {
      if (op.kind == OpKind::kRandom) {  // a row with a seed of its own counts from 0
        return SymbolicAxis(op.type.dims) >= LeadingRankOf(body, op);
      }
      return op.kind == OpKind::kIota && op.type.dims[static_cast<size_t>(op.axis)].symbolic;
    });
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_STITCH_FAMILY_H_
