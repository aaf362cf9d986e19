// What sinter_window_options say, as the chain has it.
#ifndef SINTER_SRC_CAPI_WINDOW_OPTIONS_H_
#define SINTER_SRC_CAPI_WINDOW_OPTIONS_H_

#include <array>
#include <cstdint>

#include "sinter/sinter_chain.h"
#include "src/chain/conv2d.h"

namespace sinter::capi {

inline std::array<int64_t, 2> TapsOf(const sinter_window_options& given) {
  return {given.height, given.width};
}

inline Conv2d MovesOf(const sinter_window_options& given) {
  const auto one = [](int32_t value) -> int64_t { return value == 0 ? 1 : value; };
  Conv2d moves;
  moves.strides = {one(given.stride_height), one(given.stride_width)};
  moves.dilations = {one(given.dilation_height), one(given.dilation_width)};
  moves.pads = {given.pad_top, given.pad_bottom, given.pad_left, given.pad_right};
  return moves;
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_WINDOW_OPTIONS_H_
