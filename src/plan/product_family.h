// ProductFamily: kernels of one or two products, or of a convolution.
#ifndef SINTER_SRC_PLAN_PRODUCT_FAMILY_H_
#define SINTER_SRC_PLAN_PRODUCT_FAMILY_H_

#include <string>
#include <vector>

#include "src/plan/family.h"
#include "src/plan/row_order.h"
#include "src/product/code/kernel_source.h"
#include "src/product/code/product_code.h"
#include "src/product/code/recipe.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/row_order_check.h"

namespace sinter {

constexpr int kProductsShift = 2;  // of a choice's flags: the number of products

// Of a spec: what its launch needs besides its code.
ProductBinding ProductBindingOf(const KernelSpec& spec);

class ProductKernels : public KernelFamily {
 public:
  absl::string_view name() const override { return "product"; }
  uint8_t number() const override { return 0; }
  std::string ProblemText(const KernelSpec& spec) const override;
  std::string ScheduleText(const KernelSpec& spec) const override {
    return spec.schedule.ToString();
  }

  bool Equal(const KernelSpec& a, const KernelSpec& b) const override;
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    return spec.schedule.Canonical();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override;
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override;
  std::string IdentityText(const KernelSpec& spec) const override {
    return spec.sequence.ToString();
  }

  bool UsesM(const KernelSpec& spec) const override { return !spec.constant_rows; }
  int64_t Rows(const KernelSpec& spec, int64_t) const override { return spec.sequence.rows(); }
  ConstantPlaces PlacesOf(const KernelSpec& spec) const override;
  std::string RowOrder(const KernelSpec& spec) const override {
    return RowOrderOfProducts(spec.sequence, spec.schedule);
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    return sinter::CheckRowOrder(spec.sequence, spec.schedule);
  }

  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode& code,
                                     const DeviceModel& model, StitchBudget* budget) const override;
  bool IsJoined(const KernelSpec& spec) const override { return spec.sequence.size() > 1; }
  bool LeavesInWorkspace(const KernelSpec& spec) const override;

  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel& model) const override;
  bool IsForTuning(const KernelSpec& spec) const override {
    return RowOf(spec.schedule).offered == Offered::kTuning;
  }
  bool MultipliesCodes(const KernelSpec& spec) const override {
    return IsCode(spec.sequence.element());
  }

  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override;
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel& model) const override;
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode& code,
                            CompileRequest* request) const override;
  std::string Entry(const KernelCode& code) const override {
    return EntryName(code.product.schedule);
  }
  std::vector<std::string> Headers(const KernelSpec& spec) const override;
  uint32_t CodeWord(const KernelCode& code) const override;
  void WriteCode(const KernelCode& code, ByteWriter& w) const override;
  std::string CodeScheduleBytes(const KernelCode& code) const override {
    return code.product.schedule.Canonical();
  }
  std::string CodeProblemText(const KernelCode& code) const override {
    return code.product.sequence.ToString();
  }
  std::string CodeScheduleText(const KernelCode& code) const override {
    return code.product.schedule.ToString();
  }
  absl::Status ReadCode(ByteReader& r, absl::string_view schedule, KernelCode* code) const override;

  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return ProductRecipe(code.product, ProductBindingOf(spec));
  }

  void Decide(const KernelSpec& spec, KernelDecision* decision) const override;
  uint32_t ChoiceFlags(const KernelDecision& decision) const override;
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override;
  absl::Status ReadChoice(uint32_t flags, ByteReader& r, KernelDecision* decision) const override;
  bool SameSource(const KernelDecision& a, const KernelDecision& b) const override;
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PRODUCT_FAMILY_H_
