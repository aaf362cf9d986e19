// CollectiveFamily: sums over the GPUs of a group (src/collective). Each answer is declared and
// given once, here.
#ifndef SINTER_SRC_PLAN_COLLECTIVE_FAMILY_H_
#define SINTER_SRC_PLAN_COLLECTIVE_FAMILY_H_

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/collective/collective.h"
#include "src/model/search.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& CollectiveFamily();

using CollectiveCode = OwnCode<CollectiveProblem, CollectiveSchedule>;

using CollectiveSpec = OwnSpec<CollectiveCode>;

class CollectiveKernels : public OwnKernels<CollectiveCode> {
 public:
  // All ranks must choose alike, so nothing is measured: a single GPU would wait for the others.
  CollectiveKernels()
      : OwnKernels({"collective",
                    4,
                    {"two sums or gathers over ranks, each of which waits for all ranks",
                     "a sum over ranks takes casts, sums, products and the norm of its rows along, "
                     "no other ops",
                     "a sum or gather over ranks reads its operand from memory"}}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    const CollectiveProblem& p = ProblemOf(spec);
    return {p.program.present() || p.norm, p.fixed_rows == 0, p.ranks, false};
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const CollectiveProblem& p = ProblemOf(spec);
    const std::string rows = p.fixed_rows > 0 ? absl::StrCat(p.fixed_rows) : "M";
    std::vector<KernelBuffer> list;
    for (const CollectiveOperand& operand : OperandsOf(p)) {
      const BufferPlace& at = Of(spec).places[list.size()];
      const bool of_rows = operand.parts > 0;
      const int64_t columns = p.columns * (of_rows ? operand.parts : 1);
      const int64_t in_row = columns * (of_rows && p.fixed_rows == 0 ? p.rows_per_m : 1);
      list.push_back(
          {at.buffer, at.offset_bytes,
           absl::StrCat(NameOf(operand.dtype), "[", of_rows ? rows + "," : "", in_row, "]"),
           (of_rows ? p.Rows(bucket) : 1) * columns * SizeOf(operand.dtype), operand.stored,
           of_rows && p.fixed_rows == 0});
    }
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const CollectiveProblem& p = ProblemOf(kernel.spec);
    out.words = {NameWithRanks(p)};
    if (p.program.present()) out.words.emplace_back(WordOf(p.program));
    if (p.norm) out.words.push_back("norm");
    const CollectiveSchedule& s = ScheduleOf(kernel.spec);
    out.lines.emplace_back(
        "link", absl::StrCat(AmountText(kernel.prediction.dsm_bytes, "B"), " leave this GPU at ",
                             RateText(model.link_bytes_per_us, "B"),
                             s.PushedColumns(p) == 0 ? ""
                             : s.pushed > 0          ? ", sent by the kernel before"
                                                     : absl::StrCat(", ", s.pushed_columns,
                                                                    " columns sent by the kernel before")));
    return out;
  }
  KernelRows RowsOf(const KernelSpec& spec, int64_t bucket) const override {
    return {ProblemOf(spec).Rows(bucket), 0};
  }
  // Sums take ranks in order, whatever the form is; a norm sums a row by threads.
  std::string RowOrder(const KernelSpec& spec) const override {
    const bool norm = ProblemOf(spec).norm;
    return absl::StrCat(ProblemOf(spec).ToString(),
                        norm ? absl::StrCat(" threads=", ScheduleOf(spec).threads) : "", "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    if (!ProblemOf(spec).norm || ScheduleOf(spec).threads == kThreadsOfOneOrder) {
      return absl::OkStatus();
    }
    return FailedPrecondition("threads of a norm are ", ScheduleOf(spec).threads, ", must be ",
                              kThreadsOfOneOrder);
  }

  // Parts of rows lie M rows apart, of all M: a pass would need to know it.
  bool MixesRows(const KernelSpec& spec) const override {
    return ProblemOf(spec).by_rows && ProblemOf(spec).fixed_rows == 0;
  }
  int64_t RowsOfSlots(const KernelSpec& spec, uint64_t slot_bytes) const override {
    const CollectiveProblem& p = ProblemOf(spec);
    const int64_t most = MostCollectiveRows(p, ScheduleOf(spec), slot_bytes);
    if (p.fixed_rows == 0) return most / p.rows_per_m;
    return p.fixed_rows <= most ? kMaxExtent : 0;
  }

  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool) const override {
    std::vector<RankedCollective> ranked = SearchCollective(Of(run), bucket, model);
    if (options.batch_invariant && Of(run).norm) {
      ranked.erase(std::remove_if(ranked.begin(), ranked.end(),
                                  [](const RankedCollective& one) {
                                    return one.schedule.threads != kThreadsOfOneOrder;
                                  }),
                   ranked.end());
    }
    if (ranked.empty()) return absl::FailedPreconditionError("no kernel over ranks is legal");
    const auto most = static_cast<size_t>(std::max(1, options.top_k));
    ranked.resize(std::min(most, ranked.size()));
    return ChoicesOf(ranked);
  }

  // For notes of plans.
  static std::string NoteOf(const CollectiveProblem& p) {
    return absl::StrCat(NameWithRanks(p), p.program.present() ? " + " : "", WordOf(p.program),
                        p.norm ? " + norm" : "");
  }
  // A choice for a run that sums over ranks. The kernel before the run computes its first operand
  // and pushes that to the other ranks (Schedule::pushes) in `turns` turns. If `turns` is 0, it
  // pushes its first `columns` columns.
  static absl::StatusOr<OwnChoice> RankPushed(const OwnRun& run, int64_t turns, int64_t columns,
                                              int64_t bucket, const DeviceModel& model) {
    const auto* const problem = BodyAs<CollectiveProblem>(run.problem);
    std::vector<RankedCollective> ranked;
    if (problem != nullptr) ranked = SearchCollective(*problem, bucket, model, {turns, columns});
    if (ranked.empty())
      return absl::FailedPreconditionError("no kernel that sums pushed columns is legal");
    return OwnChoice{BytesOf(ranked.front().schedule), {ranked.front().prediction}};
  }
  // The schedule of a choice of this family that takes what the kernel before it pushes.
  static std::optional<CollectiveSchedule> PushedSchedule(const KernelFamily* family,
                                                          absl::string_view choice) {
    const auto* const sums = dynamic_cast<const CollectiveKernels*>(family);
    if (sums == nullptr) return std::nullopt;
    const absl::StatusOr<CollectiveSchedule> schedule = sums->ScheduleFrom(choice);
    const bool pushed = schedule.ok() && (schedule->pushed > 0 || schedule->pushed_columns > 0);
    return pushed ? std::make_optional(*schedule) : std::nullopt;
  }

  CodeTexts TextsOfCode(const KernelCode& code) const override {
    const CollectiveProblem& p = Of(code).problem;
    return {p.ToString(), Of(code).schedule.ToString(), CollectiveEntry(p)};
  }
  absl::StatusOr<CollectiveProblem> ProblemOfCode(const CollectiveProblem& problem) const override {
    SINTER_RETURN_IF_ERROR(CheckCollective(problem, {false, 512, 1}));
    CollectiveProblem any = problem;
    any.fixed_rows = 0;  // the recipe tells a launch its rows
    any.rows_per_m = 1;
    return any;
  }

 private:
  static std::string NameWithRanks(const CollectiveProblem& p) {
    const bool gathers = p.kind == CollectiveKind::kAllGather;
    return absl::StrCat(p.PartsOfX() > 1 ? "part of the " : "", gathers ? "gather" : "sum",
                        " over ", p.ranks, " ranks");
  }
  static constexpr int kThreadsOfOneOrder = 512;  // of batch-invariant norms
  static const char* WordOf(const EpilogueProgram& program) {
    return program.Reads(LeafKind::kMatrix) ? "residual" : program.present() ? "ops" : "";
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_COLLECTIVE_FAMILY_H_
