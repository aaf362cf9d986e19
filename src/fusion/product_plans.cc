#include "src/fusion/product_plans.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/ceil_div.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kRegionAlignment = 1024;
constexpr int kRegions = 3;

uint64_t ResultBytes(const ProductsView& view, int64_t bucket, int product) {
  const int64_t columns = view.steps[static_cast<size_t>(product)].n;
  return RoundUp(bucket * columns * SizeOf(view.dtype), kRegionAlignment);
}

// Largest result that takes a turn in `region`.
uint64_t RegionBytes(const ProductsView& view, int64_t bucket, int region) {
  uint64_t most = 0;
  for (int i = region; i + 1 < view.size(); i += kRegions) {
    most = std::max(most, ResultBytes(view, bucket, i));
  }
  return most;
}

absl::Status CheckStride(const std::string& name, int input, int64_t stride) {
  if (input < 0 || stride % 8 == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " (input ", input, "): row stride ", stride, " is not a multiple of 8"));
}

// Fills in the operands of one plan's kernels.
class Binder {
 public:
  Binder(const ProductsView& view, int num_inputs, int64_t bucket, Plan* plan)
      : view_(view), num_inputs_(num_inputs), bucket_(bucket), plan_(*plan) {}

  void BindKernel(const Segment& segment, KernelSpec* spec) {
    const ProductStep& first = StepAt(segment.begin);
    if (segment.begin == 0) {
      Input(Role::kA, view_.a, view_.ld_a, spec);
    } else {
      Intermediate(Role::kA, segment.begin - 1, spec);
    }
    Input(Role::kW1, first.w, first.ld_w, spec);
    Input(Role::kWUp, first.w_up, first.ld_w_up, spec);
    Input(Role::kB1, first.b, 0, spec);
    Input(Role::kBUp, first.b_up, 0, spec);
    Input(Role::kFactor1, first.factor, 1, spec);
    if (segment.count == 2) {
      const ProductStep& second = StepAt(segment.begin + 1);
      Input(Role::kW2, second.w, second.ld_w, spec);
      Input(Role::kB2, second.b, 0, spec);
      Input(Role::kFactor2, second.factor, 1, spec);
    }
    const ProductStep& last = StepAt(segment.end() - 1);
    Input(Role::kResidual, last.residual, last.ld_residual, spec);
    if (segment.end() == view_.size()) {
      Input(Role::kOut, num_inputs_ + view_.output, view_.ld_out, spec);
    } else {
      Intermediate(Role::kOut, segment.end() - 1, spec);
    }
    if (WritesC(spec->schedule)) Intermediate(Role::kC, segment.begin, spec);
    if (spec->schedule.clusters_n > 1) Parts(spec);
  }

 private:
  const ProductStep& StepAt(int i) const { return view_.steps[static_cast<size_t>(i)]; }
  static void Input(Role role, int buffer, int64_t row_stride, KernelSpec* spec) {
    if (buffer >= 0) spec->operands.push_back({role, buffer, 0, row_stride});
  }
  void Intermediate(Role role, int product, KernelSpec* spec) {
    const WorkspaceRegion region = RegionOf(view_, bucket_, product);
    spec->operands.push_back({role, kWorkspaceBuffer, region.offset, StepAt(product).n});
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, region.end());
  }

  // Behind the results: parts are no result, and may be larger than any.
  void Parts(KernelSpec* spec) {
    uint64_t offset = kWorkspaceFlagBytes;
    for (int r = 0; r < kRegions; ++r) offset += RegionBytes(view_, bucket_, r);
    spec->operands.push_back({Role::kParts, kWorkspaceBuffer, offset, 0});
    const auto bytes = static_cast<uint64_t>(SizesOf(spec->problem, spec->schedule).parts_bytes);
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, offset + bytes);
  }

  const ProductsView& view_;
  const int num_inputs_;
  const int64_t bucket_;
  Plan& plan_;
};

Scaling ScalingOf(const ProductStep& step) {
  Scaling scaling;
  scaling.constant = static_cast<float>(step.scale);
  if (step.has_factor()) {
    scaling.rows = step.factor_dtype == DType::kF32 ? RowFactor::kF32 : RowFactor::kElement;
  }
  return scaling;
}

Residual ResidualOf(const ProductStep& last) {
  if (!last.has_residual()) return Residual::kNone;
  return last.rounds_sum ? Residual::kAddedRounded : Residual::kAdded;
}

}  // namespace

bool CanPair(const ProductsView& view, int first) {
  if (view.steps[static_cast<size_t>(first)].has_residual()) return false;
  const ProductStep& second = view.steps[static_cast<size_t>(first) + 1];
  return !second.gated && second.act == Activation::kIdentity;
}

FfnProblem ProblemOf(const ProductsView& view, const Segment& segment, int64_t bucket) {
  const ProductStep& first = view.steps[static_cast<size_t>(segment.begin)];
  FfnProblem p;
  p.products = segment.count;
  p.gated = first.gated;
  p.activation = first.act;
  p.bias1 = first.bias();
  p.scaling1 = ScalingOf(first);
  p.layout = view.layout;
  p.dtype = view.dtype;
  p.n = first.n;
  p.k = first.k;
  p.bucket = bucket;
  if (segment.count == 2) {
    const ProductStep& second = view.steps[static_cast<size_t>(segment.begin) + 1];
    p.bias2 = second.bias();
    p.scaling2 = ScalingOf(second);
    p.l = second.n;
  }
  p.residual = ResidualOf(view.steps[static_cast<size_t>(segment.end()) - 1]);
  return p;
}

absl::Status CheckStrides(const ProductsView& view) {
  SINTER_RETURN_IF_ERROR(CheckStride("a", view.a, view.ld_a));
  for (size_t i = 0; i < view.steps.size(); ++i) {
    const ProductStep& step = view.steps[i];
    SINTER_RETURN_IF_ERROR(
        CheckStride(absl::StrCat(step.gated ? "w_gate" : "w", i + 1), step.w, step.ld_w));
    SINTER_RETURN_IF_ERROR(CheckStride(absl::StrCat("w_up", i + 1), step.w_up, step.ld_w_up));
  }
  return absl::OkStatus();
}

WorkspaceRegion RegionOf(const ProductsView& view, int64_t bucket, int product) {
  WorkspaceRegion region{kWorkspaceFlagBytes, ResultBytes(view, bucket, product)};
  for (int r = 0; r < product % kRegions; ++r) region.offset += RegionBytes(view, bucket, r);
  return region;
}

Plan MakePlan(const ProductsView& view, int num_inputs, int64_t bucket,
              const Segmentation& segments, const std::vector<RankedSchedule>& ranked) {
  Plan plan;
  plan.name = PairsOf(segments) > 0 ? "fused" : "unfused";
  plan.bucket = bucket;
  Binder binder(view, num_inputs, bucket, &plan);
  for (size_t i = 0; i < segments.size(); ++i) {
    PlannedKernel kernel;
    kernel.spec.family = segments[i].count == 2 ? KernelFamily::kChain : KernelFamily::kGemm;
    kernel.spec.problem = ProblemOf(view, segments[i], bucket);
    kernel.spec.schedule = ranked[i].schedule;
    kernel.spec.constant_weights = view.weights_constant;
    kernel.prediction = ranked[i].prediction;
    binder.BindKernel(segments[i], &kernel.spec);
    plan.kernels.push_back(std::move(kernel));
  }
  return plan;
}

}  // namespace sinter
