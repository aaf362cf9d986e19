#include "src/product/epilogue.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseEpilogue(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckRule(const QuantizeRule& rule, DType result) {
  if (result != DType::kE4M3) {
    return RefuseEpilogue("quantize is there, the result is ", NameOf(result), ", must be e4m3");
  }
  if (rule.columns == 0 && rule == QuantizeRule{}) return absl::OkStatus();
  if (rule.columns != 128)
    return RefuseEpilogue("quantize columns ", rule.columns, " are not 128, or 0 alone");
  if (!(rule.eps > 0 && rule.eps <= 1))
    return RefuseEpilogue("quantize eps ", rule.eps, " is not in (0, 1]");
  const bool bounded = rule.bound >= rule.eps && std::isfinite(rule.bound);
  if (rule.bound == 0 || bounded) return absl::OkStatus();
  return RefuseEpilogue("quantize bound ", rule.bound, " is not 0, nor finite and at least eps ",
                        rule.eps);
}

}  // namespace

std::string ToString(const QuantizeRule& rule) {
  if (rule.columns == 0) return "given";
  std::string text = absl::StrCat(rule.columns, ":eps=", rule.eps);
  if (rule.bound != 0) absl::StrAppend(&text, ":bound=", rule.bound);
  return rule.ue8m0 ? text + ":ue8m0" : text;
}

absl::Status CheckEpilogue(const ProductEpilogue& e, DType rows, DType result, bool pair) {
  if (e.norm.has_value() && !(std::isfinite(*e.norm) && *e.norm >= 0)) {
    return RefuseEpilogue("norm has eps ", *e.norm, ", must be finite and not below 0");
  }
  const DType like = IsCode(rows) ? result : rows;
  const DType factor = e.factor().value_or(like);
  if (factor != like && factor != DType::kF32) {
    return RefuseEpilogue("factor is ", NameOf(factor), ", must be f32 or ", NameOf(like));
  }
  if (e.norm.has_value() && e.factor().has_value()) {
    return RefuseEpilogue("norm is there, beside a factor");
  }
  SINTER_RETURN_IF_ERROR(CheckProgram(e.program, result, pair));
  if (e.quantize.has_value()) return CheckRule(*e.quantize, result);
  if (!IsCode(result)) return absl::OkStatus();
  return RefuseEpilogue("quantize is missing, the result is ", NameOf(result));
}

}  // namespace sinter
