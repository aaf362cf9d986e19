// ProductEpilogue: what happens to a product's f32 accumulators until the result is stored.
#ifndef SINTER_SRC_PRODUCT_EPILOGUE_H_
#define SINTER_SRC_PRODUCT_EPILOGUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "src/base/dtype.h"
#include "src/product/epilogue_program.h"

namespace sinter {

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

// A program of element-wise ops, and the policies before and behind it, in the order in which
// kernels apply them. A norm applies to both halves of a gate-up pair.
struct ProductEpilogue {
  std::optional<float> norm;  // eps: times 1 / sqrt(mean of the squares of the product's row + eps)
  EpilogueProgram program;
  std::optional<QuantizeRule> quantize;  // to codes: divided by a scale, and rounded by the store

  // Of the program's form: identity where it has none.
  Activation activation() const { return form().activation; }
  Activation sum_activation() const { return form().sum_activation; }
  EpilogueForm form() const { return program.form.value_or(EpilogueForm{}); }
  // Of the program's affine part: a constant; the element of a number of each row, of a vector of
  // columns.
  float scale() const { return program.affine.scale; }
  std::optional<DType> factor() const { return program.TypeAt(program.affine.factor); }
  std::optional<DType> bias() const { return program.TypeAt(program.affine.bias); }
  // Whether the kernel reads a matrix of the result's extents.
  bool has_residual() const { return program.Reads(LeafKind::kMatrix); }
  // Whether the kernel computes scales of 128 columns.
  bool has_groups() const { return quantize.has_value() && quantize->columns > 0; }
  // Whether accumulators are multiplied by a constant or by a number of their row.
  bool scaled() const { return norm.has_value() || scale() != 1 || factor().has_value(); }

  bool operator==(const ProductEpilogue& o) const {
    return std::tie(norm, program, quantize) == std::tie(o.norm, o.program, o.quantize);
  }
};

// How the residual of a form is added: "added", or "rounded" where the result is rounded first.
inline const char* ResidualName(const EpilogueForm& form) {
  return form.rounds ? "rounded" : "added";
}

// OK, or the first part that no kernel can apply. `rows`, `result`: elements of the product's
// operands and of its result; `pair`: whether the product is a gate-up pair.
absl::Status CheckEpilogue(const ProductEpilogue& epilogue, DType rows, DType result, bool pair);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_EPILOGUE_H_
