// The defaults of what may be left unsaid of a composite. The one table: the text form takes them
// for a key that is not given, the C ABI and its bindings for a field that is 0. Where 0 means the
// default it is not a value of its own, so eps and scale must differ from 0 (composites.cc).
#ifndef SINTER_SRC_CHAIN_DEFAULTS_H_
#define SINTER_SRC_CHAIN_DEFAULTS_H_

#include "src/chain/activation.h"

namespace sinter {

// `text` is how the text form writes `value`.
template <typename T>
struct Default {
  T value;
  const char* text;
};

constexpr Default<double> kDefaultLayerNormEps{1e-5, "1e-05"};
constexpr Default<double> kDefaultRmsNormEps{1e-6, "1e-06"};
constexpr Default<double> kDefaultQuantizeEps{1e-10, "1e-10"};
constexpr Default<double> kDefaultSoftmaxScale{1, "1"};
constexpr Default<Activation> kDefaultActivation{Activation::kIdentity, "identity"};
constexpr Default<Layout> kDefaultLayout{Layout::kOI, "oi"};
constexpr Default<Granularity> kDefaultGranularity{Granularity::kRow, "row"};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_DEFAULTS_H_
