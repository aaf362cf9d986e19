// A family that no file of the library knows, for tests of what asks a kernel's family: sums over
// GPUs, by one kernel, or by two that leave parts of the sums between them.
#pragma once

#include "src/plan/own_family.h"
#include "tests/support/common.h"

namespace sinter::testing {

struct Sum {
  int ranks = 4;
  int64_t columns = 0;
  int kernel = 0;  // of two: 0 leaves parts in the scratch, 1 reads them
  std::string ToString() const { return absl::StrCat("sum of ", ranks, " ranks"); }
  void Write(ByteWriter& w) const { w(columns, Word(kernel)); }
  static absl::StatusOr<Sum> Read(ByteReader& r) {
    Sum sum;
    r(sum.columns, Word(sum.kernel));
    return sum;
  }
  bool operator==(const Sum& o) const {
    return ranks == o.ranks && columns == o.columns && kernel == o.kernel;
  }
};

struct SumSchedule {
  int grid = 1, kernels = 1;
  std::string ToString() const { return absl::StrCat("grid ", grid, " kernels ", kernels); }
  void Write(ByteWriter& w) const { w(Word(grid), Word(kernels)); }
  static absl::StatusOr<SumSchedule> Read(ByteReader& r) {
    SumSchedule schedule;
    r(Word(schedule.grid), Word(schedule.kernels));
    return schedule;
  }
  bool operator==(const SumSchedule& o) const { return grid == o.grid && kernels == o.kernels; }
};

using SumCode = OwnCode<Sum, SumSchedule>;

inline absl::Status CheckSchedule(const Sum&, const SumSchedule& schedule,
                                  const DeviceModel& model) {
  if (schedule.grid <= model.sm_count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("grid ", schedule.grid, " is above the chip's ", model.sm_count));
}
inline absl::StatusOr<Prediction> PredictSchedule(const Sum& sum, const SumSchedule&,
                                                  int64_t bucket, const DeviceModel&) {
  return Prediction{.total_us = static_cast<double>(bucket * sum.columns) * 1e-6,
                    .bound = "nvlink"};
}
inline std::string SourceOf(const Sum& sum, const SumSchedule&) {
  return absl::StrCat("// ", sum.ToString(), "\n");
}
inline std::vector<std::string> HeadersOf(const Sum&, const SumSchedule&) {
  return {"kernels/product.cuh", "kernels/program.cuh"};
}
inline absl::StatusOr<LaunchRecipe> RecipeOf(const Sum&, const SumSchedule& schedule,
                                             const std::vector<BufferPlace>& places) {
  LaunchRecipe recipe{.entry = "sinter_sum",
                      .grid = {static_cast<uint32_t>(schedule.grid), 1, 1},
                      .block = {128, 1, 1}};
  recipe.args.push_back({.kind = ArgKind::kPointer, .index = places[0].buffer});
  return recipe;
}

class SumKernels final : public OwnKernels<SumCode> {
 public:
  SumKernels() : OwnKernels({"sum", 200, {}, true}) {}
  KernelTraits TraitsOf(const KernelSpec&) const override { return {}; }
  KernelTexts TextsOf(const KernelSpec& spec) const override {
    return {ProblemOf(spec).ToString(), ScheduleOf(spec).ToString(), ""};
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const std::vector<BufferPlace>& places = Of(spec).places;
    const std::string type = absl::StrCat("bf16[M,", ProblemOf(spec).columns, "]");
    const int64_t bytes = bucket * ProblemOf(spec).columns * 2;
    return {{places[0].buffer, places[0].offset_bytes, type, bytes, false, true},
            {places[1].buffer, places[1].offset_bytes, type, bytes, true, true}};
  }
  KernelRows RowsOf(const KernelSpec&, int64_t bucket) const override { return {bucket, 0}; }
  std::string RowOrder(const KernelSpec& spec) const override {
    return absl::StrCat("ranks 0 to ", ProblemOf(spec).ranks - 1, "\n");
  }
  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    SINTER_RETURN_IF_ERROR(CheckSchedule(ProblemOf(spec), ScheduleOf(spec), model));
    return KernelLaunch{true, 0};
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {Of(code).problem.ToString(), Of(code).schedule.ToString(), "sinter_sum"};
  }

  // Two kernels, then one.
  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun&, int64_t, const DeviceModel&,
                                                 const SearchOptions&, bool) const override {
    Prediction half, whole;
    half.total_us = 1;
    whole.total_us = 3;
    return std::vector<OwnChoice>{{BytesOf({8, 2}), {half, half}}, {BytesOf({16, 1}), {whole}}};
  }
  ChoiceNeeds NeedsOf(const OwnRun& run, absl::string_view choice, int64_t bucket) const override {
    const absl::StatusOr<SumSchedule> schedule = ScheduleFrom(choice);
    if (!schedule.ok() || schedule->kernels == 1) return {};
    const int64_t columns = run.problem == nullptr ? 0 : Of(run).columns;
    return {schedule->kernels, static_cast<uint64_t>(bucket * columns * 4)};
  }
  absl::StatusOr<KernelSpec> BindOwn(const OwnRun& run, absl::string_view choice, int kernel,
                                     const std::vector<BufferPlace>& places) const override {
    if (kernel >= NeedsOf(run, choice, 0).kernels)
      return absl::InvalidArgumentError("there is no such kernel");
    OwnRun one = run;
    Sum sum = Of(run);
    sum.kernel = kernel;
    one.problem = MakeBody(sum);
    return OwnKernels::BindOwn(one, choice, kernel, places);
  }
};

inline const KernelFamily& SumFamily() {
  static const SumKernels family;
  return family;
}

}  // namespace sinter::testing
