// Names of choices in texts, and what people also call kinds of chains, keys and activations:
// suggestions in errors.
#ifndef SINTER_SRC_CHAIN_OTHER_NAMES_H_
#define SINTER_SRC_CHAIN_OTHER_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sinter {

// "; did you mean gated_ffn or gemm_chain?": those of `known` that are another name of `word`, else
// the one that is spelt most like it. "" for none.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known);
// The same by other names alone: where the words of `known` look alike and mean different things.
std::string KnownAs(absl::string_view word, const std::vector<std::string>& known);
// Of a word that stands where a kind of chain belongs: ", an activation: matmul .. act=silu". ""
// for what is no activation.
std::string ActivationHint(absl::string_view word);

constexpr char kActivationWords[] = "identity relu gelu_tanh gelu_erf silu";
constexpr char kDTypeWords[] = "f32 f16 bf16";

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_OTHER_NAMES_H_
