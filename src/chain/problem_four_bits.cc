// Kinds of problems whose weights have four bits.
#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"
#include "src/chain/composites_four_bits.h"
#include "src/chain/expander.h"
#include "src/chain/problem_kinds.h"

namespace sinter {
namespace {

// A chain of weights of four bits; inputs are added in the documented order.
class FourBitChain : public WholeChain {
 public:
  explicit FourBitChain(const FieldValues& v) : WholeChain(DTypeOf(v)), v_(v), dtype_(DTypeOf(v)) {}

  // [rows, columns] of the chain's dtype, from bytes, scales and zeros; of each expert if there are
  // some.
  ValueId Weights(const std::string& name, int64_t rows, int64_t columns, int64_t experts = 0) {
    const int64_t group = v_.Extent("group");
    const bool packed = experts == 0 && v_.Flag("packed");
    if (packed && (rows % 64 != 0 || columns % 16 != 0)) {
      Fail(InvalidFields(absl::StrCat("rows and columns of ", name),
                         absl::StrCat(rows, " and ", columns),
                         "multiples of 64 and of 16 with packed=1"));
      return kNoValue;
    }
    if (columns % 2 != 0 || columns % group != 0) {
      Fail(InvalidFields(absl::StrCat("columns of ", name), columns,
                         absl::StrCat("an even multiple of group, which is ", group)));
      return kNoValue;
    }
    std::vector<int64_t> of_bytes = {rows, columns / 2}, of_groups = {rows, columns / group};
    if (packed) of_bytes = {columns / 16, 8 * rows}, of_groups = {columns / group, rows};
    for (std::vector<int64_t>* dims : {&of_bytes, &of_groups}) {
      if (experts > 0) dims->insert(dims->begin(), experts);
    }
    const ValueId bytes = Constant(name, of_bytes, true, DType::kS8);
    const ValueId scale = Constant(absl::StrCat("scale_", name), of_groups);
    if (v_.Name("codes") == "e2m1") {
      return Rounded(packed ? AddDequantizeE2M1Packed(b(), bytes, scale)
                            : AddDequantizeE2M1(b(), bytes, scale));
    }
    const ValueId zero =
        v_.Flag("zeros") ? Constant(absl::StrCat("zero_", name), of_groups) : Take(b().Scalar(8));
    return Rounded(packed ? AddDequantizeU4Packed(b(), bytes, scale, zero)
                          : AddDequantizeU4(b(), bytes, scale, zero));
  }

 private:
  ValueId Rounded(const absl::StatusOr<ValueId>& wide) {
    const ValueId value = Take(wide);
    return value == kNoValue ? kNoValue : Take(b().Cast(value, dtype_));
  }

  const FieldValues& v_;
  const DType dtype_;
};

absl::Status CheckZeros(const FieldValues& v) {
  if (v.Flag("zeros") && v.Name("codes") != "u4") {
    return InvalidField("zeros", 1, "0 for codes=e2m1");
  }
  return absl::OkStatus();
}

absl::StatusOr<Chain> MakeFourBitMatmul(const FieldValues& v) {
  SINTER_RETURN_IF_ERROR(CheckZeros(v));
  FourBitChain c(v);
  const int64_t n = v.Extent("n"), k = v.Extent("k");
  const ValueId a = c.Rows("a", k);
  const ValueId w = c.Weights("w", n, k);
  const ValueId bias = c.Constant("bias1", {n}, v.Flag("bias1"));
  return c.Finish(AddLinear(c.b(), a, w, bias, Layout::kOI, ActOf(v)));
}

absl::StatusOr<Chain> MakeFourBitGatedFfn(const FieldValues& v) {
  SINTER_RETURN_IF_ERROR(CheckZeros(v));
  FourBitChain c(v);
  const int64_t n = v.Extent("n"), k = v.Extent("k"), l = v.Extent("l");
  GatedFfnOperands in;
  in.a = c.Rows("a", k);
  in.w_gate = c.Weights("w_gate", n, k);
  in.w_up = c.Weights("w_up", n, k);
  in.w_down = c.Weights("w_down", l, n);
  c.Output(c.Take(AddGatedFfn(c.b(), in, ActOf(v), Layout::kOI)));  // which rounds
  return c.Finish();
}

absl::StatusOr<Chain> MakeFourBitGroupedFfn(const FieldValues& v) {
  SINTER_RETURN_IF_ERROR(CheckZeros(v));
  FourBitChain c(v);
  return FinishGroupedFfn(c, v, Layout::kOI, [&](const char* name, int64_t columns, int64_t k) {
    return c.Weights(name, columns, k, v.Extent("experts"));
  });
}

const FieldSpec kFourBitCodes{"codes", FieldType::kName, "u4", "of four bits", "u4 e2m1"};
const FieldSpec kGroup{"group", FieldType::kExtent, nullptr,
                       "neighbours of a row that share a scale"};
const FieldSpec kPacked{"packed", FieldType::kFlag, "0",
                        "whether weights lie as kernels read them, the order of Marlin"};
const FieldSpec kZeros{"zeros", FieldType::kFlag, "0",
                       "whether groups of u4 have zeros of their own; else they are 8"};

}  // namespace

std::vector<KindSpec> FourBitKinds() {
  return {
      {"four_bit_matmul",
       {kM, kN, kK, kGroup, kFourBitCodes, kZeros, kPacked, kOptionalAct, kDType, kBias1},
       MakeFourBitMatmul,
       "act(a w + bias1) of weights of four bits, two in a byte",
       "a[m,k] w*[n,k/2] of s8, scale_w*[n,k/group], with zeros=1 zero_w*[n,k/group], with bias1=1 "
       "bias1*[n]; with packed=1 w*[k/16,8 n] and [k/group,n] of scales and zeros"},
      {"four_bit_gated_ffn",
       {kM, kN, kK, kL, kAct, kGroup, kFourBitCodes, kZeros, kPacked, kDType},
       MakeFourBitGatedFfn,
       "c w_down with c = act(a w_gate) * (a w_up), of weights of four bits, two in a byte",
       "a[m,k] w_gate*[n,k/2] of s8, scale_w_gate*[n,k/group], with zeros=1 "
       "zero_w_gate*[n,k/group], the same of w_up* and w_down*[l,n/2]; with packed=1 as in "
       "four_bit_matmul"},
      {"four_bit_grouped_gated_ffn",
       {kM, kExperts, kTop, kN, kK, kL, kAct, kOrder, kWeight, kGroup, kFourBitCodes, kZeros,
        kDType, kBias1, kBias2, kAlpha, kBeta, kLimit},
       MakeFourBitGroupedFfn,
       "grouped_gated_ffn with weights of four bits, two in a byte",
       "x[m,k] ids[m,top] of s32, weights[m,top] of f32, w1*[experts,2 n,k/2] of s8, "
       "scale_w1*[experts,2 n,k/group], with zeros=1 zero_w1* of the same, with bias1=1 "
       "bias1*[experts,2 n], the same of w2*[experts,l,n/2]"},
  };
}

}  // namespace sinter
