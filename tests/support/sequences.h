// Sequences of one or two products, made and changed field by field.
#pragma once

#include "src/product/sequence.h"
#include "tests/support/epilogue_forms.h"

namespace sinter {

inline FormSpec FormOf(const ProductEpilogue& e) {
  FormSpec form = e.form();
  form.scale = e.scale();
  form.factor = e.factor();
  form.bias = e.bias();
  return form;
}

// What the program of `p` is in the device library's words; a pair has its gate.
inline void SetForm(MatrixProduct* p, FormSpec form) {
  form.gate = p->pair;
  p->epilogue.program = ProgramOf(form, IsCode(p->result) ? DType::kF32 : p->result);
}
// The same, except for the fields that `change` changes.
template <typename Change>
void ChangeForm(MatrixProduct* p, const Change& change) {
  FormSpec form = FormOf(p->epilogue);
  change(form);
  SetForm(p, form);
}
// Where the program had a form for another result, or for a pair.
inline void KeepForm(MatrixProduct* p) {
  if (!p->epilogue.program.written()) SetForm(p, FormOf(p->epilogue));
}

inline MatrixProduct MakeProduct(int64_t n, int64_t k,
                                 Activation activation = Activation::kIdentity, bool pair = false) {
  MatrixProduct p{.n = n, .k = k, .pair = pair};
  SetForm(&p, {activation});
  return p;
}

inline ProductSequence MakeSequence(int64_t m, MatrixProduct only) {
  return ProductSequence{.m = m, .products = {std::move(only)}};
}

// A GEMM with `first`'s columns as K and l columns.
inline ProductSequence MakeSequence(int64_t m, MatrixProduct first, int64_t l) {
  MatrixProduct second = MakeProduct(l, first.n);
  second.rows.source = Source::kProduct;
  ProductSequence s = MakeSequence(m, std::move(first));
  s.products.push_back(std::move(second));
  return s;
}

inline ProductSequence FirstOf(const ProductSequence& s) { return s.Part(0, 1); }
inline ProductSequence SecondOf(const ProductSequence& s) { return s.Part(1, 1); }

inline void SetPair(ProductSequence* s, bool pair) {
  (*s)[0].pair = pair;
  KeepForm(&(*s)[0]);
}

inline void SetActivation(ProductSequence* s, Activation activation) {
  FormSpec form = FormOf((*s)[0].epilogue);
  form.activation = activation;
  SetForm(&(*s)[0], form);
}

// Columns of product i's result, which are the K of the next.
inline void SetColumns(ProductSequence* s, int i, int64_t n) {
  (*s)[i].n = n;
  if (i + 1 < s->size()) (*s)[i + 1].k = n;
}

inline void SetLayout(ProductSequence* s, Layout layout) {
  for (MatrixProduct& p : s->products) p.weights.layout = layout;
}

// Rows of a lone product that lie as columns, and of what k counts: up to so many rows of a launch.
inline void SetTransposedRows(ProductSequence* s, bool k_is_m) {
  (*s)[0].rows.layout = Layout::kIO;
  (*s)[0].k_is_m = k_is_m;
  if (k_is_m) SetLayout(s, Layout::kIO);
}

// Sets the element of all operands and results; factors of rows and scales of columns in f32 stay
// so.
inline void SetElement(ProductSequence* s, DType element) {
  for (MatrixProduct& p : s->products) {
    p.rows.element = p.weights.element = p.result = element;
    if (p.weights.scales.element != DType::kF32) p.weights.scales.element = element;
    FormSpec form = FormOf(p.epilogue);
    for (std::optional<DType>* vector : {&form.bias, &form.factor}) {
      if (vector->has_value() && *vector != DType::kF32) *vector = element;
    }
    if (!p.epilogue.program.written()) SetForm(&p, form);
  }
}

// A lone product of codes with these scales, whose result and residual are `result`.
inline void SetCodes(ProductSequence* s, DType result, ScaleKind rows, ScaleKind weights,
                     DType codes = DType::kE4M3) {
  SetElement(s, codes);
  MatrixProduct& p = (*s)[0];
  p.result = result;
  const auto set = [](ScaleKind kind, int64_t block_rows) {
    return kind == ScaleKind::kBlock ? Scales{kind, block_rows, 128} : Scales{kind, 0, 0};
  };
  p.rows.scales = set(rows, 1);
  p.weights.scales = set(weights, 128);
  FormSpec form = FormOf(p.epilogue);
  for (std::optional<DType>* vector : {&form.bias, &form.factor}) {
    if (*vector == codes) *vector = result;
  }
  if (!p.epilogue.program.written()) SetForm(&p, form);
}

// Strides of the scales of a GEMM that SetCodes made. Row scales are column-major, M or `rows`
// elements apart; rows of weight scales are padded by one; vectors take every second element.
inline void SetScaleStrides(ProductSequence* s, int64_t rows) {
  MatrixProduct& p = (*s)[0];
  for (Scales* scales : {&p.rows.scales, &p.weights.scales}) {
    const bool of_rows = scales == &p.rows.scales;
    if (scales->kind == ScaleKind::kVector) scales->row_stride = 2;
    if (scales->kind != ScaleKind::kBlock) continue;
    scales->row_stride = of_rows ? 1 : p.k / 128 + 1;
    scales->group_stride = of_rows && rows > 0 ? rows : 1;
    scales->of_m = of_rows && rows == 0;
  }
}

// Results in codes, of a product that SetCodes made.
inline void SetQuantized(ProductSequence* s, const QuantizeRule& rule) {
  MatrixProduct& p = s->products.back();
  p.result = DType::kE4M3;
  p.epilogue.quantize = rule;
  KeepForm(&p);
}

inline void SetBias(ProductSequence* s, int i, bool bias = true) {
  const DType element = (*s)[i].result;
  ChangeForm(&(*s)[i], [&](FormSpec& form) {
    form.bias = bias ? std::optional<DType>(element) : std::nullopt;
  });
}

inline void SetScale(ProductSequence* s, int i, float constant) {
  ChangeForm(&(*s)[i], [&](FormSpec& form) { form.scale = constant; });
}

inline void SetNorm(ProductSequence* s, int i, float eps) { (*s)[i].epilogue.norm = eps; }

// Whether rows of product i are multiplied by a number each, and how that lies in memory.
enum class RowFactor { kNone, kF32, kElement };

inline void SetFactor(ProductSequence* s, int i, RowFactor factor) {
  MatrixProduct& p = (*s)[i];
  ChangeForm(&p, [&](FormSpec& form) {
    form.factor.reset();
    if (factor != RowFactor::kNone) {
      form.factor = factor == RowFactor::kF32 ? DType::kF32 : p.result;
    }
  });
}

inline RowFactor FactorOf(const MatrixProduct& p) {
  if (!p.epilogue.factor().has_value()) return RowFactor::kNone;
  return p.epilogue.factor() == DType::kF32 ? RowFactor::kF32 : RowFactor::kElement;
}

// A scale of each column of product i's weights.
inline void SetColumnScale(ProductSequence* s, int i, DType element) {
  (*s)[i].weights.scales = {ScaleKind::kVector, 0, 0, element};
}

// Whether a matrix is added to the last result, rounded before or not.
enum class Residual { kNone, kAdded, kAddedRounded };

inline void SetResidual(ProductSequence* s, Residual residual) {
  FormSpec form = FormOf(s->back().epilogue);
  form.residual = residual != Residual::kNone;
  form.rounds = residual == Residual::kAddedRounded;
  form.sum_activation = Activation::kIdentity;
  SetForm(&s->products.back(), form);
}

// Activates the sum with the residual, which the last GEMM has.
inline void SetSumActivation(ProductSequence* s, Activation activation) {
  FormSpec form = FormOf(s->back().epilogue);
  form.sum_activation = activation;
  SetForm(&s->products.back(), form);
}

inline Residual ResidualOf(const ProductSequence& s) {
  if (!s.back().epilogue.has_residual()) return Residual::kNone;
  return s.back().epilogue.form().rounds ? Residual::kAddedRounded : Residual::kAdded;
}

}  // namespace sinter
