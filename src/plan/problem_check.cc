// Legality of problems. Every refusal names the field, its value and the bound.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/problem.h"

namespace sinter {
namespace {

absl::Status RefuseProblem(absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::InvalidArgumentError(absl::StrCat("problem: ", field, " ", value, " ", bound));
}

absl::Status CheckExtent(absl::string_view field, int64_t value, bool multiple_of_8) {
  if (value < 1 || value > kLargestExtent) {
    return RefuseProblem(field, value, absl::StrCat("is not in 1..", kLargestExtent));
  }
  if (multiple_of_8 && value % 8 != 0) {
    return RefuseProblem(field, value, "is not a multiple of 8 (16-byte rows of tensor maps)");
  }
  return absl::OkStatus();
}

absl::Status CheckScaling(absl::string_view product, const Scaling& s) {
  if (!std::isfinite(s.constant) || s.constant == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("problem: scale", product, " ", s.constant, " is not finite, or 0"));
  }
  const int rows = static_cast<int>(s.rows);
  if (rows <= static_cast<int>(RowFactor::kElement)) return absl::OkStatus();
  return RefuseProblem(absl::StrCat("factor", product), rows, "is not 0 to 2");
}

}  // namespace

absl::Status CheckProblem(const FfnProblem& p) {
  if (p.products != 1 && p.products != 2)
    return RefuseProblem("products", p.products, "is not 1 or 2");
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) {
    return RefuseProblem("dtype", static_cast<int>(p.dtype),
                         absl::StrCat("(", NameOf(p.dtype), ") is not bf16 or f16"));
  }
  if (p.layout != Layout::kOI && p.layout != Layout::kIO) {
    return RefuseProblem("layout", static_cast<int>(p.layout), "is not oi or io");
  }
  const int activation = static_cast<int>(p.activation);
  if (activation < 0 || activation > static_cast<int>(Activation::kSilu)) {
    return RefuseProblem("activation", activation, "is not 0 to 4");
  }
  const int residual = static_cast<int>(p.residual);
  if (residual > static_cast<int>(Residual::kAddedRounded)) {
    return RefuseProblem("residual", residual, "is not 0 to 2");
  }
  SINTER_RETURN_IF_ERROR(CheckScaling("1", p.scaling1));
  SINTER_RETURN_IF_ERROR(CheckScaling("2", p.scaling2));
  const bool io = p.layout == Layout::kIO;
  SINTER_RETURN_IF_ERROR(CheckExtent("k", p.k, true));
  SINTER_RETURN_IF_ERROR(CheckExtent("n", p.n, io || p.products == 2));
  if (p.products == 2) SINTER_RETURN_IF_ERROR(CheckExtent("l", p.l, io));
  if (p.products == 1 && p.l != 0) return RefuseProblem("l", p.l, "is not 0 with one product");
  if (p.products == 1 && p.bias2) return RefuseProblem("bias2", 1, "is set with one product");
  if (p.products == 1 && p.scaling2.any()) {
    return absl::InvalidArgumentError("problem: scale2 or factor2 is set with one product");
  }
  if (p.bucket < 1 || p.bucket > kLargestBucket) {
    return RefuseProblem("bucket", p.bucket, absl::StrCat("is not in 1..", kLargestBucket));
  }
  return absl::OkStatus();
}

}  // namespace sinter
