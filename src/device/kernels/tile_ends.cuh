// How products end, in every dataflow: what turns sums into C and into E, and where both are stored
// in global memory.
#pragma once
#include "kernels/block.cuh"

namespace sinter {

// `P`: the columns as the epilogue sees them. C's rows are counted from `row`.
template <class Scaling>
SINTER_DEVICE Scaling first_scaling(const Arguments& args, int row) {
  if constexpr (Scaling::kColumns)
    return {Scaling::Rows::of(args.factor1, args.scale1, args.m, row), args.scale_w1,
            args.scale_up};
  else
    return Scaling::of(args.factor1, args.scale1, args.m, row);
}

template <class Scaling>
SINTER_DEVICE Scaling second_scaling(const Arguments& args) {
  if constexpr (Scaling::kColumns)
    return {Scaling::Rows::of(args.factor2, args.scale2, args.m), args.scale_w2, nullptr};
  else
    return Scaling::of(args.factor2, args.scale2, args.m);
}

template <class Config, class Scaling, class P = typename Config::First>
SINTER_DEVICE auto first_epilogue(const Arguments& args, int row = 0) {
  using Bias = typename Config::Bias;
  using Stored = typename Bias::Stored;
  return Epilogue<P, Bias, typename Config::Activation, Config::kBias1, Scaling>{
      static_cast<const Stored*>(args.bias1), static_cast<const Stored*>(args.bias_up),
      first_scaling<Scaling>(args, row)};
}

template <class Config, class Scaling>
SINTER_DEVICE auto second_epilogue(const Arguments& args) {
  using Bias = typename Config::Bias2;
  return Epilogue<typename Config::Second, Bias, typename Config::Activation2, Config::kBias2,
                  Scaling>{static_cast<const typename Bias::Stored*>(args.bias2), nullptr,
                           second_scaling<Scaling>(args)};
}

template <class Config>
using CWriter = GlobalWriter<typename Config::Element, Config::First::kN,
                             Config::First::kN % Config::Element::kVector == 0>;

// All of C in the workspace.
template <class Config>
SINTER_DEVICE CWriter<Config> c_writer(const Arguments& args) {
  return {static_cast<typename Config::Element::Stored*>(args.c), Config::First::kN, args.m};
}

// The output of the last product, `P`.
template <class Config, class P = typename Config::Second>
SINTER_DEVICE auto output_writer(const Arguments& args) {
  using Result = typename Config::Result;
  return GlobalWriter<Result, P::kN, Config::kOutAligned>{
      static_cast<typename Result::Stored*>(args.out), args.out_stride, args.m};
}

// For a kernel without auxiliary results.
struct OneResult {};
template <class Config, class P, class Writer>
SINTER_DEVICE Writer with_aux(const Writer& writer, const Arguments&, OneResult) {
  return writer;
}

// What a block does with tiles that its consumers have stored, by their kernel's auxiliary results:
// nothing, unless the type says otherwise (SentBehind).
template <class Aux>
struct AfterTiles {
  static constexpr bool kPresent = false;
};

// An auxiliary result of `Element`, and all of a kernel's.
template <class Element_, bool kAligned_>
struct AuxResult {
  using Element = Element_;
  static constexpr bool kAligned = kAligned_;
};
template <class... Results>
struct AuxResults {};

// The writers of a kernel's result, or of an auxiliary one, and of auxiliary results from the
// kNumber-th on.
template <class Config, class P, int kNumber = 0, class Writer, class First, class... Rest>
SINTER_DEVICE auto with_aux(const Writer& writer, const Arguments& args,
                            AuxResults<First, Rest...>) {
  static_assert(kNumber + sizeof...(Rest) <= 1, "Arguments have two");
  using Element = typename First::Element;
  const GlobalWriter<Element, P::kN, First::kAligned> next{
      static_cast<typename Element::Stored*>(kNumber == 0 ? args.aux1 : args.aux2),
      kNumber == 0 ? args.aux1_stride : args.aux2_stride, args.m};
  if constexpr (sizeof...(Rest) == 0) {
    return ThenWriter(writer, next);
  } else {
    return ThenWriter(writer, with_aux<Config, P, kNumber + 1>(next, args, AuxResults<Rest...>{}));
  }
}

// A tile of the second product whose K one block has alone: `multiply` fills the accumulators.
template <class Config, class Matrix, class Scaling, class Multiply>
SINTER_DEVICE void finish_second(const Arguments& args, const Multiply& multiply,
                                 WarpgroupPlace place, int row, int column) {
  int no_reduction = 0;
  multiply_and_write<Config, typename Config::Second>(
      multiply, place, no_reduction, second_epilogue<Config, Scaling>(args),
      output_writer<Config>(args), row, column, false,
      Matrix::of(args.residual, args.residual_stride, args.m));
}

}  // namespace sinter
