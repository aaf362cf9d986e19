// The 18 problems of FlashFuser's tables VI and VII that the search tests share.
#pragma once

#include "tests/support/sequences.h"

namespace sinter {

struct NamedProblem {
  const char* id;
  ProductSequence problem;
};

inline ProductSequence Ffn(bool gated, int64_t n, int64_t k, int64_t l, Layout layout = Layout::kOI,
                           int64_t bucket = 128) {
  const Activation activation = gated ? Activation::kSilu : Activation::kRelu;
  ProductSequence s = MakeSequence(bucket, MakeProduct(n, k, activation, gated), l);
  SetLayout(&s, layout);
  return s;
}

inline std::vector<NamedProblem> TableProblems(Layout layout) {
  return {
      {"G1", Ffn(false, 512, 32, 256, layout)},      {"G2", Ffn(false, 256, 512, 64, layout)},
      {"G3", Ffn(false, 512, 416, 256, layout)},     {"G4", Ffn(false, 3072, 768, 768, layout)},
      {"G5", Ffn(false, 16384, 4096, 4096, layout)}, {"G6", Ffn(false, 4096, 1024, 1024, layout)},
      {"G7", Ffn(false, 768, 768, 768, layout)},     {"G8", Ffn(false, 8192, 2048, 2048, layout)},
      {"G9", Ffn(false, 2048, 512, 512, layout)},    {"G10", Ffn(false, 1536, 384, 384, layout)},
      {"S1", Ffn(true, 8192, 3072, 3072, layout)},   {"S2", Ffn(true, 5632, 2048, 2048, layout)},
      {"S3", Ffn(true, 11008, 4096, 4096, layout)},  {"S4", Ffn(true, 8192, 2048, 2048, layout)},
      {"S5", Ffn(true, 11008, 2048, 2048, layout)},  {"S6", Ffn(true, 8960, 1536, 1536, layout)},
      {"S7", Ffn(true, 9728, 2560, 2560, layout)},   {"S8", Ffn(true, 3072, 1024, 1024, layout)}};
}

}  // namespace sinter
