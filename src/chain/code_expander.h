// CodeExpander: bytes and the two codes of four bits that each holds, for composites.
#ifndef SINTER_SRC_CHAIN_CODE_EXPANDER_H_
#define SINTER_SRC_CHAIN_CODE_EXPANDER_H_

#include <cstdint>
#include <vector>

#include "src/chain/expander.h"

namespace sinter {

class CodeExpander : public Expander {
 public:
  using Expander::Expander;

  // The codes of each byte, 0 to 15 as f32: of its low four bits, and of its high ones.
  struct Halves {
    ValueId low = kNoValue, high = kNoValue;
  };
  Halves HalvesOf(ValueId w) {
    if (!ok()) return {};
    const ValueId byte = Widen(w), sixteen = Scalar(16);
    const ValueId high = Unary(UnaryKind::kFloor, Mul(byte, Scalar(1.0 / 16)));  // -8 to 7
    const ValueId low = Sub(byte, Mul(high, sixteen));
    const ValueId negative = Less(high, 0);
    return {low, Where(negative, Add(high, sixteen), high)};
  }
  // Side by side along `axis`, which has extent 1.
  ValueId Concat(ValueId first, ValueId second, int axis) {
    return ok() ? Take(builder().Concat({first, second}, axis)) : kNoValue;
  }
  ValueId Transpose(ValueId x, const std::vector<int32_t>& axes) {
    return ok() ? Take(builder().Transpose(x, axes)) : kNoValue;
  }

  static std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) dims.push_back(Dim::Constant(extent));
    return dims;
  }
  ValueId ReshapeTo(ValueId x, const std::vector<int64_t>& extents) {
    return Reshape(x, Dims(extents));
  }
  ValueId Less(ValueId x, double bound) {
    const ValueId most = Scalar(bound);
    return Compare(CompareKind::kLt, x, most);
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CODE_EXPANDER_H_
