#include "src/standin/stand_in.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/product_family.h"
#include "src/plan/stitch_family.h"
#include "src/standin/row_kernel.h"

namespace sinter {
namespace {

int Products() { return static_cast<int>(ProductStandIns().size()); }

// The answers of a stand-in besides its family's: which of the library's kernels it is.
class Ready {
 public:
  virtual const KernelFamily& family() const = 0;
  virtual absl::StatusOr<StandIn> Of(const KernelSpec& spec) const = 0;
  // Makes a planned kernel one of the library's.
  virtual void Mark(int64_t bucket, KernelSpec* spec) const { spec->family = &family(); }

 protected:
  absl::Status Write(const KernelSpec& spec, CompileRequest* request) const {
    SINTER_ASSIGN_OR_RETURN(const StandIn stand_in, Of(spec));
    request->source = StandInSource(stand_in.index);
    request->name = absl::StrCat(StandInName(stand_in.index), ".cu");
    return absl::OkStatus();
  }
  ~Ready() = default;
};

// Kernels of products that come with the library.
class StandInProducts final : public ProductKernels, public Ready {
 public:
  StandInProducts() : ProductKernels(true) {}
  const KernelFamily& family() const override { return *this; }
  absl::StatusOr<StandIn> Of(const KernelSpec& spec) const override {
    SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
    StandIn stand_in;
    SINTER_ASSIGN_OR_RETURN(stand_in.recipe, Recipe(spec, code));
    stand_in.index = FindStandIn(ProductOf(spec).sequence, ProductOf(spec).schedule);
    return stand_in;
  }

  absl::StatusOr<KernelCode> CheckedCode(const KernelSpec& spec,
                                         const DeviceModel&) const override {
    return Code(spec);
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode&,
                            CompileRequest* request) const override {
    return Write(spec, request);
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    CodeTexts texts = ProductKernels::TextsOfCode(code);
    texts.entry = kStandInProductEntry;
    return texts;
  }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec,
                                      const KernelCode& code) const override {
    return StandInRecipe(ProductKernels::Of(code), ProductBindingOf(spec));
  }
};

// Kernels of rows that come with the library.
class StandInRows final : public StitchKernels, public Ready {
 public:
  StandInRows() : StitchKernels(true) {}
  const KernelFamily& family() const override { return *this; }
  absl::StatusOr<StandIn> Of(const KernelSpec& spec) const override {
    SINTER_ASSIGN_OR_RETURN(RowKernel kernel,
                            MakeRowKernel(StitchOf(spec)->body, StitchOf(spec)->operands));
    StandIn stand_in{Products() + kernel.index, std::move(kernel.recipe)};
    stand_in.recipe.grid[0] = static_cast<uint32_t>(StitchOf(spec)->schedule.grid);
    return stand_in;
  }
  void Mark(int64_t bucket, KernelSpec* spec) const override {
    Ready::Mark(bucket, spec);
    StitchSpec rows = *StitchOf(*spec);
    const absl::StatusOr<RowKernel> made = MakeRowKernel(rows.body, rows.operands);
    if (made.ok()) rows.schedule.grid = RowBlocks(*made, bucket);
    spec->body = MakeBody(std::move(rows));
  }

  KernelTexts TextsOf(const KernelSpec& spec) const override {
    KernelTexts texts = StitchKernels::TextsOf(spec);
    texts.schedule = absl::StrCat("rows grid", StitchOf(spec)->schedule.grid);
    return texts;
  }
  absl::Status WriteRequest(const KernelSpec& spec, const KernelCode&,
                            CompileRequest* request) const override {
    return Write(spec, request);
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    CodeTexts texts = StitchKernels::TextsOfCode(code);
    texts.entry = kRowKernelEntry;
    return texts;
  }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec, const KernelCode&) const override {
    SINTER_ASSIGN_OR_RETURN(StandIn stand_in, Of(spec));
    return std::move(stand_in.recipe);
  }
};

// The stand-ins of the kernel's family, which have its number; null where there are none.
const Ready* ReadyOf(const KernelSpec& spec) {
  static const StandInProducts products;
  static const StandInRows rows;
  for (const Ready* ready :
       {static_cast<const Ready*>(&products), static_cast<const Ready*>(&rows)}) {
    if (ready->family().number() == spec.family->number()) return ready;
  }
  return nullptr;
}

class Schedules final : public ReadyKernels {
 public:
  void Visit(const ProductSequence& sequence, const DeviceModel& model,
             const std::function<void(const Schedule&)>& visit) const override {
    VisitStandIns(sequence, model, visit);
  }
  absl::Status Check(const Chain& body) const override { return CheckRowKernel(body); }
};

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
  const Ready* const ready = ReadyOf(spec);
  if (ready != nullptr) return ready->Of(spec);
  return FailedPrecondition("the library comes without kernels of family ", spec.family->name());
}

const ReadyKernels& StandInSchedules() {
  static const Schedules schedules;
  return schedules;
}

void MarkStandIns(Plan* plan) {
  for (PlannedKernel& kernel : plan->kernels) {
    if (const Ready* const ready = ReadyOf(kernel.spec)) ready->Mark(plan->bucket, &kernel.spec);
  }
}

}  // namespace sinter
