// The chains that decisions of this target are for: the first byte of an input says which.
#pragma once

#include "src/normal/normal_form.h"
#include "tests/support/read_chain.h"

namespace sinter {

// A product of normalised rows, whose kernel can compute the norm. No line of text says it.
inline Chain NormedProduct() {
  return ReadChain("x: bf16[M,136]; w: const bf16[264,136]; out bf16(rmsnorm(x, 1e-5) @ w.T)");
}

// As the engine plans a line: attention is one kernel only of the normal form.
template <const char* const& line>
Chain NormalFormOfLine() {
  return *(*NormalFormOf(std::make_shared<const Chain>(ParseProblem(line)->chain)))->chain;
}
inline constexpr const char* kAttention = "attention rows=M heads=2 queries=96 keys=128 dim=64";
inline constexpr const char* kCausal =
    "attention rows=M heads=2 queries=128 keys=128 dim=64 mask=causal";
inline constexpr const char* kRowParallel = "row_parallel m=M n=1024 k=512 ranks=2";

struct JudgedChain {
  const char* line;
  int64_t bucket;
  Chain (*make)() = nullptr;  // where there is no line
};
inline Chain ChainOf(const JudgedChain& of) {
  return of.make != nullptr ? of.make() : ParseProblem(of.line)->chain;
}
constexpr JudgedChain kJudgedChains[] = {
    {"gemm_chain m=64 n=256 k=128 l=128 act=relu layout=oi dtype=bf16", 64},
    {"gated_ffn m=16 n=256 k=128 l=128 act=silu layout=io dtype=f16", 16},
    {"products m=48 k=128 n=128,192,64 act=relu,silu,identity bias=1 layout=oi dtype=bf16", 48},
    {"gemm_chain m=64 n=4096 k=1024 l=1024 act=gelu_tanh layout=oi dtype=bf16", 64},
    {"residual_rmsnorm rows=M cols=64", 8},
    {"lstm_cell rows=M hidden=24", 32},
    {"softmax rows=M cols=200 scale=0.125", 1},
    {"conv b=M ic=64 h=8 w=8 oc=96 k=3 act=relu bias=1 residual=before", 2},
    {"scaled_gated_ffn m=48 n=256 k=192 l=128 act=silu", 48},
    {"scaled_gemm_chain m=16 n=256 k=384 l=160 act=relu scales=group quantize=group bias1=1", 16},
    {"rmsnorm_quantize rows=M cols=512 granularity=group", 64},
    {nullptr, 16, NormedProduct},
    {"scaled_matmul m=48 n=256 k=192 accumulate=fast", 48},
    {"scaled_matmul m=48 n=256 k=192 codes=s8", 48},
    {"grouped_gated_ffn m=M experts=5 top=3 n=64 k=64 l=64 act=silu", 16},
    {"scaled_grouped_gated_ffn m=M experts=5 top=3 n=256 k=256 l=256 act=silu", 16},
    {"grouped_matmul_ends m=M experts=5 n=64 k=64", 64},
    {nullptr, 2, NormalFormOfLine<kAttention>},
    {nullptr, 2, NormalFormOfLine<kCausal>},
    {"all_reduce rows=M cols=256 ranks=4", 64},
    {nullptr, 64, NormalFormOfLine<kRowParallel>},
};

}  // namespace sinter
