// StitchFamily: memory-intensive kernels.
#ifndef SINTER_SRC_PLAN_STITCH_FAMILY_H_
#define SINTER_SRC_PLAN_STITCH_FAMILY_H_

#include <string>
#include <vector>

#include "src/plan/family.h"
#include "src/stitch/code.h"
#include "src/stitch/code/stitch_recipe.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/search/stitch_cost_model.h"

namespace sinter {

constexpr uint32_t kPackedChoice = 2;  // a choice's flag: it has parts

// Of a spec: what its launch needs besides its code.
StitchBinding StitchBindingOf(const KernelSpec& spec);

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

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override;
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return spec.stitch->ScheduleCanonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override;
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override;

  bool UsesM(const KernelSpec& spec) const override { return spec.stitch->body.UsesM(); }
  int64_t Rows(const KernelSpec&, int64_t bucket) const override { return bucket; }
  bool TakesAnyRows() const override { return true; }
  bool MixesRows(const KernelSpec& spec) const override;
  ConstantPlaces PlacesOf(const KernelSpec& spec) const override;
  std::string RowOrder(const KernelSpec& spec) const override;
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }
  bool ChoosesRowOrder() const override { return true; }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                     const DeviceModel& model, StitchBudget* budget) const override;
  bool IsJoined(const KernelSpec& spec) const override { return !spec.stitch->parts.empty(); }
  bool LeavesInWorkspace(const KernelSpec& spec) const override;

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override {
    return AccountOf(*spec.stitch, bucket, model, nullptr);
  }
  bool IsForTuning(const KernelSpec&) const override { return true; }
  bool MeasuresAll() const override { return true; }
  bool IsSlowBehindCodes() const override { return true; }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override;
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                            CompileRequest* request) const override;
  std::string Entry(const KernelCode& code) const override;
  std::vector<std::string> Headers(const KernelSpec& spec) const override {
    return {StitchHeader(spec.stitch->body)};
  }
  uint32_t CodeWord(const KernelCode&) const override { return kStitchWord; }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override;
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return code.stitch->ScheduleBytes();
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return BodyText(*code.stitch->body);
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return code.stitch->Text();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule, KernelCode* code) const override;
  const Chain* BodyOf(const KernelCode& code) const override { return code.stitch->body.get(); }

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return StitchRecipe(*code.stitch, StitchBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override;
  uint32_t ChoiceFlags(const KernelDecision& decision) const override;
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override;
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override;
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override;
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_STITCH_FAMILY_H_
