#include "src/standin/stand_in.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/product_family.h"
#include "src/plan/stitch_family.h"
#include "src/standin/product_kernels.h"
#include "src/standin/row_kernel.h"

namespace sinter {
namespace {

int Products() { return static_cast<int>(ProductStandIns().size()); }

absl::StatusOr<StandIn> RowsOf(const StitchSpec& spec) {
  SINTER_ASSIGN_OR_RETURN(RowKernel kernel, MakeRowKernel(spec.body, spec.operands));
  StandIn stand_in{Products() + kernel.index, std::move(kernel.recipe)};
  stand_in.recipe.grid[0] = static_cast<uint32_t>(spec.schedule.grid);
  return stand_in;
}

absl::Status WriteStandIn(const KernelSpec& spec, CompileRequest* request) {
  SINTER_ASSIGN_OR_RETURN(const StandIn stand_in, StandInOf(spec));
  request->source = StandInSource(stand_in.index);
  request->name = absl::StrCat(StandInName(stand_in.index), ".cu");
  return absl::OkStatus();
}

// Kernels of products that come with the library.
class StandInProducts final : public ProductKernels {
 public:
  bool IsStandIn() const override { return true; }
  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel&) const override {
    return Code(spec);
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode&,
                            CompileRequest* request) const override {
    return WriteStandIn(spec, request);
  }
  std::string Entry(const KernelCode&) const override { return kStandInProductEntry; }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return StandInRecipe(code.product, ProductBindingOf(spec));
  }
};

// Kernels of rows that come with the library.
class StandInRows final : public StitchKernels {
 public:
  bool IsStandIn() const override { return true; }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return absl::StrCat("rows grid", spec.stitch->schedule.grid);
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode&,
                            CompileRequest* request) const override {
    return WriteStandIn(spec, request);
  }
  std::string Entry(const KernelCode&) const override { return kRowKernelEntry; }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec, const KernelCode&) const override {
    SINTER_ASSIGN_OR_RETURN(StandIn stand_in, RowsOf(*spec.stitch));
    return std::move(stand_in.recipe);
  }
};

class Schedules final : public ReadyKernels {
 public:
  void Visit(const ProductSequence& sequence, const DeviceModel& model,
             const std::function<void(const Schedule&)>& visit) const override {
    VisitStandIns(sequence, model, visit);
  }
  absl::Status Check(const Chain& body) const override { return CheckRowKernel(body); }
};

const KernelFamily* FamilyOf(const KernelSpec& spec) {
  static const StandInProducts products;
  static const StandInRows rows;
  if (spec.stitch == nullptr) return &products;
  return &rows;
}

}  // namespace

int StandInCount() { return Products() + kRowKernels; }

std::string StandInName(int index) {
  if (index >= Products()) return RowKernelName(index - Products());
  return NameOf(ProductStandIns()[static_cast<size_t>(index)]);
}

std::string StandInSource(int index) {
  if (index >= Products()) return RowKernelSource(index - Products());
  return SourceOf(ProductStandIns()[static_cast<size_t>(index)]);
}

std::string StandInEntry(int index) {
  return index >= Products() ? kRowKernelEntry : kStandInProductEntry;
}

absl::StatusOr<StandIn> StandInOf(const KernelSpec& spec) {
  if (spec.stitch != nullptr) return RowsOf(*spec.stitch);
  SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
  StandIn stand_in;
  SINTER_ASSIGN_OR_RETURN(stand_in.recipe, StandInRecipe(code.product, ProductBindingOf(spec)));
  stand_in.index = FindStandIn(spec.sequence, spec.schedule);
  return stand_in;
}

const ReadyKernels& StandInSchedules() {
  static const Schedules schedules;
  return schedules;
}

void MarkStandIns(Plan* plan) {
  for (PlannedKernel& kernel : plan->kernels) {
    kernel.spec.family = FamilyOf(kernel.spec);
    if (kernel.spec.stitch == nullptr) continue;
    auto rows = std::make_shared<StitchSpec>(*kernel.spec.stitch);
    const absl::StatusOr<RowKernel> made = MakeRowKernel(rows->body, rows->operands);
    if (made.ok()) rows->schedule.grid = RowBlocks(*made, plan->bucket);
    kernel.spec.stitch = std::move(rows);
  }
}

}  // namespace sinter
