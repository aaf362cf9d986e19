// Epilogue of a product: scaling, bias, activation, gate.
#pragma once
#include "ptx/element.cuh"
#include "tile/activation.cuh"
#include "tile/column_terms.cuh"
#include "tile/product.cuh"
#include "tile/scaling.cuh"

namespace sinter {

// Registers that an activation computes with, beside a few: those with slow paths need many.
template <class Activation>
constexpr int kScratchOf = 0;
template <>
constexpr int kScratchOf<GeluErfF32> = 64;
template <>
constexpr int kScratchOf<SiluF32> = 64;
template <>
constexpr int kScratchOf<GeluTanhF32> = 64;
template <class Activation>
constexpr bool kIsRelu = false;
template <>
constexpr bool kIsRelu<Relu> = true;

// y = act(x + bias) for one weight matrix, act(gate + bias) * (up + bias_up) for two. x, gate and
// up are accumulators times the scale of their row and their column. Biases may be null.
template <class P, class Element, class Activation, bool kBias, class Scaling_ = NoScaling>
struct Epilogue {
  using Scaling = Scaling_;
  const typename Element::Stored* bias;
  const typename Element::Stored* bias_up;
  Scaling scaling = {};

  // Of two neighbouring columns, as they lie in memory.
  struct TermPair {
    typename Scaling::Factor::Pair factor, factor_up;
    typename Element::Pair bias, bias_up;
    SINTER_DEVICE ColumnTerms of(int i) const {  // of column i
      ColumnTerms terms;
      if constexpr (Scaling::kColumns) {
        terms.factor = number<typename Scaling::Factor>(factor, i);
        if (P::kWidth == 2) terms.factor_up = number<typename Scaling::Factor>(factor_up, i);
      }
      if constexpr (kBias) {
        terms.bias = number<Element>(bias, i);
        if (P::kWidth == 2) terms.bias_up = number<Element>(bias_up, i);
      }
      return terms;
    }

   private:
    template <class E>
    static SINTER_DEVICE float number(const typename E::Pair& pair, int i) {
      return i == 0 ? E::low(pair) : E::high(pair);
    }
  };
  static constexpr int kScratch = kScratchOf<Activation>;
  static constexpr int kTermWords =  // registers that a TermPair takes
      P::kWidth *
      ((Scaling::kColumns ? sizeof(typename Scaling::Factor::Pair) : 0) +
       (kBias ? sizeof(typename Element::Pair) : 0)) /
      4;

  // `column` is even. Columns behind the last are not stored: any terms will do.
  SINTER_DEVICE TermPair terms(int column) const {
    TermPair pair;
    if constexpr (Scaling::kColumns) {
      pair.factor = scaling.template pair<P::kN>(scaling.factors, column);
      if (P::kWidth == 2) pair.factor_up = scaling.template pair<P::kN>(scaling.up_factors, column);
    }
    if constexpr (kBias) {
      pair.bias = load_pair<Element, P::kN, 1>(bias, column);
      if (P::kWidth == 2) pair.bias_up = load_pair<Element, P::kN, 1>(bias_up, column);
    }
    return pair;
  }

  // The same of eight columns, from a multiple of 8.
  SINTER_DEVICE void terms(int column, TermPair* four) const {
    if constexpr (Scaling::kColumns) {
      scaling.template pairs<P::kN>(scaling.factors, column, four, &TermPair::factor);
      if constexpr (P::kWidth == 2)
        scaling.template pairs<P::kN>(scaling.up_factors, column, four, &TermPair::factor_up);
    }
    if constexpr (kBias) {
      load_pairs<Element, P::kN, 1>(bias, column, four, &TermPair::bias);
      if constexpr (P::kWidth == 2)
        load_pairs<Element, P::kN, 1>(bias_up, column, four, &TermPair::bias_up);
    }
  }

  SINTER_DEVICE float apply(float x, float up, float scale, const ColumnTerms& terms) const {
    const float y = Activation::apply(linear(x, scale, terms));
    return P::kWidth == 2 ? y * scaled(up, scale, terms.factor_up, terms.bias_up) : y;
  }
  // What is activated.
  SINTER_DEVICE float linear(float x, float scale, const ColumnTerms& terms) const {
    return scaled(x, scale, terms.factor, terms.bias);
  }
  static constexpr bool kWhole = false;  // there are no results(..)
  // Results are ReLUs, which rounding can compute.
  static constexpr bool kEndsInRelu = P::kWidth == 1 && kIsRelu<Activation>;

 private:
  static SINTER_DEVICE float scaled(float x, float scale, float factor, float bias) {
    if (Scaling::kPresent) x *= scale;
    if (Scaling::kColumns) x *= factor;
    if (kBias) x += bias;
    return x;
  }
};

}  // namespace sinter
