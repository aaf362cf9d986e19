// FourBitFamily: products of a few rows whose kernels unpack weights of four bits. Each answer is
// declared and given once, here.
#ifndef SINTER_SRC_PLAN_FOUR_BIT_FAMILY_H_
#define SINTER_SRC_PLAN_FOUR_BIT_FAMILY_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/four_bit/four_bit.h"
#include "src/model/search.h"
#include "src/plan/own_family.h"

namespace sinter {

const KernelFamily& FourBitFamily();

using FourBitCode = OwnCode<FourBitProduct, FourBitSchedule>;

// Operands in order are rows, bytes, scales and zeros, each of gate and then of up, and the leaves
// of the program.
using FourBitSpec = OwnSpec<FourBitCode>;

class FourBitKernels : public OwnKernels<FourBitCode> {
 public:
  FourBitKernels()
      : OwnKernels({"four bits",
                    5,
                    {"two products of weights of four bits, whose rows meet in other blocks",
                     "a product's kernel unpacks weights of four bits and takes the ops on its "
                     "result along, no other ops",
                     "a product's kernel reads its operands from memory"},
                    true}) {}

  KernelTraits TraitsOf(const KernelSpec& spec) const override {
    return {true, ProblemOf(spec).fixed_rows == 0, 1, false};
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const FourBitProduct& p = ProblemOf(spec);
    const MatrixProduct& product = p.product;
    const FourBitWeights& w = p.weights;
    const std::vector<BufferPlace>& places = Of(spec).places;
    const std::string m = p.fixed_rows > 0 ? absl::StrCat(p.fixed_rows) : "M";
    const int64_t rows = p.Rows(bucket), groups = product.k / w.group;
    std::vector<KernelBuffer> list;
    const auto add = [&](DType dtype, const std::string& dims, int64_t elements, bool of_m) {
      AddBuffer(places, dtype, dims, elements, of_m && p.fixed_rows == 0, &list);
    };
    const auto add_each = [&](DType dtype, int64_t rows, int64_t columns) {
      for (int i = 0; i < product.Width(); ++i) {
        add(dtype, absl::StrCat(rows, ",", columns), rows * columns, false);
      }
    };
    add(product.rows.element, absl::StrCat(m, ",", product.k), rows * product.k, true);
    const auto add_groups = [&](DType dtype) {
      w.packed ? add_each(dtype, groups, product.n) : add_each(dtype, product.n, groups);
    };
    if (w.packed) {
      add_each(DType::kS8, product.k / 16, 8 * product.n);
    } else {
      add_each(DType::kS8, product.n, product.k / 2);
    }
    add_groups(w.scale);
    if (w.zero == FourBitZero::kGroups) add_groups(w.zero_type);
    for (int i = 0; w.zero == FourBitZero::kNumber && i < product.Width(); ++i) {
      add(w.zero_type, "", 1, false);
    }
    for (const int input : p.product.epilogue.program.OperandInputs()) {
      const EpilogueProgram& program = product.epilogue.program;
      const DType dtype = program.TypeOf(input);
      switch (program.leaves[static_cast<size_t>(input)]) {
        case LeafKind::kMatrix:
          add(dtype, absl::StrCat(m, ",", product.n), rows * product.n, true);
          break;
        case LeafKind::kRow:
          add(dtype, m, rows, true);
          break;
        case LeafKind::kColumn:
          add(dtype, absl::StrCat(product.n), product.n, false);
          break;
        default:
          add(dtype, "", 1, false);
      }
    }
    add(product.result, absl::StrCat(m, ",", product.n), rows * product.n, true);
    return list;
  }
  KernelDescription Describe(const PlannedKernel& kernel, int64_t bucket, const DeviceModel& model,
                             const BufferNames& names) const override {
    KernelDescription out = KernelFamily::Describe(kernel, bucket, model, names);
    const FourBitProduct& p = ProblemOf(kernel.spec);
    out.words = {"unpack weights"};
    if (p.product.pair) {
      out.words.insert(out.words.end(), {"gate", "up"});
    } else {
      out.words.emplace_back("product");
    }
    if (p.product.epilogue.program.present()) out.words.emplace_back("ops on its result");
    return out;
  }
  KernelRows RowsOf(const KernelSpec& spec, int64_t bucket) const override {
    return {ProblemOf(spec).Rows(bucket), 0};
  }
  // Parts of K are summed in an order that slices and clusters change.
  std::string RowOrder(const KernelSpec& spec) const override {
    const FourBitSchedule& s = ScheduleOf(spec);
    return absl::StrCat(ProblemOf(spec).ToString(), " slices", s.slices, " cl", s.split, "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override {
    return absl::FailedPreconditionError("sums are of slices of K, must be of all buckets' order");
  }

  absl::StatusOr<std::vector<OwnChoice>> RankOwn(const OwnRun& run, int64_t bucket,
                                                 const DeviceModel& model,
                                                 const SearchOptions& options,
                                                 bool replaces) const override {
    std::vector<RankedFourBit> ranked = SearchFourBit(Of(run), bucket, model);
    if (ranked.empty()) {
      return FailedPrecondition("rows are ", Of(run).Rows(bucket), ", must be at most ",
                                kMostFourBitRows, " of kernels that unpack weights of four bits");
    }
    const auto most = static_cast<size_t>(std::max(1, options.top_k));
    if (!replaces) ranked.resize(std::min(most, ranked.size()));
    return ChoicesOf(ranked);
  }
  CodeTexts TextsOfCode(const KernelCode& code) const override {
    return {Of(code).problem.ToString(), Of(code).schedule.ToString(false), kFourBitEntry};
  }
  absl::StatusOr<FourBitProduct> ProblemOfCode(const FourBitProduct& product) const override {
    FourBitProduct any = product;
    any.fixed_rows = 0;  // the recipe tells a launch its rows
    return any;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_FOUR_BIT_FAMILY_H_
