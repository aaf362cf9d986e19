// Choices that text kinds share, separated by one space.
#ifndef SINTER_SRC_CHAIN_PROBLEM_WORDS_H_
#define SINTER_SRC_CHAIN_PROBLEM_WORDS_H_

namespace sinter {

constexpr char kActivationWords[] = "identity relu gelu_tanh gelu_erf silu";
constexpr char kDTypeWords[] = "f32 f16 bf16";

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PROBLEM_WORDS_H_
