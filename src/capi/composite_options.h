// Reads the fields that the options of several composites share.
#ifndef SINTER_SRC_CAPI_COMPOSITE_OPTIONS_H_
#define SINTER_SRC_CAPI_COMPOSITE_OPTIONS_H_

#include "absl/strings/str_cat.h"
#include "src/capi/adder.h"
#include "src/chain/accumulate.h"
#include "src/chain/activation.h"
#include "src/chain/defaults.h"

namespace sinter::capi {

inline Activation ActivationOf(Adder& add, sinter_activation value) {
  add.Require(value >= SINTER_ACTIVATION_IDENTITY && value <= SINTER_ACTIVATION_SILU,
              absl::StrCat("activation is ", value, ", must be a SINTER_ACTIVATION_* in [0, 4]"));
  return static_cast<Activation>(value);
}

// Of the flags of a product of codes.
inline Accumulate AccumulateOf(uint32_t flags) {
  return (flags & SINTER_ACCUMULATE_FAST) != 0 ? Accumulate::kFast : Accumulate::kPromoted;
}

// A number of an options struct: 0 means the default.
inline double NumberOf(double value, const Default<double>& otherwise) {
  return value == 0 ? otherwise.value : value;
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_COMPOSITE_OPTIONS_H_
