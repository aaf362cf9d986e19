#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

// Whether `field` is a batch of matrices whose last but one or last axis is `extent`.
bool CheckMatrices(Expander& e, absl::string_view field, ValueId id, const TensorType& like,
                   absl::string_view what) {
  if (!e.CheckFloat(field, id)) return false;
  const TensorType& type = e.Type(id);
  if (type.rank() < 2) {
    e.Fail(absl::StrCat(field, " is ", ToString(type), ", must be ", what));
  } else if (type.dtype != like.dtype) {
    e.Fail(absl::StrCat(field, " is ", ToString(type), ", must have q's dtype, ",
                        NameOf(like.dtype), ": cast it"));
  }
  return e.ok();
}

void CheckEqual(Expander& e, absl::string_view field, const TensorType& type, size_t axis,
                absl::string_view of, const TensorType& other, size_t other_axis) {
  if (type.dims[axis] == other.dims[other_axis]) return;
  e.Fail(absl::StrCat(
      field, " is ", ToString(type), ", must have ", ToString(other.dims[other_axis]),
      axis + 1 == type.dims.size() ? " columns" : " rows", ": ", of, " is ", ToString(other)));
}

// A pred with the dims of `like`: false where a key lies behind its row.
ValueId SeenKeys(Expander& e, ValueId like) {
  if (!e.ok()) return kNoValue;
  const std::vector<Dim>& dims = e.Type(like).dims;
  const std::vector<Dim> matrix(dims.end() - 2, dims.end());
  const ValueId row = e.Take(e.builder().Iota(matrix, 0, DType::kS32));
  if (!e.ok()) return kNoValue;
  const ValueId key = e.Take(e.builder().Iota(matrix, 1, DType::kS32));
  if (!e.ok()) return kNoValue;
  return e.Spread(e.Take(e.builder().Compare(CompareKind::kGe, row, key)), like);
}

// z where `seen`, else -infinity.
ValueId Where(Expander& e, ValueId seen, ValueId z) {
  const ValueId hidden = e.Spread(e.Scalar(-std::numeric_limits<double>::infinity()), z);
  return e.ok() ? e.Take(e.builder().Select(seen, z, hidden)) : kNoValue;
}

}  // namespace

absl::StatusOr<ValueId> AddAttention(ChainBuilder& b, ValueId q, ValueId k, ValueId v,
                                     const AttentionOptions& options) {
  Expander e(b, "attention");
  if (!e.CheckFloat("q", q)) return e.Finish(q);
  const TensorType q_type = e.Type(q);
  if (!CheckMatrices(e, "q", q, q_type, "[.., rows, d]") ||
      !CheckMatrices(e, "k", k, q_type, "[.., keys, d]") ||
      !CheckMatrices(e, "v", v, q_type, "[.., keys, e]")) {
    return e.Finish(q);
  }
  const TensorType k_type = e.Type(k), v_type = e.Type(v);
  CheckEqual(e, "k", k_type, k_type.dims.size() - 1, "q", q_type, q_type.dims.size() - 1);
  if (e.ok())
    CheckEqual(e, "v", v_type, v_type.dims.size() - 2, "k", k_type, k_type.dims.size() - 2);
  const Dim d = q_type.dims.back();
  if (e.ok() && options.scale == 0 && d.symbolic) {
    e.Fail("scale is 0, and the last dimension of q is M: give the scale");
  }
  double scale = options.scale;
  if (e.ok() && scale == 0) scale = 1 / std::sqrt(static_cast<double>(d.value));
  const float narrow = static_cast<float>(scale);
  if (e.ok() && (!std::isfinite(narrow) || narrow == 0)) {
    e.Fail(absl::StrCat("scale is ", scale, ", must be finite and not 0 in f32"));
  }
  if (!e.ok()) return e.Finish(q);
  ValueId z = e.TakeAs("q times k", b.Matmul(q, k, false, true));
  z = e.Mul(e.Scalar(scale), z);
  if (options.bias != kNoValue && e.Check("bias", options.bias) &&
      e.Type(options.bias).dtype == DType::kPred) {
    e.Fail(absl::StrCat("bias is ", ToString(e.Type(options.bias)),
                        ", must be a number, which is added: a pred is a mask"));
  }
  if (options.bias != kNoValue) z = e.Add(z, e.SpreadOperand("bias", options.bias, z, true));
  if (options.mask != kNoValue && e.Check("mask", options.mask)) {
    const TensorType& type = e.Type(options.mask);
    if (type.dtype != DType::kPred) {
      e.Fail(absl::StrCat("mask is ", ToString(type), ", must be pred: numbers are a bias"));
    } else if (!InferBroadcast(type, e.Type(z).dims).ok()) {
      e.Fail(absl::StrCat("mask is ", ToString(type), ", must broadcast to the scores' ",
                          ToString(absl::MakeConstSpan(e.Type(z).dims))));
    }
    if (e.ok()) z = Where(e, e.Spread(options.mask, z), z);
  }
  if (options.causal) z = Where(e, SeenKeys(e, z), z);
  if (!e.ok()) return e.Finish(q);
  ValueId p = e.Take(AddSoftmax(b, z, -1));
  if (e.ok() && v_type.dtype != DType::kF32) p = e.Cast(p, v_type.dtype);
  return e.Finish(e.ok() ? e.TakeAs("probabilities times v", b.Matmul(p, v)) : kNoValue);
}

}  // namespace sinter
