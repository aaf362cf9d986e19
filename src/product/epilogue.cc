#include "src/product/epilogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseStep(EpilogueOp op, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(NameOf(op), " ", args...));
}

bool IsOp(EpilogueOp op) { return op <= EpilogueOp::kProgram; }

// In the order in which kernels apply steps: a program stands behind the bias.
int PlaceOf(EpilogueOp op) {
  return op == EpilogueOp::kProgram ? 2 * static_cast<int>(EpilogueOp::kBias) + 1
                                    : 2 * static_cast<int>(op);
}

absl::Status CheckRule(const EpilogueStep& step, DType element) {
  const QuantizeRule& rule = step.rule;
  if (element != DType::kE4M3) {
    return RefuseStep(step.op, "is there, the result is ", NameOf(element), ", must be e4m3");
  }
  if (rule.columns == 0 && rule == QuantizeRule{}) return absl::OkStatus();
  if (rule.columns != 128)
    return RefuseStep(step.op, "columns ", rule.columns, " are not 128, or 0 alone");
  if (!(rule.eps > 0 && rule.eps <= 1))
    return RefuseStep(step.op, "eps ", rule.eps, " is not in (0, 1]");
  const bool bounded = rule.bound >= rule.eps && std::isfinite(rule.bound);
  if (rule.bound == 0 || bounded) return absl::OkStatus();
  return RefuseStep(step.op, "bound ", rule.bound, " is not 0, nor finite and at least eps ",
                    rule.eps);
}

// `rows`: the element of rows and weights. Factors and biases have it, beside codes the result's.
absl::Status CheckStep(const EpilogueStep& step, DType rows, DType result, bool pair) {
  const bool codes = IsCode(rows);
  const DType element = codes ? result : rows;
  switch (step.op) {
    case EpilogueOp::kNorm:
      if (std::isfinite(step.scale) && step.scale >= 0) break;
      return RefuseStep(step.op, "has eps ", step.scale, ", must be finite and not below 0");
    case EpilogueOp::kScale:
      if (std::isfinite(step.scale) && step.scale != 0 && step.scale != 1) break;
      return RefuseStep(step.op, step.scale, " is not finite, or 0, or 1");
    case EpilogueOp::kActivate:
    case EpilogueOp::kActivateSum: {
      const int activation = static_cast<int>(step.activation);
      if (activation > 0 && activation <= static_cast<int>(Activation::kSilu)) break;
      return RefuseStep(step.op, activation, " is not 1 to 4");
    }
    case EpilogueOp::kFactor:
      if (step.element == element || step.element == DType::kF32) break;
      return RefuseStep(step.op, "is ", NameOf(step.element), ", must be f32 or ", NameOf(element));
    case EpilogueOp::kBias:
      if (step.element == element || step.element == DType::kF32) break;
      if (codes && IsFloat(step.element)) break;
      return RefuseStep(step.op, "is ", NameOf(step.element), ", must be ",
                        codes ? "f32, f16 or bf16" : absl::StrCat("f32 or ", NameOf(element)));
    case EpilogueOp::kRound:
    case EpilogueOp::kResidual:
      if (result == DType::kF32) {
        return RefuseStep(step.op, "is there, the result is f32: only one of 16 bits has it");
      }
      if (IsCode(result)) return RefuseStep(step.op, "is there, the result is codes");
      if (step.element == element) break;
      return RefuseStep(step.op, "is ", NameOf(step.element), ", must be ", NameOf(element));
    case EpilogueOp::kQuantize:
      return CheckRule(step, result);
    case EpilogueOp::kProgram:
      return CheckProgram(step.program, result, pair);
    case EpilogueOp::kGate:
      break;
  }
  return absl::OkStatus();
}

// Steps that a program stands for.
absl::Status CheckBesideProgram(const EpilogueList& epilogue) {
  if (epilogue.program() == nullptr) return absl::OkStatus();
  for (const EpilogueStep& step : epilogue.steps) {
    if (step.op < EpilogueOp::kActivate || step.op > EpilogueOp::kActivateSum) continue;
    return RefuseStep(step.op, "is there, beside a program");
  }
  return absl::OkStatus();
}

// Unused fields must have their defaults, so that equal epilogues have equal bytes.
absl::Status CheckUnused(const EpilogueStep& step) {
  EpilogueStep bare = step;
  if (step.op == EpilogueOp::kScale || step.op == EpilogueOp::kNorm) bare.scale = 1;
  const bool activates = step.op == EpilogueOp::kActivate || step.op == EpilogueOp::kActivateSum;
  if (activates) bare.activation = Activation::kIdentity;
  const bool typed = step.op == EpilogueOp::kFactor || step.op == EpilogueOp::kBias ||
                     step.op == EpilogueOp::kRound || step.op == EpilogueOp::kResidual;
  if (typed) bare.element = DType::kBF16;
  if (step.op == EpilogueOp::kQuantize) bare.rule = {};
  if (step.op == EpilogueOp::kProgram) bare.program = {};
  if (bare == StepOf(step.op)) return absl::OkStatus();
  return RefuseStep(step.op, "has a field that it does not use");
}

}  // namespace

absl::string_view NameOf(EpilogueOp op) {
  constexpr absl::string_view kNames[] = {"norm",     "scale",      "factor",
                                          "bias",     "activation", "gate",
                                          "round",    "residual",   "activation of the sum",
                                          "quantize", "program"};
  return IsOp(op) ? kNames[static_cast<size_t>(op)] : "invalid";
}

std::string ToString(const QuantizeRule& rule) {
  if (rule.columns == 0) return "given";
  std::string text = absl::StrCat(rule.columns, ":eps=", rule.eps);
  if (rule.bound != 0) absl::StrAppend(&text, ":bound=", rule.bound);
  return rule.ue8m0 ? text + ":ue8m0" : text;
}

EpilogueStep StepOf(EpilogueOp op, DType element) {
  EpilogueStep step;
  step.op = op;
  step.element = element;
  return step;
}

EpilogueStep ScaleBy(float constant) {
  EpilogueStep step = StepOf(EpilogueOp::kScale);
  step.scale = constant;
  return step;
}

EpilogueStep NormOf(float eps) {
  EpilogueStep step = StepOf(EpilogueOp::kNorm);
  step.scale = eps;
  return step;
}

EpilogueStep Activate(Activation activation, EpilogueOp op) {
  EpilogueStep step = StepOf(op);
  step.activation = activation;
  return step;
}

EpilogueStep Compute(EpilogueProgram program) {
  EpilogueStep step = StepOf(EpilogueOp::kProgram);
  step.program = std::move(program);
  return step;
}

void EpilogueList::Set(const EpilogueStep& step) {
  Remove(step.op);
  const auto behind = std::find_if(steps.begin(), steps.end(), [&](const EpilogueStep& other) {
    return PlaceOf(other.op) > PlaceOf(step.op);
  });
  steps.insert(behind, step);
}

void EpilogueList::Remove(EpilogueOp op) {
  steps.erase(std::remove_if(steps.begin(), steps.end(),
                             [op](const EpilogueStep& step) { return step.op == op; }),
              steps.end());
}

absl::Status CheckEpilogue(const EpilogueList& epilogue, DType rows, DType result, bool pair) {
  for (size_t i = 0; i < epilogue.steps.size(); ++i) {
    const EpilogueStep& step = epilogue.steps[i];
    if (!IsOp(step.op)) {
      return absl::InvalidArgumentError(
          absl::StrCat("epilogue op ", static_cast<int>(step.op), " is not 0 to 10"));
    }
    if (i > 0 && PlaceOf(step.op) <= PlaceOf(epilogue.steps[i - 1].op)) {
      return RefuseStep(step.op, "stands behind ", NameOf(epilogue.steps[i - 1].op));
    }
    SINTER_RETURN_IF_ERROR(CheckStep(step, rows, result, pair));
    SINTER_RETURN_IF_ERROR(CheckUnused(step));
  }
  SINTER_RETURN_IF_ERROR(CheckBesideProgram(epilogue));
  for (EpilogueOp op : {EpilogueOp::kRound, EpilogueOp::kActivateSum}) {
    if (epilogue.Has(op) && !epilogue.has_residual()) return RefuseStep(op, "has no residual");
  }
  if (IsCode(result) && epilogue.quantize() == nullptr) {
    return RefuseStep(EpilogueOp::kQuantize, "is missing, the result is ", NameOf(result));
  }
  if (epilogue.has_norm() && epilogue.has_factor()) {
    return RefuseStep(EpilogueOp::kNorm, "is there, beside a factor");
  }
  if (epilogue.program() != nullptr) return absl::OkStatus();
  if (epilogue.Has(EpilogueOp::kGate) == pair) return absl::OkStatus();
  return RefuseStep(EpilogueOp::kGate, pair ? "is missing" : "is there", ", the product is ",
                    pair ? "a pair" : "no pair");
}

}  // namespace sinter
