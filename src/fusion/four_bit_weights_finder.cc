#include "src/fusion/four_bit_weights_finder.h"

#include <vector>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites_four_bits.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {
namespace {

constexpr size_t kMostUnpackingOps = 64;  // of weights that are unpacked

class WeightsFinder {
 public:
  explicit WeightsFinder(const Chain& chain) : chain_(chain), graph_(chain) {}

  // `value` of 16 bits.
  std::optional<FoundFourBitWeights> Find(ValueId value) {
    const Op& cast = chain_.op(value);
    if (cast.kind != OpKind::kCast || !Collect(value)) return std::nullopt;
    dtype_ = cast.type.dtype;
    for (const bool packed : {false, true}) {
      if (packed && cast.type.rank() != 2) continue;
      for (const bool e2m1 : {false, true}) {
        found_.format.packed = packed;
        found_.format.e2m1 = e2m1;
        for (const ValueId scale : floats_) {
          found_.scale = scale;
          found_.zero = -1;
          if (e2m1 ? Matches(value, FourBitZero::kConstant, 0) : MatchesWithZero(value)) {
            return Finished(value);
          }
        }
      }
    }
    return std::nullopt;
  }

 private:
  // The inputs and numbers below `value`, and what leads to it. False where it may be no such
  // matrix.
  bool Collect(ValueId value) {
    found_ = FoundFourBitWeights();
    floats_.clear();
    numbers_.clear();
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Op& op = chain_.op(id);
      if (op.kind == OpKind::kScalar) {
        numbers_.insert(op.scalar);
      } else if (op.kind != OpKind::kInput) {
        if (!found_.values.insert(id).second) continue;
        if (found_.values.size() > kMostUnpackingOps) return false;
        open.insert(open.end(), op.operands.begin(), op.operands.end());
      } else if (op.type.dtype == DType::kS8) {
        if (found_.bytes >= 0 && found_.bytes != id) return false;
        found_.bytes = id;
      } else {
        if (!IsFloat(op.type.dtype)) return false;
        floats_.insert(id);
      }
    }
    return found_.bytes >= 0 && floats_.size() <= 2;
  }

  // Codes of u4, whose zero may be any number or input.
  bool MatchesWithZero(ValueId value) {
    for (const double number : numbers_) {
      if (Matches(value, FourBitZero::kConstant, number)) return true;
    }
    for (const ValueId zero : floats_) {
      found_.zero = zero;
      const bool one = chain_.op(zero).type.rank() == 0;
      if (Matches(value, one ? FourBitZero::kNumber : FourBitZero::kGroups, 0)) return true;
    }
    return false;
  }

  absl::StatusOr<Chain> Pattern(FourBitZero kind, double number) const {
    const auto type = [&](ValueId id) { return chain_.op(id).type; };
    ChainBuilder b;
    SINTER_ASSIGN_OR_RETURN(const ValueId bytes, b.Input(type(found_.bytes)));
    SINTER_ASSIGN_OR_RETURN(const ValueId scale, b.Input(type(found_.scale)));
    absl::StatusOr<ValueId> wide;
    if (found_.format.e2m1) {
      wide = found_.format.packed ? AddDequantizeE2M1Packed(b, bytes, scale)
                                  : AddDequantizeE2M1(b, bytes, scale);
    } else {
      SINTER_ASSIGN_OR_RETURN(const ValueId zero, kind == FourBitZero::kConstant
                                                      ? b.Scalar(number)
                                                      : b.Input(type(found_.zero)));
      wide = found_.format.packed ? AddDequantizeU4Packed(b, bytes, scale, zero)
                                  : AddDequantizeU4(b, bytes, scale, zero);
    }
    SINTER_RETURN_IF_ERROR(wide.status());
    SINTER_ASSIGN_OR_RETURN(const ValueId value, b.Cast(*wide, dtype_));
    SINTER_RETURN_IF_ERROR(b.Output(value));
    return b.Finish();
  }

  // Whether the composite of these operands computes `value`.
  bool Matches(ValueId value, FourBitZero kind, double number) {
    const absl::StatusOr<Chain> pattern = Pattern(kind, number);
    if (!pattern.ok()) return false;
    found_.format.zero = kind;
    found_.format.zero_value = number;
    std::vector<ValueId> want = {found_.bytes, found_.scale};
    if (found_.zero >= 0) want.push_back(found_.zero);
    const std::vector<int32_t> canonical = pattern->CallerOrder();
    return MatchPattern(
        graph_, value, *pattern,
        [&](const std::vector<ValueId>& bound) {
          for (size_t i = 0; i < want.size(); ++i) {
            if (bound[static_cast<size_t>(canonical[i])] != want[i]) return false;
          }
          return true;
        },
        true);
  }

  // With what follows from the operands; none where they lie in another way than kernels read.
  std::optional<FoundFourBitWeights> Finished(ValueId value) {
    const size_t columns = static_cast<size_t>(chain_.op(value).type.rank()) - 2;
    const auto lies = [&](ValueId id, int64_t* expert, int64_t* column) {
      const std::vector<Stride>& strides = chain_.op(id).strides;
      for (const Stride& stride : strides) {
        if (stride.m_power != 0) return false;
      }
      const bool one = chain_.op(id).type.dims.back() == Dim::Constant(1);
      if (columns > 0) *expert = strides[0].value;
      *column = strides[columns].value;
      return one || strides.back().value == 1;
    };
    FourBitWeights& w = found_.format;
    const Op& scale = chain_.op(found_.scale);
    const std::vector<Dim>& groups = scale.type.dims;
    w.group = chain_.op(value).type.dims.back().value /
              (w.packed ? groups.front().value : groups.back().value);
    w.scale = scale.type.dtype;
    w.constant = chain_.op(found_.bytes).constant && scale.constant;
    w.zero_type = w.scale;
    if (!lies(found_.bytes, &w.byte_expert, &w.byte_stride) ||
        !lies(found_.scale, &w.scale_expert, &w.scale_stride)) {
      return std::nullopt;
    }
    if (found_.zero < 0) return found_;
    const Op& zero = chain_.op(found_.zero);
    w.zero_type = zero.type.dtype;
    w.constant = w.constant && zero.constant;
    if (w.zero == FourBitZero::kGroups && !lies(found_.zero, &w.zero_expert, &w.zero_stride)) {
      return std::nullopt;
    }
    return found_;
  }

  const Chain& chain_;
  const Subgraph graph_;
  DType dtype_ = DType::kBF16;  // of the matrix
  FoundFourBitWeights found_;
  std::set<ValueId> floats_;
  std::set<double> numbers_;
};

}  // namespace

std::optional<FoundFourBitWeights> FindFourBitWeights(const Chain& chain, ValueId value, int rank) {
  if (chain.op(value).type.rank() != rank) return std::nullopt;
  return WeightsFinder(chain).Find(value);
}

}  // namespace sinter
