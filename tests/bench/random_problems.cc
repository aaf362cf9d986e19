#include "tests/bench/random_problems.h"

#include "tests/bench/random.h"

namespace sinter::bench {
namespace {

// In [2^low, 2^high] in steps of `step`, which divides 2^low.
int64_t OctaveEven(Random* random, int low, int high, int64_t step) {
  const int64_t base = int64_t{1} << random->In(low, high - 1);
  return base + step * random->In(0, base / step);
}

const char* Coin(Random* random, const char* heads, const char* tails) {
  return random->In(0, 1) == 1 ? heads : tails;
}

}  // namespace

std::string RandomProblemList(uint64_t seed, int count) {
  Random random(seed);
  std::string text = absl::StrCat("# Random problems: sinter_bench --random-problems=", count,
                                  " --seed ", seed, "\n");
  for (int i = 1; i <= count; ++i) {
    const bool gated = random.In(0, 1) == 1;
    const int64_t m = OctaveEven(&random, 0, 11, 1);
    const int64_t n = OctaveEven(&random, 6, 14, 8);
    const int64_t k = OctaveEven(&random, 6, 14, 8);
    const int64_t l = OctaveEven(&random, 6, 14, 8);
    const char* act = gated ? "silu" : Coin(&random, "relu", "gelu_tanh");
    const char* layout = Coin(&random, "oi", "io");
    const char* dtype = Coin(&random, "bf16", "f16");
    absl::StrAppend(&text, "R", i, " ", gated ? "gated_ffn" : "gemm_chain", " m=", m, " n=", n,
                    " k=", k, " l=", l, " act=", act, " layout=", layout, " dtype=", dtype, "\n");
  }
  return text;
}

}  // namespace sinter::bench
