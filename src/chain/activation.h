// Activation and Layout: the two choices that name an FFN beside its sizes.
#ifndef SINTER_SRC_CHAIN_ACTIVATION_H_
#define SINTER_SRC_CHAIN_ACTIVATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Values are part of plan records and of the C ABI: never reused.
enum class Activation : int32_t {
  kIdentity = 0,
  kRelu = 1,
  kGeluTanh = 2,
  kGeluErf = 3,
  kSilu = 4
};
constexpr Activation kActivations[] = {Activation::kIdentity, Activation::kRelu,
                                       Activation::kGeluTanh, Activation::kGeluErf,
                                       Activation::kSilu};

// How a weight lies in memory: kOI is [out, in] (nn.Linear), kIO is [in, out].
enum class Layout : int32_t { kOI = 1, kIO = 2 };

absl::string_view NameOf(Activation act);  // "identity", "relu", "gelu_tanh", "gelu_erf", "silu"
absl::string_view NameOf(Layout layout);   // "oi", "io"
absl::StatusOr<Activation> ParseActivation(absl::string_view name);
absl::StatusOr<Layout> ParseLayout(absl::string_view name);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_ACTIVATION_H_
