#include "src/chain/composites_packing.h"

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/chain/code_expander.h"

namespace sinter {
namespace {

constexpr int64_t kSet = 64, kStep = 16;  // of n and k: 512 bytes of packed codes
constexpr int64_t kWord = 8;              // codes in 32 bits

bool IsGptq(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kGptq || checkpoint == Checkpoint::kGptqV2;
}
// Whether a row of codes and of scales belongs to one of n.
bool HasRowsOfN(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kRows || checkpoint == Checkpoint::kCompressedTensors;
}

class PackExpander : public CodeExpander {
 public:
  PackExpander(ChainBuilder& b, absl::string_view name, Checkpoint checkpoint)
      : CodeExpander(b, name), checkpoint_(checkpoint) {}

  // False, with the error set, unless `id` is a matrix, of s8 with `bytes` and else floating, whose
  // constant extents are multiples of `rows` and of `columns`; `shape` describes it in the error.
  bool CheckMatrix(absl::string_view field, ValueId id, bool bytes, int64_t rows, int64_t columns,
                   absl::string_view shape) {
    if (!bytes && !CheckFloat(field, id)) return false;
    if (!Check(field, id)) return false;
    const TensorType& type = Type(id);
    if (bytes && type.dtype != DType::kS8) {
      Fail(InvalidField(absl::StrCat("dtype of ", field), NameOf(type.dtype),
                        "s8, with two codes in a byte"));
    } else if (type.rank() != 2 || type.dims[0].symbolic || type.dims[1].symbolic ||
               type.dims[0].value % rows != 0 || type.dims[1].value % columns != 0) {
      Fail(InvalidField(field, ToString(type),
                        absl::StrCat(shape, " of a checkpoint of ", NameOf(checkpoint_))));
    }
    return ok();
  }
  bool CheckCheckpoint() {
    if (IsValid(checkpoint_)) return true;
    Fail(InvalidField("checkpoint", static_cast<int>(checkpoint_),
                      absl::StrCat("a SINTER_CHECKPOINT_* in [1, ", kCheckpoints.size(), "]")));
    return false;
  }

  // Bytes s8 [k / 16, 8 n] from those of the checkpoint.
  ValueId PackedCodes(ValueId w) {
    if (HasRowsOfN(checkpoint_)) {
      if (!CheckMatrix("w", w, true, kSet, kStep / 2,
                       "s8[n,k/2] with n a multiple of 64 and k of 16,")) {
        return kNoValue;
      }
      const int64_t n = Type(w).dims[0].value, steps = Type(w).dims[1].value / (kStep / 2);
      const ValueId bytes = Both(w, {n, steps, 2, 4}, 2, {n, steps, 4, 1}, 3);
      const ValueId sets = ReshapeTo(bytes, {n / kSet, 8, 8, steps, 8});
      return Lanes(Transpose(sets, {3, 0, 2, 4, 1}), n, steps);
    }
    if (IsGptq(checkpoint_)) {
      if (!CheckMatrix("w", w, true, 2, 4 * kSet,
                       "s8[k/8,4n], words [k/8,n], with n a multiple of 64 and k of 16,")) {
        return kNoValue;
      }
      const int64_t n = Type(w).dims[1].value / 4, steps = Type(w).dims[0].value / 2;
      const ValueId bytes = Both(w, {steps, 2, n, 4}, 1, {steps, n, 4, 1}, 3);
      const ValueId sets = ReshapeTo(bytes, {steps, n / kSet, 8, 8, 8});
      return Lanes(Transpose(sets, {0, 1, 3, 4, 2}), n, steps);
    }
    if (!CheckMatrix("w", w, true, kStep, kSet / 2,
                     "s8[k,n/2], words [k,n/8], with n a multiple of 64 and k of 16,")) {
      return kNoValue;
    }
    const int64_t n = 2 * Type(w).dims[1].value, steps = Type(w).dims[0].value / kStep;
    const ValueId bytes = Both(w, {steps, 2, 8, n / 2}, 1, {steps, 8, n / kWord, 2, 2, 1}, 5);
    const ValueId sorted = Transpose(bytes, kOrderOfAwq);
    const ValueId sets = ReshapeTo(sorted, {steps, 8, n / kSet, 8, 8});
    return Lanes(Transpose(sets, {0, 2, 4, 1, 3}), n, steps);
  }

  // [groups, n] in the order of packed scales.
  ValueId PackedScales(ValueId scale) {
    if (HasRowsOfN(checkpoint_)) {
      if (!CheckMatrix("scale", scale, false, kSet, 1, "[n,groups] with n a multiple of 64,")) {
        return kNoValue;
      }
      const int64_t n = Type(scale).dims[0].value, groups = Type(scale).dims[1].value;
      const ValueId sets = ReshapeTo(scale, {n / kSet, 8, 8, groups});
      return ReshapeTo(Transpose(sets, {3, 0, 2, 1}), {groups, n});
    }
    if (!CheckMatrix("scale", scale, false, 1, kSet, "[groups,n] with n a multiple of 64,")) {
      return kNoValue;
    }
    return OfColumns(scale, Type(scale).dims[0].value, Type(scale).dims[1].value);
  }

  // f32 [groups, n] in the order of packed scales, from a checkpoint's codes.
  ValueId PackedZeros(ValueId zero) {
    if (checkpoint_ == Checkpoint::kRows) {
      Fail(InvalidField("checkpoint", NameOf(checkpoint_), "one with zeros of four bits",
                        ": pack_scales packs zeros that are floating"));
      return kNoValue;
    }
    if (checkpoint_ == Checkpoint::kCompressedTensors) {
      if (!CheckMatrix("zero", zero, true, kSet / kWord, 4,
                       "s8[n/8,4groups], words [n/8,groups], with n a multiple of 64,")) {
        return kNoValue;
      }
      const int64_t words = Type(zero).dims[0].value, groups = Type(zero).dims[1].value / 4;
      const ValueId codes = BothCodes(zero, {words, groups, 4, 1}, 3);
      return OfColumns(Transpose(codes, {1, 0, 2, 3}), groups, words * kWord);
    }
    if (!CheckMatrix("zero", zero, true, 1, kSet / 2,
                     "s8[groups,n/2], words [groups,n/8], with n a multiple of 64,")) {
      return kNoValue;
    }
    const int64_t groups = Type(zero).dims[0].value, n = 2 * Type(zero).dims[1].value;
    if (checkpoint_ == Checkpoint::kAwq) {
      const ValueId codes = BothCodes(zero, {groups, n / kWord, 2, 2, 1}, 4);
      return OfColumns(Transpose(codes, {0, 1, 3, 4, 2}), groups, n);
    }
    const ValueId codes = BothCodes(zero, {groups, n / 2, 1}, 2);
    if (!ok() || checkpoint_ == Checkpoint::kGptqV2) return OfColumns(codes, groups, n);
    const ValueId next = Add(codes, Scalar(1));  // a checkpoint has one less, modulo 16
    const ValueId within = Less(next, 16);
    return OfColumns(Where(within, next, Scalar(0)), groups, n);
  }

 private:
  // Bytes of AWQ's words as {.., 2, 2, 2}: bit 1 and bit 0 of the byte's number, then which of its
  // codes. Columns of a word count bit 0 first, then the code, then bit 1.
  const std::vector<int32_t> kOrderOfAwq = {0, 1, 2, 4, 5, 3};

  // The codes of bytes, reshaped to `each` whose extent at `axis` is 1, side by side along it.
  ValueId BothCodes(ValueId bytes, const std::vector<int64_t>& each, int axis) {
    const Halves codes = HalvesOf(bytes);
    const ValueId low = ReshapeTo(codes.low, each);
    return Concat(low, ReshapeTo(codes.high, each), axis);
  }
  // Packed bytes, as f32 of s8: each has a code of elements j and j + 8 of 16 of k. `split` are the
  // checkpoint's dims, of which axis `half` tells those two apart. The results, of low codes and of
  // high ones, have the dims `each` and are side by side along `axis`.
  ValueId Both(ValueId w, const std::vector<int64_t>& split, int half,
               const std::vector<int64_t>& each, int axis) {
    const Halves codes = HalvesOf(w);
    const ValueId low = ByteOf(codes.low, split, half, each);
    return Concat(low, ByteOf(codes.high, split, half, each), axis);
  }
  ValueId ByteOf(ValueId codes, const std::vector<int64_t>& split, int half,
                 const std::vector<int64_t>& each) {
    const ValueId whole = ReshapeTo(codes, split);
    const ValueId first = ReshapeTo(Half(whole, half, 0), each);
    const ValueId second = ReshapeTo(Half(whole, half, 1), each);
    const ValueId positive = Less(second, 8);
    const ValueId sign = Where(positive, second, Sub(second, Scalar(16)));  // -8 to 7
    return Add(first, Mul(sign, Scalar(16)));
  }
  // Index `at` of `axis`, whose extent is 2.
  ValueId Half(ValueId x, int axis, int64_t at) {
    if (!ok()) return kNoValue;
    std::vector<Dim> limits = Type(x).dims;
    std::vector<int64_t> starts(limits.size(), 0);
    starts[axis] = at;
    limits[axis] = Dim::Constant(at + 1);
    return Take(builder().Slice(x, starts, limits));
  }
  // The bytes of lanes: `bytes` are [step of k, set of columns, column of 8, element of k of 8,
  // block of 8 columns]. A lane has words of blocks 2 f, whose bytes are neighbours of k, then b.
  ValueId Lanes(ValueId bytes, int64_t n, int64_t steps) {
    const ValueId lanes = ReshapeTo(bytes, {steps * n / 2, 2, 4, 2});
    const ValueId words = ReshapeTo(Transpose(lanes, {0, 2, 1, 3}), {steps, 8 * n});
    return Cast(words, DType::kS8);
  }
  // Place 8 i + j of each 64 columns of [groups, n] gets column 8 j + i.
  ValueId OfColumns(ValueId x, int64_t groups, int64_t n) {
    const ValueId sets = ReshapeTo(x, {groups, n / kSet, 8, 8});
    return ReshapeTo(Transpose(sets, {0, 1, 3, 2}), {groups, n});
  }

  const Checkpoint checkpoint_;
};

}  // namespace

absl::StatusOr<ValueId> AddPackCodes(ChainBuilder& b, ValueId w, Checkpoint checkpoint) {
  PackExpander e(b, "pack_codes", checkpoint);
  return e.Finish(e.CheckCheckpoint() ? e.PackedCodes(w) : kNoValue);
}

absl::StatusOr<ValueId> AddPackScales(ChainBuilder& b, ValueId scale, Checkpoint checkpoint) {
  PackExpander e(b, "pack_scales", checkpoint);
  return e.Finish(e.CheckCheckpoint() ? e.PackedScales(scale) : kNoValue);
}

absl::StatusOr<ValueId> AddPackZeros(ChainBuilder& b, ValueId zero, Checkpoint checkpoint) {
  PackExpander e(b, "pack_zeros", checkpoint);
  return e.Finish(e.CheckCheckpoint() ? e.PackedZeros(zero) : kNoValue);
}

absl::StatusOr<ValueId> AddDequantizeE8M0(ChainBuilder& b, ValueId scale) {
  CodeExpander e(b, "dequantize_e8m0");
  if (e.Check("scale", scale) && e.Type(scale).dtype != DType::kS8) {
    e.Fail(InvalidField("dtype of scale", NameOf(e.Type(scale).dtype), "s8, a byte of E8M0"));
  }
  if (!e.ok()) return e.Finish(kNoValue);
  const ValueId byte = e.Widen(scale);
  const ValueId negative = e.Less(byte, 0);
  const ValueId number = e.Where(negative, e.Add(byte, e.Scalar(256)), byte);
  const ValueId power = e.Unary(UnaryKind::kExp2, e.Sub(number, e.Scalar(127)));
  const ValueId is_nan = e.Compare(CompareKind::kEq, byte, e.Scalar(-1));
  const ValueId infinity = e.Scalar(std::numeric_limits<double>::infinity());
  const ValueId nan = e.Sub(infinity, infinity);
  return e.Finish(e.Where(is_nan, nan, power));
}

}  // namespace sinter
