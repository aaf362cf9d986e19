#include "src/chain/activation.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/chain/other_names.h"

namespace sinter {

absl::string_view NameOf(Activation act) {
  switch (act) {
    case Activation::kIdentity:
      return "identity";
    case Activation::kRelu:
      return "relu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kSilu:
      return "silu";
  }
  return "unknown";
}

absl::string_view NameOf(Layout layout) {
  switch (layout) {
    case Layout::kOI:
      return "oi";
    case Layout::kIO:
      return "io";
  }
  return "unknown";
}

absl::StatusOr<Activation> ParseActivation(absl::string_view name) {
  for (Activation act : kActivations) {
    if (name == NameOf(act)) return act;
  }
  const std::vector<std::string> words = absl::StrSplit(kActivationWords, ' ');
  return absl::InvalidArgumentError(
      absl::StrCat("act is ", name, ", must be identity, relu, gelu_tanh, gelu_erf or silu",
                   KnownAs(name, words)));
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name) {
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    if (name == NameOf(layout)) return layout;
  }
  return absl::InvalidArgumentError(absl::StrCat("layout is ", name, ", must be oi or io"));
}

}  // namespace sinter
