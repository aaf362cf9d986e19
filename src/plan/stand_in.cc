#include "src/plan/stand_in.h"

#include <memory>
#include <utility>

#include "src/base/status.h"
#include "src/plan/kernel_code.h"
#include "src/product/code/recipe.h"
#include "src/product/stand_in.h"
#include "src/stitch/rows/row_kernel.h"

namespace sinter {
namespace {

int Products() { return static_cast<int>(ProductStandIns().size()); }

absl::StatusOr<StandIn> RowsOf(const StitchSpec& spec) {
  SINTER_ASSIGN_OR_RETURN(RowKernel kernel, MakeRowKernel(spec.body, spec.operands));
  StandIn stand_in{Products() + kernel.index, std::move(kernel.recipe)};
  stand_in.recipe.grid[0] = static_cast<uint32_t>(spec.schedule.grid);
  return stand_in;
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
  SINTER_ASSIGN_OR_RETURN(stand_in.recipe, StandInRecipe(code.product, BindingOf(spec).product));
  stand_in.index = FindStandIn(spec.sequence, spec.schedule);
  return stand_in;
}

void MarkStandIns(Plan* plan) {
  for (PlannedKernel& kernel : plan->kernels) {
    kernel.spec.stand_in = true;
    if (kernel.spec.stitch == nullptr) continue;
    auto rows = std::make_shared<StitchSpec>(*kernel.spec.stitch);
    const absl::StatusOr<RowKernel> made = MakeRowKernel(rows->body, rows->operands);
    if (made.ok()) rows->schedule.grid = RowBlocks(*made, plan->bucket);
    kernel.spec.stitch = std::move(rows);
  }
}

}  // namespace sinter
