// Ends of a chain's two products, in every dataflow: what turns sums into C and into E, and where E
// is stored.
#pragma once
#include "kernels/block.cuh"

namespace sinter {

// `P`: the columns as the epilogue sees them. C's rows are counted from `row`.
template <class Config, class Scaling, class P = typename Config::First>
SINTER_DEVICE auto first_epilogue(const Arguments& args, int row = 0) {
  return Epilogue<P, typename Config::Element, typename Config::Activation, Config::kBias1,
                  Scaling>{args.bias, args.bias_up,
                           Scaling::of(args.factor, args.scale, args.m, row)};
}

template <class Config, class Scaling>
SINTER_DEVICE auto second_epilogue(const Arguments& args) {
  return Epilogue<typename Config::Second, typename Config::Element, Identity, Config::kBias2,
                  Scaling>{args.bias2, nullptr, Scaling::of(args.factor2, args.scale2, args.m)};
}

template <class Config>
SINTER_DEVICE auto output_writer(const Arguments& args) {
  return GlobalWriter<Config::Second::kN, Config::kOutAligned>{args.out, args.out_stride, args.m};
}

// A tile of the second product whose K one block has alone: `multiply` fills the accumulators.
template <class Config, class Added, class Scaling, class Multiply>
SINTER_DEVICE void finish_second(const Arguments& args, const Multiply& multiply,
                                 WarpgroupPlace place, int row, int column) {
  int no_reduction = 0;
  multiply_and_write<Config, typename Config::Second>(
      multiply, place, no_reduction, second_epilogue<Config, Scaling>(args),
      output_writer<Config>(args), row, column, false,
      Added::of(args.residual, args.residual_stride, args.m));
}

}  // namespace sinter
