#include "src/chain/activation.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/base/status.h"

namespace sinter {

absl::string_view NameOf(Activation act) {
  constexpr absl::string_view kNames[] = {"identity", "relu", "gelu_tanh", "gelu_erf", "silu"};
  const auto number = static_cast<size_t>(act);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

absl::string_view NameOf(Layout layout) {
  return layout == Layout::kOI ? "oi" : layout == Layout::kIO ? "io" : "unknown";
}

absl::StatusOr<Activation> ParseActivation(absl::string_view name) {
  for (Activation act : kActivations) {
    if (name == NameOf(act)) return act;
  }
  const std::vector<std::string> words = absl::StrSplit(kActivationWords, ' ');
  return Invalid("act is ", name, ", must be identity, relu, gelu_tanh, gelu_erf or silu",
                 KnownAs(name, words));
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name) {
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    if (name == NameOf(layout)) return layout;
  }
  return Invalid("layout is ", name, ", must be oi or io");
}

namespace {

struct OtherName {
  const char* word;
  const char* names;  // of kinds, keys and activations, separated by one space
};
constexpr OtherName kOtherNames[] = {
    {"ffn", "gated_ffn gemm_chain"},
    {"mlp", "gated_ffn gemm_chain"},
    {"linear", "matmul identity"},
    {"dense", "matmul"},
    {"gemm", "matmul"},
    {"mm", "matmul"},
    {"glu", "gate_up"},
    {"geglu", "gate_up"},
    {"conv2d", "conv"},
    {"depthwise", "depthwise_conv"},
    {"max_pool2d", "pool"},
    {"avg_pool2d", "pool"},
    {"norm", "rmsnorm layernorm"},
    {"swish", "silu"},
    {"gelu", "gelu_tanh gelu_erf"},
    {"none", "identity"},
    {"activation", "act"},
    {"m", "rows"},
    {"rows", "m"},
    {"n", "cols"},
    {"hidden", "cols"},
    {"bias", "bias1"},
};

// Shorter words are near to every other short one.
constexpr size_t kShortestSpelling = 3;

std::string Suggested(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(names, " or "), "?");
}

bool Contains(const std::vector<std::string>& known, absl::string_view word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

std::vector<std::string> NamesOf(absl::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const OtherName& other : kOtherNames) {
    if (word != other.word) continue;
    for (absl::string_view name : absl::StrSplit(other.names, ' ')) {
      if (Contains(known, name)) names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace

std::string KnownAs(absl::string_view word, const std::vector<std::string>& known) {
  return Suggested(NamesOf(word, known));
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> names = NamesOf(word, known);
  if (names.empty() && word.size() >= kShortestSpelling) {
    const std::string nearest = Nearest(word, known);
    if (!nearest.empty()) names.push_back(nearest);
  }
  return Suggested(names);
}

std::string ActivationHint(absl::string_view word) {
  const std::vector<std::string> activations = absl::StrSplit(kActivationWords, ' ');
  std::vector<std::string> names = NamesOf(word, activations);
  if (Contains(activations, word)) names.insert(names.begin(), std::string(word));
  if (names.empty() || names[0] == "identity") return "";
  return absl::StrCat(", an activation: matmul .. act=", names[0]);
}

}  // namespace sinter
