// MmaFamily: products of chips without wgmma, whose kernels multiply by mma.sync. Each answer is
// declared and given once, here.
#ifndef SINTER_SRC_PLAN_MMA_FAMILY_H_
#define SINTER_SRC_PLAN_MMA_FAMILY_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/mma/mma.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& MmaFamily();

using MmaCode = OwnCode<MmaProduct, MmaSchedule>;

// The places are of the operands of OperandsOf, in its order.
using MmaSpec = OwnSpec<MmaCode>;

class MmaKernels : public OwnKernels<MmaCode> {
 public:
  MmaKernels()
      : OwnKernels({"mma",
                    6,
                    {"two products by mma.sync, whose rows meet in other blocks",
                     "a product's kernel takes the ops on its result along, no other ops",
                     "a product's kernel reads its operands from memory"},
                    true,
                    false,
                    false,
                    true}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    return {true, ProblemOf(spec).of_m, 1, false};
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const MmaProduct& p = ProblemOf(spec);
    std::vector<KernelBuffer> list;
    for (const MmaOperand& operand : OperandsOf(p)) {
      const bool of_launch = operand.rows == 0, of_m = of_launch && p.of_m;
      const int64_t rows = of_launch ? p.Rows(bucket) : operand.rows;
      std::vector<std::string> dims;
      if (of_launch || rows > 1) dims.push_back(of_m ? "M" : absl::StrCat(rows));
      if (operand.columns > 1) dims.push_back(absl::StrCat(operand.columns));
      AddBuffer(Of(spec).places, operand.element, absl::StrJoin(dims, ","), rows * operand.columns,
                of_m, &list);
    }
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const MatrixProduct& product = ProblemOf(kernel.spec).product;
    out.words = {"product"};
    if (product.pair) out.words = {"gate", "up"};
    if (product.epilogue.program.present()) out.words.emplace_back("ops on its result");
    return out;
  }
  KernelRows RowsOf(const KernelSpec& spec, int64_t bucket) const override {
    return {ProblemOf(spec).Rows(bucket), 0};
  }
  // A row is summed along K, unless slices of warps divide it.
  std::string RowOrder(const KernelSpec& spec) const override {
    return absl::StrCat(ProblemOf(spec).ToString(), " slices", ScheduleOf(spec).slices, "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    if (ScheduleOf(spec).slices == 1) return absl::OkStatus();
    return FailedPrecondition("slices are ", ScheduleOf(spec).slices,
                              ", must be 1, in the order of all buckets");
  }

  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool replaces) const override {
    std::vector<RankedMma> ranked = SearchMma(Of(run), model, options.batch_invariant);
    if (ranked.empty()) {
      return FailedPrecondition("no tile of a product fits into shared memory of ",
                                model.shared_bytes_per_block, " bytes of ", model.name);
    }
    const auto most = static_cast<size_t>(std::max(1, options.top_k));
    if (!replaces) ranked.resize(std::min(most, ranked.size()));
    return ChoicesOf(ranked);
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {Of(code).problem.ToString(), Of(code).schedule.ToString(false), kMmaEntry};
  }
  absl::StatusOr<MmaProduct> ProblemOfCode(const MmaProduct& product) const override {
    MmaProduct any = product;
    any.rows = 0;  // the recipe tells a launch its rows
    any.of_m = true;
    return any;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_MMA_FAMILY_H_
