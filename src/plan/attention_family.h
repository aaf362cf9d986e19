// AttentionFamily: attention in one kernel (src/attention). Each answer is declared and given once.
#ifndef SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
#define SINTER_SRC_PLAN_ATTENTION_FAMILY_H_

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/attention/attention.h"
#include "src/base/status.h"
#include "src/model/search.h"
#include "src/plan/fields_json.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& AttentionFamily();

using AttentionCode = OwnCode<AttentionProblem, AttentionSchedule>;
using AttentionSpec = OwnSpec<AttentionCode>;  // operands in order are q, k, v, the terms

// The formula, the items of scores, the launch and a block: KernelDescription::lines.
std::vector<std::pair<std::string, std::string>> AttentionLines(const AttentionProblem& problem,
                                                                const AttentionSchedule& schedule,
                                                                int64_t bucket);

class AttentionKernels : public OwnKernels<AttentionCode> {
 public:
  AttentionKernels() : OwnKernels({"attention", 2, {}, true, true}) {}

  // M counts batches: a launch's rows are those that it says.
  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    return {true, ProblemOf(spec).of_m, 1, false};
  }
  KernelTexts TextsOf(const KernelSpec& spec) const override {
    return {ProblemOf(spec).ToString(), ScheduleOf(spec).ToString(), ""};
  }

  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const AttentionProblem& p = ProblemOf(spec);
    const std::vector<BufferPlace>& places = Of(spec).places;
    std::vector<KernelBuffer> list;
    const auto add = [&](const BatchedMatrix& matrix, DType dtype, int64_t rows, int64_t columns,
                         bool write) {
      const BufferPlace& at = write ? places.back() : places[list.size()];
      list.push_back({at.buffer, at.offset_bytes, TypeText(dtype, p, rows, columns),
                      DistinctBytesOf(p, matrix, dtype, rows, columns, bucket), write,
                      CountsM(matrix)});
    };
    add(p.q, p.element, p.rows, p.head, false);
    add(p.k, p.element, p.keys, p.head, false);
    add(p.v, p.element, p.keys, p.value_head, false);
    for (int i = 0; i < p.Terms(); ++i) {
      add(p.terms[static_cast<size_t>(i)], p.TermType(i), p.rows, p.keys, false);
    }
    add(p.out, p.result, p.rows, p.value_head, true);
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const Prediction& p = kernel.prediction;
    LevelCost tensor{"tensor", p.tensor_us, "products and softmax of the busiest SM", "",
                     "tensor_flop_per_us lanes_per_sm special_lanes_per_sm"};
    const LevelCost intake{"intake", p.intake_us, "loads of the busiest SM, and waits for stages",
                           "", "sm_intake_bytes_per_us"};
    out.levels = {HbmCost(p, model), L2Cost(p, model), intake, tensor};
    for (LevelCost& level : out.levels) level.bound = level.level == p.bound;
    if (p.dsm_us > 0) {
      LevelCost dsm = DsmCost(p, ScheduleOf(kernel.spec).splits, model);
      absl::StrAppend(&dsm.amount, " of partial sums, after the levels above");
      out.levels.push_back(std::move(dsm));
    }
    out.levels.push_back({"together", p.total_us - p.fixed_us, "the longest, and waits", "", ""});
    out.levels.push_back({"fixed", p.fixed_us, "launch, and the first loads of a stream", "",
                          "launch_us fill_us drain_us"});
    for (auto& line : AttentionLines(ProblemOf(kernel.spec), ScheduleOf(kernel.spec), bucket)) {
      out.lines.push_back(std::move(line));
    }
    return out;
  }
  void WriteJson(const KernelSpec& spec, nlohmann::ordered_json* out) const override {
    const AttentionProblem& p = ProblemOf(spec);
    out->update({{"problem",
                  {{"rows", p.rows},
                   {"keys", p.keys},
                   {"head", p.head},
                   {"value_head", p.value_head},
                   {"batches", p.batches},
                   {"causal", p.causal},
                   {"terms", p.Terms()}}},
                 {"schedule", FieldsJson(ScheduleOf(spec))},
                 {"operands", FieldsJsonOfEach(Of(spec).places)}});
  }

  KernelRows RowsOf(const KernelSpec&, int64_t bucket) const override { return {bucket, 0}; }
  // Which keys share a tile and a split, and their order, decide a row's bits. Where a value that
  // is not finite belongs to a hidden key, so does whether the row's item looks at that key's tile.
  std::string RowOrder(const KernelSpec& spec) const override {
    const AttentionSchedule& s = ScheduleOf(spec);
    return absl::StrCat("attention ", ProblemOf(spec).ToString(), " keys", s.block_keys, " splits",
                        s.splits,
                        ProblemOf(spec).causal ? absl::StrCat(" rows", s.BlockRows()) : "", "\n");
  }

  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool) const override {
    SINTER_ASSIGN_OR_RETURN(
        const std::vector<RankedAttention> ranked,
        RankAttention(Of(run), bucket, model, static_cast<size_t>(options.top_k),
                      !options.batch_invariant));
    return ChoicesOf(ranked);
  }

  int LeastNvrtcOf(const AttentionSchedule&) const override { return kLeastNvrtcOf16BitProducts; }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {Of(code).problem.ToString(), Of(code).schedule.ToString(), kAttentionEntry};
  }
  absl::StatusOr<AttentionProblem> ProblemOfCode(const AttentionProblem& problem) const override {
    SINTER_RETURN_IF_ERROR(problem.Check());
    return problem;
  }

 private:
  static std::string TypeText(DType dtype, const AttentionProblem& p, int64_t rows,
                              int64_t columns) {
    return absl::StrCat(NameOf(dtype), "[", p.of_m ? "M" : "", p.of_m && p.batches > 1 ? " " : "",
                        p.of_m && p.batches == 1 ? "" : absl::StrCat(p.batches), ",", rows, ",",
                        columns, "]");
  }

  // Different elements that batches have in a buffer.
  static int64_t DistinctBytesOf(const AttentionProblem& p, const BatchedMatrix& matrix,
                                 DType dtype, int64_t rows, int64_t columns, int64_t bucket) {
    int64_t count = SizeOf(dtype);
    if (matrix.row != 0) count *= rows;
    if (matrix.column != 0) count *= columns;
    for (const BatchDigit& digit : matrix.digits)
      count *= digit.extent == 0 ? bucket : digit.extent;
    return count;
  }

  static bool CountsM(const BatchedMatrix& matrix) {
    return std::any_of(matrix.digits.begin(), matrix.digits.end(),
                       [](const BatchDigit& digit) { return digit.extent == 0; });
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_ATTENTION_FAMILY_H_
