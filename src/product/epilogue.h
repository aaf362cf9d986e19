// Epilogue: the steps from a product's f32 accumulators to its rounded, stored result.
#ifndef SINTER_SRC_PRODUCT_EPILOGUE_H_
#define SINTER_SRC_PRODUCT_EPILOGUE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/dtype.h"
#include "src/chain/activation.h"
#include "src/product/epilogue_program.h"

namespace sinter {

// In the order in which kernels apply them, but for kProgram; each at most once. Steps up to kBias
// apply to both halves of a gate-up pair, kActivate to gate alone. Values are part of plan records:
// never reused.
enum class EpilogueOp : uint8_t {
  kNorm = 0,         // times 1 / sqrt(mean of the squares of the product's row + eps)
  kScale = 1,        // times a constant
  kFactor = 2,       // times a number of each row
  kBias = 3,         // plus a vector of columns
  kActivate = 4,     // an activation
  kGate = 5,         // times the up half of a gate-up pair
  kRound = 6,        // to the result's element, where the chain casts before the residual is added
  kResidual = 7,     // plus a matrix of the result's extents
  kActivateSum = 8,  // an activation of the sum with the residual
  kQuantize = 9,     // to codes: divided by a scale, and rounded by the store
  kProgram = 10,     // behind kBias, in the place of all steps up to kActivateSum: any
                     // element-wise ops, also with a matrix of the result's extents
};

absl::string_view NameOf(EpilogueOp op);  // "scale", "factor", "bias", ..

// How results become codes (AddQuantize): by the scale of 128 columns of a row, which the kernel
// stores too, or by one that is given.
struct QuantizeRule {
  int64_t columns = 0;       // that share a scale: 128; 0: it is given
  float eps = 0, bound = 0;  // of the largest magnitude of 128 columns; bound 0: none
  bool ue8m0 = false;        // the scale is a power of two

  bool operator==(const QuantizeRule& o) const {
    return std::tie(columns, eps, bound, ue8m0) == std::tie(o.columns, o.eps, o.bound, o.ue8m0);
  }
};

std::string ToString(const QuantizeRule& rule);  // "given", "128:eps=1e-10"

struct EpilogueStep {
  EpilogueOp op = EpilogueOp::kScale;
  float scale = 1;  // of kScale: finite, neither 0 nor 1; of kNorm: eps, finite and not below 0
  Activation activation = Activation::kIdentity;  // of kActivate and kActivateSum: not kIdentity
  DType element = DType::kBF16;  // of kFactor, kBias and kResidual: in memory; of kRound: the
                                 // element rounded to
  QuantizeRule rule;             // of kQuantize
  EpilogueProgram program;       // of kProgram

  bool operator==(const EpilogueStep& o) const {
    return std::tie(op, scale, activation, element, rule, program) ==
           std::tie(o.op, o.scale, o.activation, o.element, o.rule, o.program);
  }
};

EpilogueStep ScaleBy(float constant);
EpilogueStep NormOf(float eps);
EpilogueStep Activate(Activation activation, EpilogueOp op = EpilogueOp::kActivate);
EpilogueStep Compute(EpilogueProgram program);
// A step without a scale or an activation.
EpilogueStep StepOf(EpilogueOp op, DType element = DType::kBF16);

struct EpilogueList {
  std::vector<EpilogueStep> steps;

  // Null when the list has none.
  const EpilogueStep* Find(EpilogueOp op) const {
    for (const EpilogueStep& step : steps) {
      if (step.op == op) return &step;
    }
    return nullptr;
  }
  bool Has(EpilogueOp op) const { return Find(op) != nullptr; }
  // The defaults are 1 and identity.
  float scale() const { return Has(EpilogueOp::kScale) ? Find(EpilogueOp::kScale)->scale : 1; }
  Activation activation(EpilogueOp op = EpilogueOp::kActivate) const {
    const EpilogueStep* step = Find(op);
    return step == nullptr ? Activation::kIdentity : step->activation;
  }
  Activation sum_activation() const { return activation(EpilogueOp::kActivateSum); }
  float eps() const { return has_norm() ? Find(EpilogueOp::kNorm)->scale : 0; }
  bool has_norm() const { return Has(EpilogueOp::kNorm); }
  bool has_bias() const { return Has(EpilogueOp::kBias); }
  bool has_factor() const { return Has(EpilogueOp::kFactor); }
  // Null when the list has none.
  const EpilogueProgram* program() const {
    const EpilogueStep* step = Find(EpilogueOp::kProgram);
    return step == nullptr ? nullptr : &step->program;
  }
  // Whether the kernel reads a matrix of the result's extents: one that is added, or a program's.
  bool has_residual() const {
    return Has(EpilogueOp::kResidual) ||
           (program() != nullptr && program()->Reads(LeafKind::kMatrix));
  }
  // Null where results are stored as they are.
  const QuantizeRule* quantize() const {
    const EpilogueStep* step = Find(EpilogueOp::kQuantize);
    return step == nullptr ? nullptr : &step->rule;
  }
  // Whether the kernel computes scales of 128 columns.
  bool has_groups() const { return quantize() != nullptr && quantize()->columns > 0; }
  // Whether accumulators are multiplied by a constant or by a number of their row.
  bool scaled() const { return has_norm() || Has(EpilogueOp::kScale) || has_factor(); }

  // Inserts `step` in kernel order; replaces a step of the same op.
  void Set(const EpilogueStep& step);
  void Remove(EpilogueOp op);

  bool operator==(const EpilogueList& o) const { return steps == o.steps; }
};

// How a residual is added: "added", or "rounded" where the result is rounded first.
inline const char* ResidualName(const EpilogueList& epilogue) {
  return epilogue.Has(EpilogueOp::kRound) ? "rounded" : "added";
}

// OK, or the first step that no kernel can apply. `rows`, `result`: elements of the product's
// operands and of its result; `pair`: whether the product is a gate-up pair.
absl::Status CheckEpilogue(const EpilogueList& epilogue, DType rows, DType result, bool pair);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_EPILOGUE_H_
