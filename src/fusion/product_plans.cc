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

uint64_t ResultBytes(const ProductSequence& sequence, int product) {
  const MatrixProduct& p = sequence[product];
  return RoundUp(sequence.rows() * p.n * p.ResultBytes(), kRegionAlignment);
}

// Largest result that takes a turn in `region`.
uint64_t RegionBytes(const ProductSequence& sequence, int region) {
  uint64_t most = 0;
  for (int i = region; i + 1 < sequence.size(); i += kRegions) {
    most = std::max(most, ResultBytes(sequence, i));
  }
  return most;
}

// Rows of tensor maps begin on 16 bytes. `vector`: elements in them.
absl::Status CheckStride(const std::string& name, int input, int64_t stride, int vector) {
  if (input < 0 || stride % vector == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " (input ", input, "): row stride ", stride,
                                                 " is not a multiple of ", vector));
}

// Fills in the operands of one plan's kernels.
class Binder {
 public:
  Binder(const MatchedSequence& matched, int num_inputs, Plan* plan)
      : matched_(matched), num_inputs_(num_inputs), plan_(*plan) {}

  void BindKernel(const Segment& segment, KernelSpec* spec) {
    const ProductInputs& first = matched_.InputsOf(segment.begin);
    if (segment.begin == 0) {
      Input(Role::kA, matched_.rows, matched_.rows_stride, spec);
    } else {
      Intermediate(Role::kA, segment.begin - 1, spec);
    }
    Input(Role::kW1, first.weights, first.weights_stride, spec);
    Input(Role::kWUp, first.weights_up, first.weights_up_stride, spec);
    Input(Role::kB1, first.bias, 0, spec);
    Input(Role::kBUp, first.bias_up, 0, spec);
    Input(Role::kFactor1, first.factor, 1, spec);
    const ProductInputs& last = matched_.InputsOf(segment.end() - 1);
    if (segment.count == 2) {
      Input(Role::kW2, last.weights, last.weights_stride, spec);
      Input(Role::kB2, last.bias, 0, spec);
      Input(Role::kFactor2, last.factor, 1, spec);
    }
    Input(Role::kResidual, last.residual, last.residual_stride, spec);
    if (segment.end() == matched_.size()) {
      Input(Role::kOut, num_inputs_ + matched_.output, matched_.output_stride, spec);
    } else {
      Intermediate(Role::kOut, segment.end() - 1, spec);
    }
    if (WritesC(spec->schedule)) Intermediate(Role::kC, segment.begin, spec);
    if (spec->schedule.clusters_n > 1) Parts(spec);
  }

 private:
  static void Input(Role role, int buffer, int64_t row_stride, KernelSpec* spec) {
    if (buffer >= 0) spec->operands.push_back({role, buffer, 0, row_stride});
  }
  void Intermediate(Role role, int product, KernelSpec* spec) {
    const WorkspaceRegion region = RegionOf(matched_.sequence, product);
    const int64_t stride = matched_.sequence[product].n;
    spec->operands.push_back({role, kWorkspaceBuffer, region.offset, stride});
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, region.end());
  }

  // Behind the results: parts are no result, and may be larger than any.
  void Parts(KernelSpec* spec) {
    uint64_t offset = kWorkspaceFlagBytes;
    for (int r = 0; r < kRegions; ++r) offset += RegionBytes(matched_.sequence, r);
    spec->operands.push_back({Role::kParts, kWorkspaceBuffer, offset, 0});
    const auto bytes = static_cast<uint64_t>(SizesOf(spec->sequence, spec->schedule).parts_bytes);
    plan_.workspace_bytes = std::max(plan_.workspace_bytes, offset + bytes);
  }

  const MatchedSequence& matched_;
  const int num_inputs_;
  Plan& plan_;
};

}  // namespace

absl::Status CheckStrides(const MatchedSequence& matched) {
  const ProductSequence& sequence = matched.sequence;
  const auto vector = [](const Operand& operand) { return ElementOf(operand.element).vector; };
  SINTER_RETURN_IF_ERROR(
      CheckStride("a", matched.rows, matched.rows_stride, vector(sequence.front().rows)));
  for (int i = 0; i < sequence.size(); ++i) {
    const ProductInputs& in = matched.InputsOf(i);
    const int elements = vector(sequence[i].weights);
    SINTER_RETURN_IF_ERROR(CheckStride(absl::StrCat(sequence[i].pair ? "w_gate" : "w", i + 1),
                                       in.weights, in.weights_stride, elements));
    SINTER_RETURN_IF_ERROR(
        CheckStride(absl::StrCat("w_up", i + 1), in.weights_up, in.weights_up_stride, elements));
  }
  return absl::OkStatus();
}

WorkspaceRegion RegionOf(const ProductSequence& sequence, int product) {
  WorkspaceRegion region{kWorkspaceFlagBytes, ResultBytes(sequence, product)};
  for (int r = 0; r < product % kRegions; ++r) region.offset += RegionBytes(sequence, r);
  return region;
}

Plan MakePlan(const MatchedSequence& matched, int num_inputs, const Segmentation& segments,
              const std::vector<RankedSchedule>& ranked) {
  Plan plan;
  plan.fused = PairsOf(segments) > 0;
  plan.bucket = matched.sequence.m;
  Binder binder(matched, num_inputs, &plan);
  for (size_t i = 0; i < segments.size(); ++i) {
    PlannedKernel kernel;
    kernel.spec.family = segments[i].count == 2 ? KernelFamily::kChain : KernelFamily::kGemm;
    kernel.spec.sequence = matched.sequence.Part(segments[i].begin, segments[i].count);
    kernel.spec.schedule = ranked[i].schedule;
    kernel.spec.constant_weights = matched.weights_constant;
    kernel.prediction = ranked[i].prediction;
    binder.BindKernel(segments[i], &kernel.spec);
    plan.kernels.push_back(std::move(kernel));
  }
  return plan;
}

}  // namespace sinter
