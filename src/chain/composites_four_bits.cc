#include "src/chain/composites_four_bits.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/code_expander.h"

namespace sinter {
namespace {

class FourBitExpander : public CodeExpander {
 public:
  using CodeExpander::CodeExpander;

  // False, with the error set, unless w is of s8 and `scale` is floating.
  bool CheckTypes(ValueId w, ValueId scale) {
    if (!Check("w", w) || !CheckFloat("scale", scale)) return false;
    const DType dtype = Type(w).dtype;
    if (dtype == DType::kS8) return true;
    Fail(InvalidField("dtype of w", NameOf(dtype), "s8, with two weights in a byte"));
    return false;
  }
  // False, with the error set, unless w is bytes, and `scale` has a value for each group of a row.
  bool CheckWeights(ValueId w, ValueId scale) {
    if (!CheckTypes(w, scale)) return false;
    const TensorType &bytes = Type(w), &of_scale = Type(scale);
    if (bytes.rank() == 0 || bytes.dims.back().symbolic) {
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
    const Halves codes = HalvesOf(w);
    if (!ok()) return kNoValue;
    std::vector<Dim> dims = Type(w).dims;
    dims.push_back(Dim::Constant(1));
    const ValueId low = Reshape(codes.low, dims), high = Reshape(codes.high, dims);
    return Grouped(Concat(low, high, static_cast<int>(dims.size()) - 1), w, scale);
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

  ValueId Max(ValueId a, ValueId b) { return Binary(BinaryKind::kMax, a, b); }

 private:
  ValueId Grouped(ValueId codes, ValueId w, ValueId scale) {
    if (!ok()) return kNoValue;
    std::vector<Dim> dims = Type(scale).dims;
    dims.push_back(Dim::Constant(2 * Type(w).dims.back().value / dims.back().value));
    return Reshape(codes, dims);
  }
};

// Packed weights: [n, k] from bytes and scales in the order of kernels.
class PackedExpander : public FourBitExpander {
 public:
  using FourBitExpander::FourBitExpander;

  bool CheckPacked(ValueId w, ValueId scale) {
    if (!CheckTypes(w, scale)) return false;
    const TensorType &bytes = Type(w), &of_scale = Type(scale);
    const auto constant = [](const TensorType& type) {
      return type.rank() == 2 && !type.dims[0].symbolic && !type.dims[1].symbolic;
    };
    if (!constant(bytes) || bytes.dims[1].value % (8 * kColumns) != 0) {
      Fail(InvalidField("w", ToString(bytes), "s8[k/16,8n] with n a multiple of 64"));
    } else if (n_ = bytes.dims[1].value / 8, k_ = bytes.dims[0].value * kRows;
               !constant(of_scale) || of_scale.dims[1].value != n_) {
      Fail(InvalidField("scale", ToString(of_scale),
                        absl::StrCat("[groups,", n_, "], as w has ", n_, " columns")));
    } else if (groups_ = of_scale.dims[0].value; k_ % groups_ != 0) {
      Fail(InvalidField("first dimension of scale", groups_,
                        absl::StrCat("a divisor of k, which is ", k_)));
    }
    return ok();
  }

  // 0 to 15 as f32 [n, groups, k / groups].
  ValueId PackedCodes(ValueId w) {
    const Halves codes = HalvesOf(w);
    const std::vector<Dim> half = Dims({n_, k_ / kRows, 1, kRows / 2});
    const ValueId low = Reshape(Columns(codes.low), half);
    const ValueId high = Reshape(Columns(codes.high), half);
    return Reshape(Concat(low, high, 2), Dims({n_, groups_, k_ / groups_}));
  }
  // `x`, [groups, n] or one number, as f32 for each of `codes`.
  ValueId OfPackedGroups(ValueId x, ValueId codes) {
    const ValueId wide = Widen(x);
    if (!ok() || Type(wide).rank() == 0) return wide;
    const ValueId places = Reshape(wide, Dims({groups_, n_ / kColumns, 8, 8}));
    return Spread(Reshape(Transpose(places, {1, 3, 2, 0}), Dims({n_, groups_, 1})), codes);
  }
  ValueId Matrix(ValueId grouped) { return Reshape(grouped, Dims({n_, k_})); }

 private:
  static constexpr int64_t kColumns = 64, kRows = 16;  // of n and k in 512 bytes

  // One code of each byte as [n, k / 16, 8]. The first transposition sorts all columns except those
  // of a lane, the second sorts the lanes' columns and elements of k.
  ValueId Columns(ValueId codes) {
    const int64_t sets = n_ / kColumns, rows = k_ / kRows;
    const ValueId bytes = Reshape(codes, Dims({rows, sets, 32, 4, 2, 2}));
    const ValueId sorted = Transpose(bytes, {1, 3, 5, 2, 0, 4});
    const ValueId lanes = Reshape(sorted, Dims({n_ / 8, 8, 4, rows, 2}));
    return Transpose(lanes, {0, 1, 3, 2, 4});
  }

  int64_t n_ = 0, k_ = 0, groups_ = 0;
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

absl::StatusOr<ValueId> AddDequantizeU4Packed(ChainBuilder& b, ValueId w, ValueId scale,
                                              ValueId zero) {
  PackedExpander e(b, "dequantize_u4_packed");
  if (!e.CheckPacked(w, scale) || !e.CheckZero(zero, scale)) return e.Finish(kNoValue);
  const ValueId codes = e.PackedCodes(w);
  const ValueId number = e.Sub(codes, e.OfPackedGroups(zero, codes));
  return e.Finish(e.Matrix(e.Mul(number, e.OfPackedGroups(scale, codes))));
}

absl::StatusOr<ValueId> AddDequantizeE2M1Packed(ChainBuilder& b, ValueId w, ValueId scale) {
  PackedExpander e(b, "dequantize_e2m1_packed");
  if (!e.CheckPacked(w, scale)) return e.Finish(kNoValue);
  const ValueId codes = e.PackedCodes(w);
  const ValueId number = NumberOfE2M1(e, codes);
  return e.Finish(e.Matrix(e.Mul(number, e.OfPackedGroups(scale, codes))));
}

}  // namespace sinter
