// Result types of the ops that compute.
#include <algorithm>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

DType WiderFloat(DType a, DType b) { return a == b ? a : DType::kF32; }

// Dims of an elementwise result: equal dims, or the one operand that is not a scalar.
absl::StatusOr<std::vector<Dim>> ElementwiseDims(const TensorType& a, const TensorType& b) {
  if (a.rank() == 0) return b.dims;
  if (b.rank() == 0 || a.dims == b.dims) return a.dims;
  return Invalid("a is ", ToString(a), ", b is ", ToString(b),
                 ": dims must be equal, or one of rank 0");
}

bool SameClass(DType a, DType b) { return IsFloat(a) ? IsFloat(b) : a == b; }

// What arithmetic and comparisons take; e4m3 has to be cast first.
bool IsNumber(DType dtype) { return IsFloat(dtype) || dtype == DType::kS32; }

bool Takes(OperandTypes types, DType dtype) {
  if (types == OperandTypes::kPreds) return dtype == DType::kPred;
  return types == OperandTypes::kNumbers ? IsNumber(dtype) : IsFloat(dtype);
}

// The operands of a product: both floating, or both of the same 8-bit type.
absl::Status CheckFactors(DType a, DType b) {
  for (const auto& [name, dtype] : {std::make_pair("a", a), std::make_pair("b", b)}) {
    if (IsFloat(dtype) || IsCode(dtype)) continue;
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(dtype),
                        "f32, f16, bf16, e4m3 or s8");
  }
  if (IsFloat(a) ? IsFloat(b) : a == b) return absl::OkStatus();
  return Invalid("dtype of a is ", NameOf(a), ", of b ", NameOf(b),
                 ": must both be floating, both e4m3 or both s8");
}

// Tensor cores multiply 8-bit operands that lie along k.
absl::Status CheckCodes(DType dtype, Dim k, bool transpose_a, bool transpose_b) {
  if (!IsCode(dtype)) return absl::OkStatus();
  if (transpose_a) {
    return InvalidField("transpose_a", "true", absl::StrCat("false for ", NameOf(dtype)),
                        ": a is [.., m, k]");
  }
  if (!transpose_b) {
    return InvalidField("transpose_b", "false", absl::StrCat("true for ", NameOf(dtype)),
                        ": b is [.., n, k]");
  }
  return CheckSumsOf(dtype, k);
}

constexpr int64_t kMostTaken = 64;  // of a row, by top_k

// What top_k and scan take: rows of numbers along a last axis that is not M.
absl::Status CheckRow(const TensorType& x) {
  if (!IsNumber(x.dtype)) {
    return InvalidField("dtype of x", NameOf(x.dtype), "floating or s32", ": cast it");
  }
  if (x.rank() == 0) return InvalidField("rank of x", "0", "at least 1");
  if (!x.dims.back().symbolic) return absl::OkStatus();
  return InvalidField(absl::StrCat("axis ", x.rank() - 1, " of x"), "M", "constant",
                      ": only rows of M are taken");
}

// Batch dims of a product: equal, or those of the operand that has them.
absl::StatusOr<std::vector<Dim>> BatchDims(const TensorType& a, const TensorType& b) {
  const std::vector<Dim> batch_a(a.dims.begin(), a.dims.end() - 2);
  const std::vector<Dim> batch_b(b.dims.begin(), b.dims.end() - 2);
  if (batch_a.empty()) return batch_b;
  if (batch_b.empty() || batch_a == batch_b) return batch_a;
  return Invalid("batch dims of a are ", ToString(absl::MakeConstSpan(batch_a)), ", of b ",
                 ToString(absl::MakeConstSpan(batch_b)), ": must be equal, or absent in one");
}

absl::Status CheckRanks(int32_t ranks) {
  if (ranks >= 1 && ranks <= kMostRanks) return absl::OkStatus();
  return InvalidField("ranks", ranks, absl::StrCat("1 to ", kMostRanks));
}

absl::Status CheckSummed(const TensorType& x) {
  if (IsFloat(x.dtype)) return absl::OkStatus();
  return InvalidField("dtype of x", NameOf(x.dtype), "f32, f16 or bf16");
}

// That ranks have parts of: M is the same number on all ranks, and has no parts.
absl::Status CheckAxisOfRanks(const TensorType& x, int axis) {
  SINTER_RETURN_IF_ERROR(CheckAxis(axis, x.rank()));
  if (!x.dims[static_cast<size_t>(axis)].symbolic) return absl::OkStatus();
  return InvalidField(absl::StrCat("axis ", axis, " of x"), "M", "constant",
                      ": give ranks an axis of their own, as in ", "[1, M, n] or [ranks, M, n]");
}

}  // namespace

absl::StatusOr<TensorType> InferIota(const TensorType& type, int axis) {
  SINTER_RETURN_IF_ERROR(CheckType(type));
  if (type.dtype != DType::kS32 && type.dtype != DType::kF32) {
    return InvalidField("dtype", NameOf(type.dtype), "s32 or f32");
  }
  SINTER_RETURN_IF_ERROR(CheckAxis(axis, type.rank()));
  return type;
}

absl::StatusOr<TensorType> InferMatmul(const TensorType& a, const TensorType& b, bool transpose_a,
                                       bool transpose_b) {
  SINTER_RETURN_IF_ERROR(CheckFactors(a.dtype, b.dtype));
  if (a.rank() < 2) return InvalidField("rank of a", a.rank(), "at least 2");
  if (b.rank() < 2) return InvalidField("rank of b", b.rank(), "at least 2");
  const Dim m = a.dims[a.rank() - (transpose_a ? 1 : 2)];
  const Dim k_a = a.dims[a.rank() - (transpose_a ? 2 : 1)];
  const Dim k_b = b.dims[b.rank() - (transpose_b ? 1 : 2)];
  const Dim n = b.dims[b.rank() - (transpose_b ? 2 : 1)];
  if (k_a != k_b) return Invalid("k of a is ", ToString(k_a), ", k of b is ", ToString(k_b));
  SINTER_RETURN_IF_ERROR(CheckCodes(a.dtype, k_a, transpose_a, transpose_b));
  TensorType result{a.dtype == DType::kS8 ? DType::kS32 : DType::kF32, {}};
  SINTER_ASSIGN_OR_RETURN(result.dims, BatchDims(a, b));
  result.dims.push_back(m);
  result.dims.push_back(n);
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

namespace {

// What ids and ends share: types, matrices, and that k of both operands agree. Returns n.
absl::StatusOr<Dim> GroupedColumns(const TensorType& a, const TensorType& w, bool transpose_b) {
  for (const auto& [name, type] : {std::make_pair("a", &a), std::make_pair("w", &w)}) {
    if (IsFloat(type->dtype)) continue;
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(type->dtype), "f32, f16 or bf16",
                        ": cast ", name);
  }
  const char* const layout = transpose_b ? "[experts,n,k]" : "[experts,k,n]";
  if (w.rank() != 3) {
    return InvalidField("rank of w", w.rank(), "3", ": give all matrices as one ", layout);
  }
  for (int i = 0; i < w.rank(); ++i) {
    if (w.dims[i].symbolic) {
      return InvalidField(absl::StrCat("dimension ", i, " of w"), "M", "constant",
                          ": M is of rows");
    }
  }
  if (w.dims[0].value > kMostExperts) {
    return InvalidFields("experts of w", w.dims[0].value, absl::StrCat("1 to ", kMostExperts),
                         ": slice w, and add what each part gives");
  }
  const Dim k = w.dims[transpose_b ? 2 : 1];
  if (a.rank() > 0 && a.dims.back() != k) {
    return Invalid("k of a is ", ToString(a.dims.back()), ", k of w is ", ToString(k),
                   ": must be equal, of a w that is ", layout);
  }
  if (k.value % kGroupedAlignment != 0) {
    return InvalidField("k", k.value, absl::StrCat("a multiple of ", kGroupedAlignment),
                        ": pad the columns of a and w with zeros");
  }
  return w.dims[transpose_b ? 1 : 2];
}

absl::Status CheckGroups(absl::string_view name, const TensorType& groups) {
  if (groups.dtype == DType::kS32) return absl::OkStatus();
  return InvalidField(absl::StrCat("dtype of ", name), NameOf(groups.dtype), "s32", ": cast ",
                      name);
}

}  // namespace

absl::StatusOr<TensorType> InferGroupedMatmul(const TensorType& a, const TensorType& w,
                                              const TensorType& ids, bool transpose_b) {
  SINTER_RETURN_IF_ERROR(CheckGroups("ids", ids));
  if (a.rank() != 2 && a.rank() != 3) {
    return InvalidField("rank of a", a.rank(), "2, [m,k], or 3, [m,slots,k]");
  }
  if (ids.rank() != 2) {
    return InvalidField(
        "rank of ids", ids.rank(), "2", ": [m,slots]",
        ids.rank() == 1 ? ", of one id a row [m,1]; ends of sorted rows are another add" : "");
  }
  SINTER_ASSIGN_OR_RETURN(const Dim n, GroupedColumns(a, w, transpose_b));
  if (ids.dims[1].symbolic || ids.dims[1].value > kMostSlots) {
    return Invalid("dims of ids are ", ToString(absl::MakeConstSpan(ids.dims)),
                   ", the second must be 1 to ", kMostSlots, ": slots of a row");
  }
  for (int axis = 0; axis + 1 < a.rank(); ++axis) {
    if (a.dims[axis] == ids.dims[axis]) continue;
    return Invalid("axis ", axis, " of a has extent ", ToString(a.dims[axis]), ", of ids ",
                   ToString(ids.dims[axis]), ": must be equal");
  }
  TensorType result{DType::kF32, {ids.dims[0], ids.dims[1], n}};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferGroupedMatmulByEnds(const TensorType& a, const TensorType& w,
                                                    const TensorType& ends, bool transpose_b) {
  SINTER_RETURN_IF_ERROR(CheckGroups("ends", ends));
  if (a.rank() != 2) {
    return InvalidField("rank of a", a.rank(), "2", ": [m,k], rows in the order of ends");
  }
  SINTER_ASSIGN_OR_RETURN(const Dim n, GroupedColumns(a, w, transpose_b));
  if (ends.dims != std::vector<Dim>{w.dims[0]}) {
    return InvalidFields("dims of ends", ToString(absl::MakeConstSpan(ends.dims)),
                         absl::StrCat("[", ToString(w.dims[0]), "]"),
                         ": where the rows of each of w's matrices end");
  }
  TensorType result{DType::kF32, {a.dims[0], n}};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferUnary(UnaryKind kind, const TensorType& a) {
  const OperandTypes types = TraitsOf(kind).operands;
  if (Takes(types, a.dtype)) return a;
  return InvalidField("dtype of a", NameOf(a.dtype),
                      types == OperandTypes::kPreds     ? "pred"
                      : types == OperandTypes::kNumbers ? "f32, f16, bf16 or s32"
                                                        : "f32, f16 or bf16");
}

absl::StatusOr<TensorType> InferBinary(BinaryKind kind, const TensorType& a, const TensorType& b) {
  const OperandTypes types = TraitsOf(kind).operands;
  if (!SameClass(a.dtype, b.dtype) || !Takes(types, a.dtype)) {
    return Invalid("dtype of a is ", NameOf(a.dtype), ", of b ", NameOf(b.dtype), ": must both be ",
                   types == OperandTypes::kPreds     ? "pred"
                   : types == OperandTypes::kNumbers ? "floating, or both s32"
                                                     : "floating");
  }
  SINTER_ASSIGN_OR_RETURN(std::vector<Dim> dims, ElementwiseDims(a, b));
  return TensorType{IsFloat(a.dtype) ? WiderFloat(a.dtype, b.dtype) : a.dtype, std::move(dims)};
}

absl::StatusOr<TensorType> InferCompare(CompareKind kind, const TensorType& a,
                                        const TensorType& b) {
  if (!SameClass(a.dtype, b.dtype) || !IsNumber(a.dtype)) {
    return Invalid("dtype of a is ", NameOf(a.dtype), ", of b ", NameOf(b.dtype),
                   ": must both be floating, or both s32");
  }
  SINTER_ASSIGN_OR_RETURN(std::vector<Dim> dims, ElementwiseDims(a, b));
  return TensorType{DType::kPred, std::move(dims)};
}

absl::StatusOr<TensorType> InferSelect(const TensorType& condition, const TensorType& a,
                                       const TensorType& b) {
  if (condition.dtype != DType::kPred) {
    return InvalidField("dtype of condition", NameOf(condition.dtype), "pred");
  }
  if (!SameClass(a.dtype, b.dtype)) {
    return Invalid("dtype of a is ", NameOf(a.dtype), ", of b ", NameOf(b.dtype),
                   ": must both be floating, or equal");
  }
  SINTER_ASSIGN_OR_RETURN(std::vector<Dim> dims, ElementwiseDims(a, b));
  if (dims.empty()) dims = condition.dims;
  if (condition.rank() != 0 && condition.dims != dims) {
    return Invalid("condition is ", ToString(condition), ", a and b have dims ",
                   ToString(absl::MakeConstSpan(dims)), ": must be equal, or of rank 0");
  }
  return TensorType{IsFloat(a.dtype) ? WiderFloat(a.dtype, b.dtype) : a.dtype, std::move(dims)};
}

absl::StatusOr<TensorType> InferCast(const TensorType& a, DType dtype) {
  TensorType result{dtype, a.dims};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferReduce(ReduceKind kind, const TensorType& a,
                                       const std::vector<int32_t>& axes, bool keepdims) {
  if (axes.empty()) return Invalid("axes are empty, at least one is needed");
  if (!IsNumber(a.dtype) || (kind == ReduceKind::kMean && !IsFloat(a.dtype))) {
    return InvalidField("dtype of a", NameOf(a.dtype),
                        absl::StrCat("floating", kind == ReduceKind::kMean ? "" : " or s32"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckAxis(axes[i], a.rank()));
    if (i > 0 && axes[i] == axes[i - 1]) return Invalid("axis ", axes[i], " is given twice");
  }
  const bool sums = kind == ReduceKind::kSum || kind == ReduceKind::kMean;
  TensorType result{sums && IsFloat(a.dtype) ? DType::kF32 : a.dtype, {}};
  for (int i = 0; i < a.rank(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      result.dims.push_back(a.dims[i]);
    } else if (keepdims) {
      result.dims.push_back(Dim::Constant(1));
    }
  }
  return result;
}

absl::StatusOr<TensorType> InferTopK(const TensorType& x, int64_t count) {
  SINTER_RETURN_IF_ERROR(CheckRow(x));
  const int64_t most = std::min(kMostTaken, x.dims.back().value);
  if (count < 1 || count > most) {
    return InvalidField(
        "count", count, absl::StrCat("in [1, ", most, "]"), ": ",
        most == kMostTaken ? "more are no op of a chain" : "a row has no more elements");
  }
  TensorType result{DType::kS32, x.dims};
  result.dims.back() = Dim::Constant(count);
  return result;
}

absl::StatusOr<TensorType> InferAllReduce(const TensorType& x, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckRanks(ranks));
  SINTER_RETURN_IF_ERROR(CheckSummed(x));
  return x;
}

absl::StatusOr<TensorType> InferAllGather(const TensorType& x, int axis, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckRanks(ranks));
  if (!HoldsFloats(x.dtype)) {
    return InvalidField("dtype of x", NameOf(x.dtype), "f32, f16, bf16 or e4m3");
  }
  SINTER_RETURN_IF_ERROR(CheckAxisOfRanks(x, axis));
  TensorType result = x;
  result.dims[static_cast<size_t>(axis)].value *= ranks;
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferReduceScatter(const TensorType& x, int axis, int32_t ranks) {
  SINTER_RETURN_IF_ERROR(CheckRanks(ranks));
  SINTER_RETURN_IF_ERROR(CheckSummed(x));
  SINTER_RETURN_IF_ERROR(CheckAxisOfRanks(x, axis));
  TensorType result = x;
  int64_t& extent = result.dims[static_cast<size_t>(axis)].value;
  if (extent % ranks != 0) {
    return InvalidField(absl::StrCat("axis ", axis, " of x"), extent,
                        absl::StrCat("a multiple of ranks, ", ranks),
                        ": every rank gets as much of it");
  }
  extent /= ranks;
  return result;
}

absl::StatusOr<TensorType> InferScan(ReduceKind kind, const TensorType& x) {
  if (kind != ReduceKind::kSum) return InvalidField("kind", NameOf(kind), "sum");
  SINTER_RETURN_IF_ERROR(CheckRow(x));
  return TensorType{IsFloat(x.dtype) ? DType::kF32 : x.dtype, x.dims};
}

absl::StatusOr<TensorType> InferRandom(const std::vector<Dim>& dims, const TensorType& seed,
                                       const TensorType& offset) {
  const TensorType result{DType::kF32, dims};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  for (const auto& [name, type] :
       {std::make_pair("seed", seed), std::make_pair("offset", offset)}) {
    if (type.dtype != DType::kS32 && type.dtype != DType::kS64) {
      return InvalidField(absl::StrCat("dtype of ", name), NameOf(type.dtype), "s32 or s64");
    }
    const bool leads =
        type.rank() < result.rank() && std::equal(type.dims.begin(), type.dims.end(), dims.begin());
    if (type.rank() > 0 && !leads) {
      return InvalidField(absl::StrCat("dims of ", name), ToString(absl::MakeConstSpan(type.dims)),
                          "[] or leading dims of the result",
                          ": [rows] for a result of [rows, columns]");
    }
  }
  if (seed.rank() > 0 && offset.rank() > 0 && seed.rank() != offset.rank()) {
    return InvalidField("rank of offset", offset.rank(), absl::StrCat("0 or ", seed.rank()),
                        ": the rank of seed");
  }
  return result;
}

}  // namespace sinter
