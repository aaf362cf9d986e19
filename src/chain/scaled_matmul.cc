// Which elements of 8-bit operands share a scale, and the result types of products with scales.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/infer.h"

namespace sinter {
namespace {

absl::Status CheckMatrix(absl::string_view name, absl::string_view axes, const TensorType& type) {
  if (!IsCode(type.dtype)) {
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(type.dtype), "e4m3 or s8");
  }
  if (type.rank() != 2)
    return InvalidField(absl::StrCat("rank of ", name), type.rank(), absl::StrCat("2 ", axes));
  if (!type.dims[1].symbolic) return absl::OkStatus();
  return InvalidField(absl::StrCat("dimension 1 of ", name), "M", "constant");
}

// Sums that needn't be promoted: all terms of one have the same scale.
absl::Status CheckFast(DType dtype, int64_t k, ScaleGrain of_a, ScaleGrain of_w) {
  if (dtype == DType::kS8) {
    return InvalidField("accumulate", "fast", "promoted for s8", ": its sums are exact");
  }
  if (k <= kScaleBlock || (of_a.k == 0 && of_w.k == 0)) return absl::OkStatus();
  return InvalidField("accumulate", "fast",
                      absl::StrCat("promoted where ", of_a.k > 0 ? "scale_a" : "scale_w",
                                   " has a value for each ", kScaleBlock, " of k"));
}

// Lists the dims that a scale may have, for messages.
std::string AllowedDims(Dim rows, int64_t groups, bool blocks) {
  const std::string each = ToString(rows), many = absl::StrCat(groups);
  std::string text = absl::StrCat("[], [1, 1], [", each, ", 1]");
  if (groups == 0) return text;
  absl::StrAppend(&text, ", [1, ", many, "], [", each, ", ", many, "]");
  if (!blocks) return text;
  return absl::StrCat(text, ", [", CeilDiv(rows.value, kScaleBlock), ", ", many, "]");
}

}  // namespace

absl::string_view NameOf(Accumulate accumulate) {
  return accumulate == Accumulate::kFast ? "fast" : "promoted";
}

absl::StatusOr<Accumulate> ParseAccumulate(absl::string_view name) {
  for (const Accumulate each : {Accumulate::kPromoted, Accumulate::kFast}) {
    if (NameOf(each) == name) return each;
  }
  return InvalidField("accumulate", name, "one of promoted fast");
}

bool IsValid(Accumulate accumulate) {
  return accumulate == Accumulate::kPromoted || accumulate == Accumulate::kFast;
}

absl::StatusOr<ScaleGrain> GrainOf(absl::string_view name, const TensorType& operand,
                                   const TensorType& scale, bool weights) {
  if (scale.dtype != DType::kF32) {
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(scale.dtype), "f32");
  }
  if (scale.rank() == 0) return ScaleGrain();
  const Dim one = Dim::Constant(1), rows = operand.dims[0];
  const int64_t k = operand.dims[1].value;
  const bool grouped = operand.dtype == DType::kE4M3 && k % kScaleBlock == 0;
  const Dim groups = Dim::Constant(grouped ? k / kScaleBlock : 1);
  const Dim blocks = Dim::Constant(weights ? CeilDiv(rows.value, kScaleBlock) : 1);
  const auto rows_of = [&](Dim extent) {
    if (extent == one) return int64_t{0};
    return extent == rows ? int64_t{1} : extent == blocks ? kScaleBlock : int64_t{-1};
  };
  if (scale.rank() == 2) {
    const int64_t shared = rows_of(scale.dims[0]);
    if (shared >= 0 && grouped && scale.dims[1] == groups) return ScaleGrain{shared, kScaleBlock};
    if (shared >= 0 && shared < kScaleBlock && scale.dims[1] == one) return ScaleGrain{shared, 0};
  }
  const char* why = operand.dtype == DType::kS8 ? ": s8 has no groups of k"
                    : grouped                   ? ""
                                                : ": groups need k in multiples of 128";
  return InvalidFields(
      absl::StrCat("dims of ", name), ToString(absl::MakeConstSpan(scale.dims)),
      absl::StrCat("one of ", AllowedDims(rows, grouped ? groups.value : 0, weights), " for ",
                   ToString(operand), why));
}

absl::StatusOr<ScaleGrain> GroupedGrainOf(absl::string_view name, const TensorType& operand,
                                          const TensorType& scale, bool weights) {
  if (scale.dtype != DType::kF32) {
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(scale.dtype), "f32");
  }
  if (scale.rank() == 0) return ScaleGrain();
  const Dim one = Dim::Constant(1);
  const int64_t k = operand.dims.back().value;
  std::vector<Dim> all(operand.dims.size(), one), rows = operand.dims;
  rows.back() = one;
  std::vector<std::pair<std::vector<Dim>, ScaleGrain>> allowed = {{all, {0, 0}}};
  if (weights) allowed.push_back({{rows[0], one, one}, {0, 0}});
  allowed.push_back({rows, {1, 0}});
  if (k % kScaleBlock == 0) {
    std::vector<Dim> groups = rows;
    groups.back() = Dim::Constant(k / kScaleBlock);
    if (weights) groups[1] = Dim::Constant(CeilDiv(groups[1].value, kScaleBlock));
    allowed.push_back({std::move(groups), {weights ? kScaleBlock : 1, kScaleBlock}});
  }
  std::string text = "[]";
  for (const auto& [dims, grain] : allowed) {
    if (scale.dims == dims) return grain;
    absl::StrAppend(&text, ", ", ToString(absl::MakeConstSpan(dims)));
  }
  return InvalidFields(
      absl::StrCat("dims of ", name), ToString(absl::MakeConstSpan(scale.dims)),
      absl::StrCat("one of ", text, " for ", ToString(operand),
                   k % kScaleBlock == 0 ? "" : ": groups need k in multiples of 128"));
}

absl::Status CheckSumsOf(DType dtype, Dim k) {
  if (dtype != DType::kS8 || (!k.symbolic && k.value <= kMostS8Sums)) return absl::OkStatus();
  return InvalidField("k", ToString(k), absl::StrCat("at most ", kMostS8Sums, " for s8"),
                      ": sums are exact in s32");
}

absl::StatusOr<TensorType> InferScaledMatmul(const TensorType& a, const TensorType& w,
                                             const TensorType& scale_a, const TensorType& scale_w,
                                             Accumulate accumulate) {
  SINTER_RETURN_IF_ERROR(CheckMatrix("a", "[m, k]", a));
  SINTER_RETURN_IF_ERROR(CheckMatrix("w", "[n, k]", w));
  if (a.dtype != w.dtype) {
    return Invalid("dtype of a is ", NameOf(a.dtype), ", of w ", NameOf(w.dtype),
                   ": must be equal");
  }
  if (w.dims[0].symbolic) return InvalidField("dimension 0 of w", "M", "constant");
  if (a.dims[1] != w.dims[1]) {
    return Invalid("k of a is ", ToString(a.dims[1]), ", k of w is ", ToString(w.dims[1]));
  }
  SINTER_RETURN_IF_ERROR(CheckSumsOf(a.dtype, a.dims[1]));
  SINTER_ASSIGN_OR_RETURN(const ScaleGrain of_a, GrainOf("scale_a", a, scale_a, false));
  SINTER_ASSIGN_OR_RETURN(const ScaleGrain of_w, GrainOf("scale_w", w, scale_w, true));
  if (!IsValid(accumulate)) {
    return Invalid("accumulate is ", static_cast<int32_t>(accumulate), ", which does not exist");
  }
  if (accumulate == Accumulate::kFast) {
    SINTER_RETURN_IF_ERROR(CheckFast(a.dtype, a.dims[1].value, of_a, of_w));
  }
  TensorType result{DType::kF32, {a.dims[0], w.dims[0]}};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferScaledGroupedMatmul(const TensorType& a, const TensorType& w,
                                                    const TensorType& ids,
                                                    const TensorType& scale_a,
                                                    const TensorType& scale_w) {
  for (const auto& [name, type] : {std::make_pair("a", &a), std::make_pair("w", &w)}) {
    if (type->dtype == DType::kE4M3) continue;
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(type->dtype), "e4m3");
  }
  // Everything except the types is as for floating operands.
  const TensorType rows{DType::kBF16, a.dims}, matrices{DType::kBF16, w.dims};
  SINTER_ASSIGN_OR_RETURN(TensorType result, InferGroupedMatmul(rows, matrices, ids, true));
  SINTER_RETURN_IF_ERROR(GroupedGrainOf("scale_a", a, scale_a, false).status());
  SINTER_RETURN_IF_ERROR(GroupedGrainOf("scale_w", w, scale_w, true).status());
  return result;
}

}  // namespace sinter
