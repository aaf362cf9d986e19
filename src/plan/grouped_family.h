// GroupedFamily: products of rows with the matrices that ids name, or ends say. Each answer is
// declared and given once, here.
#ifndef SINTER_SRC_PLAN_GROUPED_FAMILY_H_
#define SINTER_SRC_PLAN_GROUPED_FAMILY_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/grouped/grouped.h"
#include "src/model/search.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& GroupedFamily();

using GroupedCode = OwnCode<GroupedProduct, GroupedSchedule>;

// Operands in order are rows, weights, ids or ends, scales of rows and of weights, or scales and
// zeros of four bits, what the program reads; in front of the result the scales of its codes.
using GroupedSpec = OwnSpec<GroupedCode>;

class GroupedKernels : public OwnKernels<GroupedCode> {
 public:
  GroupedKernels()
      : OwnKernels({"grouped",
                    3,
                    {"two grouped products, whose rows meet in other blocks",
                     "a grouped product's kernel takes element-wise ops along, no other ones",
                     "a grouped product's kernel reads its operands from memory"},
                    true}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    const GroupedProduct& p = ProblemOf(spec);
    return {p.program.present() || p.quantizer.present, p.fixed_rows == 0, 1, false};
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const GroupedProduct& p = ProblemOf(spec);
    const std::vector<BufferPlace>& places = Of(spec).places;
    const std::string m = p.fixed_rows > 0 ? absl::StrCat(p.fixed_rows) : "M";
    const int64_t rows = p.Rows(bucket), slots = rows * p.slots;
    std::vector<KernelBuffer> list;
    const auto add = [&](DType dtype, const std::string& dims, int64_t elements, bool of_m) {
      AddBuffer(places, dtype, dims, elements, of_m && p.fixed_rows == 0, &list);
    };
    const std::string of_slots = p.by_ends ? m : absl::StrCat(m, ",", p.slots);
    add(p.rows, absl::StrCat(p.slot_rows ? of_slots : m, ",", p.k),
        (p.slot_rows ? slots : rows) * p.k, true);
    const std::string matrix = p.input_major ? absl::StrCat(p.k, ",", p.WeightColumns())
                                             : absl::StrCat(p.WeightColumns(), ",", p.k);
    if (p.HasCodes()) {
      add(DType::kS8, absl::StrCat(p.experts, ",", p.WeightColumns(), ",", p.k / 2),
          p.experts * p.WeightColumns() * (p.k / 2), false);
    } else {
      add(p.weights, absl::StrCat(p.experts, ",", matrix), p.experts * p.WeightColumns() * p.k,
          false);
    }
    if (p.by_ends) {
      add(DType::kS32, absl::StrCat(p.experts), p.experts, false);
    } else {
      add(DType::kS32, of_slots, slots, true);
    }
    if (p.HasScales()) {
      const int64_t groups = p.row_scales == GroupedScales::kGroups ? p.k / kScaleBlock : 1;
      const bool each = p.row_scale_stride != 0;
      const int64_t scaled = each ? (p.slot_rows ? slots : rows) : 1;
      add(DType::kF32, each ? absl::StrCat(p.slot_rows ? of_slots : m, ",", groups) : "",
          scaled * groups, each);
      const bool blocks = p.weight_scales == GroupedScales::kGroups;
      const int64_t columns = blocks                       ? CeilDiv(p.WeightColumns(), kScaleBlock)
                              : p.weight_scale_column != 0 ? p.WeightColumns()
                                                           : 1;
      const int64_t of_k = blocks ? p.k / kScaleBlock : 1;
      const int64_t experts = p.weight_scale_expert != 0 ? p.experts : 1;
      add(DType::kF32, absl::StrCat(experts, ",", columns, ",", of_k), experts * columns * of_k,
          false);
    }
    if (p.HasCodes()) {
      const int64_t groups = p.k / p.codes.group, values = p.experts * p.WeightColumns() * groups;
      const std::string dims = absl::StrCat(p.experts, ",", p.WeightColumns(), ",", groups);
      add(p.codes.scale, dims, values, false);
      if (p.codes.zero == FourBitZero::kGroups) add(p.codes.zero_type, dims, values, false);
      if (p.codes.zero == FourBitZero::kNumber) add(p.codes.zero_type, "", 1, false);
    }
    for (const int input : p.OperandInputs()) {
      const GroupedLeaf& leaf = p.LeafOf(input);
      int64_t columns = 1;  // gate and up may have some of one operand
      for (const int other : p.LeafInputs()) {
        const GroupedLeaf& of = p.LeafOf(other);
        if (of.operand != leaf.operand) continue;
        columns = std::max(columns, of.offset + (p.n - 1) * of.column + 1);
      }
      const int64_t at_rows = leaf.slot != 0 ? slots : leaf.row != 0 ? rows : 1;
      const int64_t experts = leaf.expert != 0 ? p.experts : 1;
      std::vector<std::string> dims;
      if (leaf.expert != 0) dims.push_back(absl::StrCat(p.experts));
      if (at_rows > 1 || leaf.row != 0) dims.push_back(leaf.slot != 0 ? of_slots : m);
      if (leaf.column != 0) dims.push_back(absl::StrCat(columns));
      add(p.program.TypeOf(input), absl::StrJoin(dims, ","), experts * at_rows * columns,
          leaf.row != 0);
    }
    if (p.quantizer.present) {
      const int64_t groups = p.n / kScaleBlock;
      add(DType::kF32, absl::StrCat(of_slots, ",", groups), slots * groups, true);
      list.back().write = true;
    }
    add(p.result, absl::StrCat(of_slots, ",", p.n), slots * p.n, true);
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const GroupedProduct& p = ProblemOf(kernel.spec);
    out.words = {"grouped product"};
    if (p.IsPair()) out.words = {"grouped gate", "up"};
    if (p.HasCodes()) out.words.insert(out.words.begin(), "unpack weights");
    for (std::string& word : GroupedWords(p)) out.words.push_back(std::move(word));
    return out;
  }
  KernelRows RowsOf(const KernelSpec& spec, int64_t bucket) const override {
    return {ProblemOf(spec).Rows(bucket), 0};
  }
  // Each result sums K in one order, whatever the tile is: tensor cores in steps of 16. Nothing
  // promises that they do so with swapped operands.
  std::string RowOrder(const KernelSpec& spec) const override {
    return absl::StrCat(ProblemOf(spec).ToString(),
                        ScheduleOf(spec).IsWarpDots()   ? " dots of warps"
                        : ScheduleOf(spec).block_m == 0 ? " dots"
                        : ScheduleOf(spec).slices > 0
                            ? absl::StrCat(" slices", ScheduleOf(spec).slices)
                        : ScheduleOf(spec).swapped > 0 ? " steps swapped"
                                                       : " steps",
                        "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec& spec) const override {
    if (ScheduleOf(spec).IsWarpDots()) {
      return absl::FailedPreconditionError("sums are of warps, must be of tensor cores or threads");
    }
    if (ScheduleOf(spec).slices > 0) {
      return absl::FailedPreconditionError("sums are of slices of K, must be of steps of 16");
    }
    return ScheduleOf(spec).swapped > 0
               ? absl::FailedPreconditionError("operands are swapped, must not be")
               : absl::OkStatus();
  }

  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool replaces) const override {
    std::vector<RankedGrouped> ranked =
        SearchGrouped(Of(run), bucket, model, options.batch_invariant);
    if (ranked.empty()) return CheckSchedule(Of(run), {8, 32, 4, 1, 0, 1}, model);
    // The last one is for who finds the others refused.
    const auto most = static_cast<size_t>(std::max(1, options.top_k));
    if (!replaces) ranked.resize(std::min(most, std::max<size_t>(1, ranked.size() - 1)));
    return ChoicesOf(ranked);
  }
  int LeastNvrtcOf(const GroupedSchedule& schedule) const override {
    return schedule.block_m > 0 ? kLeastNvrtcOf16BitProducts : 0;
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {Of(code).problem.ToString(), Of(code).schedule.ToString(false), kGroupedEntry};
  }
  absl::StatusOr<GroupedProduct> ProblemOfCode(const GroupedProduct& product) const override {
    GroupedProduct any = product;
    any.fixed_rows = 0;  // the recipe tells a launch its rows
    return any;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_GROUPED_FAMILY_H_
