#include "src/chain/composites_four_bits.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

class FourBitExpander : public Expander {
 public:
  using Expander::Expander;

  // False, with the error set, unless w is bytes, and `scale` has a value for each group of a row.
  bool CheckWeights(ValueId w, ValueId scale) {
    if (!Check("w", w) || !CheckFloat("scale", scale)) return false;
    const TensorType &bytes = Type(w), &of_scale = Type(scale);
    if (bytes.dtype != DType::kS8) {
      Fail(InvalidField("dtype of w", NameOf(bytes.dtype), "s8, with two weights in a byte"));
    } else if (bytes.rank() == 0 || bytes.dims.back().symbolic) {
      Fail(InvalidField("w", ToString(bytes), "s8[..,k/2] with a constant last dimension"));
    } else if (of_scale.rank() != bytes.rank() || of_scale.dims.back().symbolic ||
               !std::equal(bytes.dims.begin(), bytes.dims.end() - 1, of_scale.dims.begin())) {
      Fail(InvalidField("scale", ToString(of_scale),
                        absl::StrCat("[..,groups] with the leading dims of w, ", ToString(bytes))));
    } else if (const int64_t k = 2 * bytes.dims.back().value; k % of_scale.dims.back().value != 0) {
      Fail(InvalidField("last dimension of scale", of_scale.dims.back().value,
                        absl::StrCat("a divisor of k, which is ", k)));
    }
    return ok();
  }
  // One number for all, or one for each of `scale`.
  bool CheckZero(ValueId zero, ValueId scale) {
    if (!CheckFloat("zero", zero)) return false;
    const TensorType &given = Type(zero), &like = Type(scale);
    if (given.rank() != 0 && given.dims != like.dims) {
      Fail(InvalidField("zero", ToString(given),
                        absl::StrCat("one number, or ", ToString(absl::MakeConstSpan(like.dims)),
                                     " as the scale is")));
    }
    return ok();
  }

  // The codes, 0 to 15 as f32 [.., groups, k / groups]: of each byte first its low four bits.
  ValueId Codes(ValueId w, ValueId scale) {
    if (!ok()) return kNoValue;
    const ValueId byte = Widen(w), sixteen = Scalar(16);
    const ValueId high = Unary(UnaryKind::kFloor, Mul(byte, Scalar(1.0 / 16)));  // -8 to 7
    const ValueId low = Sub(byte, Mul(high, sixteen));
    const ValueId negative = Less(high, 0);
    const ValueId code = Where(negative, Add(high, sixteen), high);
    if (!ok()) return kNoValue;
    std::vector<Dim> dims = Type(w).dims;
    dims.push_back(Dim::Constant(1));
    const ValueId first = Reshape(low, dims), second = Reshape(code, dims);
    if (!ok()) return kNoValue;
    const int axis = static_cast<int>(dims.size()) - 1;
    return Grouped(Take(builder().Concat({first, second}, axis)), w, scale);
  }
  // `x`, a value for each group or one number, as f32 for each of `codes`.
  ValueId OfGroups(ValueId x, ValueId codes) {
    const ValueId wide = Widen(x);
    if (!ok() || Type(wide).rank() == 0) return wide;
    std::vector<Dim> dims = Type(wide).dims;
    dims.push_back(Dim::Constant(1));
    return Spread(Reshape(wide, dims), codes);
  }
  // Groups side by side: [.., k].
  ValueId Joined(ValueId grouped, ValueId w) {
    if (!ok()) return kNoValue;
    std::vector<Dim> dims = Type(w).dims;
    dims.back() = Dim::Constant(2 * dims.back().value);
    return Reshape(grouped, dims);
  }

  ValueId Less(ValueId x, double bound) {
    const ValueId most = Scalar(bound);
    return Compare(CompareKind::kLt, x, most);
  }
  ValueId Max(ValueId a, ValueId b) { return Binary(BinaryKind::kMax, a, b); }

 private:
  ValueId Grouped(ValueId codes, ValueId w, ValueId scale) {
    if (!ok()) return kNoValue;
    std::vector<Dim> dims = Type(scale).dims;
    dims.push_back(Dim::Constant(2 * Type(w).dims.back().value / dims.back().value));
    return Reshape(codes, dims);
  }
};

// The number of a code of e2m1: a sign, then 0 .5 1 1.5 2 3 4 6, which three lines bound from
// below.
ValueId NumberOfE2M1(FourBitExpander& e, ValueId code) {
  const ValueId positive = e.Less(code, 8);
  const ValueId eight = e.Scalar(8);
  const ValueId magnitude = e.Where(positive, code, e.Sub(code, eight));
  const ValueId half = e.Mul(magnitude, e.Scalar(0.5));
  const ValueId middle = e.Sub(magnitude, e.Scalar(2));
  const ValueId steep = e.Sub(e.Mul(magnitude, e.Scalar(2)), eight);
  const ValueId value = e.Max(e.Max(half, middle), steep);
  return e.Where(positive, value, e.Unary(UnaryKind::kNeg, value));
}

}  // namespace

absl::StatusOr<ValueId> AddDequantizeU4(ChainBuilder& b, ValueId w, ValueId scale, ValueId zero) {
  FourBitExpander e(b, "dequantize_u4");
  if (!e.CheckWeights(w, scale) || !e.CheckZero(zero, scale)) return e.Finish(kNoValue);
  const ValueId codes = e.Codes(w, scale);
  const ValueId number = e.Sub(codes, e.OfGroups(zero, codes));
  return e.Finish(e.Joined(e.Mul(number, e.OfGroups(scale, codes)), w));
}

absl::StatusOr<ValueId> AddDequantizeE2M1(ChainBuilder& b, ValueId w, ValueId scale) {
  FourBitExpander e(b, "dequantize_e2m1");
  if (!e.CheckWeights(w, scale)) return e.Finish(kNoValue);
  const ValueId codes = e.Codes(w, scale);
  const ValueId number = NumberOfE2M1(e, codes);
  return e.Finish(e.Joined(e.Mul(number, e.OfGroups(scale, codes)), w));
}

}  // namespace sinter
