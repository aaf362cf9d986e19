// What an epilogue computes where a generated program says it, and no activation of the library
// does: with vectors of columns, a number of each row, and a matrix of the result's extents.
#pragma once
#include "tile/epilogue.cuh"

namespace sinter {

// An activation of a Config: `Program` reads vectors, or both halves of a gate-up pair. It has
//   Leaves                the vectors' addresses
//   Pair                  elements of two neighbouring columns of each
//   kScratch              registers that it computes with, beside a few
//   kReadsRow             what Scaling has of a row is an operand of its own
//   kWhole                it computes all results in one function, of the matrix too
//   load<kCount>(leaves, column), terms(pair, i)
//   apply(y, up, row, terms), or, of a whole one, apply(y, up, row, terms, element, results)
// and uses those fields of ColumnTerms that factors of columns leave.
template <class Program>
struct WithLeaves {};
// The Config's Bias of such a product: the bias of Arguments is the address of the Leaves.
template <class Program>
struct LeavesOf {
  using Stored = typename Program::Leaves;
};

template <class P, class Element, class Program, bool kBias, class Scaling_>
struct Epilogue<P, Element, WithLeaves<Program>, kBias, Scaling_> {
  using Scaling = Scaling_;
  const typename Program::Leaves* leaves;
  const typename Program::Leaves* none;  // in the place of up's biases
  Scaling scaling = {};

  struct TermPair {
    typename Scaling::Factor::Pair factor, factor_up;
    typename Program::Pair pair;
    SINTER_DEVICE ColumnTerms of(int i) const {  // of column i
      using Factor = typename Scaling::Factor;
      ColumnTerms terms = Program::terms(pair, i);
      if constexpr (Scaling::kColumns) {
        terms.factor = i == 0 ? Factor::low(factor) : Factor::high(factor);
        if constexpr (P::kWidth == 2)
          terms.factor_up = i == 0 ? Factor::low(factor_up) : Factor::high(factor_up);
      }
      return terms;
    }
  };
  static constexpr int kScratch = Program::kScratch;
  static constexpr int kTermWords =
      Program::kWords +
      (Scaling::kColumns ? P::kWidth * int{sizeof(typename Scaling::Factor::Pair)} / 4 : 0);
  static constexpr bool kWhole = Program::kWhole, kEndsInRelu = false;

  SINTER_DEVICE TermPair terms(int column) const {
    TermPair terms;
    if constexpr (Scaling::kColumns) {
      terms.factor = scaling.template pair<P::kN>(scaling.factors, column);
      if constexpr (P::kWidth == 2)
        terms.factor_up = scaling.template pair<P::kN>(scaling.up_factors, column);
    }
    terms.pair = Program::template load<P::kN>(*leaves, column);
    return terms;
  }
  // The same of eight columns.
  SINTER_DEVICE void terms(int column, TermPair* four) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = terms(column + 2 * i);
  }

  SINTER_DEVICE float apply(float x, float up, float scale, const ColumnTerms& terms) const {
    return Program::apply(scaled(x, scale, terms.factor),
                          P::kWidth == 2 ? scaled(up, scale, terms.factor_up) : 0.0f, scale, terms);
  }
  template <int kResults>
  SINTER_DEVICE void results(float x, float up, float scale, const ColumnTerms& terms,
                             float element, float (&results)[kResults]) const {
    Program::apply(scaled(x, scale, terms.factor),
                   P::kWidth == 2 ? scaled(up, scale, terms.factor_up) : 0.0f, scale, terms,
                   element, results);
  }

 private:
  static SINTER_DEVICE float scaled(float x, float scale, float factor) {
    if (Scaling::kPresent && !Program::kReadsRow) x *= scale;
    if (Scaling::kColumns) x *= factor;
    return x;
  }
};

}  // namespace sinter
