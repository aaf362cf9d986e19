#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/fusion/plan_assembly.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr uint64_t kRegionAlignment = 1024;
constexpr int kRegions = 3;

uint64_t ResultBytes(const ProductSequence& sequence, int product) {
  const MatrixProduct& p = sequence[product];
  return RoundUp(sequence.rows() * p.n * p.ResultBytes(), kRegionAlignment);
}

// The largest result that is stored in `region`.
uint64_t RegionBytes(const ProductSequence& sequence, int region) {
  uint64_t most = 0;
  for (int i = region; i + 1 < sequence.size(); i += kRegions) {
    most = std::max(most, ResultBytes(sequence, i));
  }
  return most;
}

// Tensor maps need rows of a multiple of 16 bytes. `vector`: elements in 16 bytes.
absl::Status CheckStride(const std::string& name, int input, int64_t stride, int vector) {
  if (input < 0 || stride % vector == 0) return absl::OkStatus();
  return Invalid(name, " (input ", input, "): row stride ", stride, " is not a multiple of ",
                 vector);
}

class Lister {
 public:
  explicit Lister(const MatchedSequence& matched) : matched_(matched) {}

  std::vector<RunOperand> Run(const Segment& segment, const Schedule& schedule) {
    const ProductInputs& first = matched_.InputsOf(segment.begin);
    if (segment.begin == 0) {
      Read(Role::kA, matched_.rows, matched_.rows_stride);
    } else {
      Result(Role::kA, segment.begin - 1);
    }
    Read(Role::kW, first.weights, first.weights_stride);
    Read(Role::kWUp, first.weights_up, first.weights_up_stride);
    Leaves(segment, 0);
    Read(Role::kScaleA, first.scale_rows, RowStrideOf(segment, Role::kScaleA));
    Read(Role::kScaleW, first.scale_weights, RowStrideOf(segment, Role::kScaleW));
    Read(Role::kScaleUp, first.scale_up, RowStrideOf(segment, Role::kScaleUp));
    const ProductInputs& last = matched_.InputsOf(segment.end() - 1);
    if (segment.count == 2) {
      Read(Role(Role::kW, 1), last.weights, last.weights_stride);
      Leaves(segment, 1);
      Read(Role(Role::kScaleW, 1), last.scale_weights, 0);
    }
    Read(Role::kGivenScale, last.given_scale, 0);
    Result(Role::kOut, segment.end() - 1);
    const MatrixProduct& end = matched_.sequence[segment.end() - 1];
    if (end.HasGroups()) {
      list_.push_back({Role::kScaleOut, RunOperand::Kind::kScales, -1, {}, end.n / kScaleBlock});
    }
    for (int i = 0; i < end.AuxResults(); ++i) {
      list_.push_back({Role(Role::kAux, 0, i),
                       RunOperand::Kind::kAux,
                       i,
                       {},
                       matched_.aux_strides[static_cast<size_t>(i)]});
    }
    if (WritesC(schedule)) Result(Role::kC, segment.begin);
    if (RangesOf(schedule) > 1) Parts(segment, schedule);
    return std::move(list_);
  }

 private:
  void Read(Role role, int number, int64_t row_stride) {
    if (number >= 0) list_.push_back({role, RunOperand::Kind::kOperand, number, {}, row_stride});
  }

  void Leaves(const Segment& segment, int product) {
    const int number = segment.begin + product;
    for (const Leaf& leaf : matched_.sequence[number].Leaves(product)) {
      const int64_t stride = leaf.kind == LeafKind::kMatrix
                                 ? matched_.InputsOf(number).residual_stride
                                 : leaf.kind == LeafKind::kRow;
      Read(leaf.role, matched_.NumberOf(number, leaf), stride);
    }
  }

  // The stride between rows of scales.
  int64_t RowStrideOf(const Segment& segment, Role role) const {
    return ScaleRowStride(matched_.sequence.Part(segment.begin, segment.count), role);
  }

  void Result(Role role, int product) {
    if (product + 1 == matched_.size()) {
      list_.push_back({role, RunOperand::Kind::kResult, -1, {}, matched_.output_stride});
      return;
    }
    list_.push_back({role, RunOperand::Kind::kWorkspace, -1, RegionOf(matched_.sequence, product),
                     matched_.sequence[product].n});
  }

  // After the results' regions: parts are not results and may be larger than any of them.
  void Parts(const Segment& segment, const Schedule& schedule) {
    WorkspaceRegion region;
    for (int r = 0; r < kRegions; ++r) region.offset += RegionBytes(matched_.sequence, r);
    const ProductSequence part = matched_.sequence.Part(segment.begin, segment.count);
    region.bytes = static_cast<uint64_t>(SizesOf(part, schedule).partial_out_bytes);
    list_.push_back({Role::kPartialOut, RunOperand::Kind::kWorkspace, -1, region, 0});
  }

  const MatchedSequence& matched_;
  std::vector<RunOperand> list_;
};

// A launch of more rows than the largest bucket is split into passes, and each pass sees its own m,
// not the launch's.
absl::Status CheckStridesOfM(const MatchedSequence& matched, const Chain& chain, int64_t bucket) {
  if (!matched.sequence.front().rows.scales.of_m) return absl::OkStatus();
  const int64_t largest = LargestBucketOf(chain);
  if (matched.m.symbolic && bucket < largest) return absl::OkStatus();
  return Invalid("strides of scale_a depend on M, which kernels read in buckets below ", largest,
                 ": give them as numbers");
}

}  // namespace

absl::Status CheckStrides(const MatchedSequence& matched, const Chain& chain, int64_t bucket) {
  SINTER_RETURN_IF_ERROR(CheckStridesOfM(matched, chain, bucket));
  const ProductSequence& sequence = matched.sequence;
  const auto vector = [](const Operand& operand) { return ElementOf(operand.element).vector; };
  SINTER_RETURN_IF_ERROR(
      CheckStride("a", matched.rows, matched.rows_stride, vector(sequence.front().rows)));
  for (int i = 0; i < sequence.size(); ++i) {
    const ProductInputs& in = matched.InputsOf(i);
    const int elements = vector(sequence[i].weights);
    SINTER_RETURN_IF_ERROR(
        CheckStride(absl::StrCat("w", i + 1), in.weights, in.weights_stride, elements));
    SINTER_RETURN_IF_ERROR(CheckStride(i == 0 ? "w_up" : absl::StrCat("w_up", i + 1), in.weights_up,
                                       in.weights_up_stride, elements));
  }
  return absl::OkStatus();
}

WorkspaceRegion RegionOf(const ProductSequence& sequence, int product) {
  WorkspaceRegion region{0, ResultBytes(sequence, product)};
  for (int r = 0; r < product % kRegions; ++r) region.offset += RegionBytes(sequence, r);
  return region;
}

std::vector<RunOperand> OperandsOf(const MatchedSequence& matched, const Segment& segment,
                                   const Schedule& schedule) {
  return Lister(matched).Run(segment, schedule);
}

}  // namespace sinter
