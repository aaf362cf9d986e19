// FFNs from text: ReadFfn("gated n520 k264 l136 silu io f16 bias2 residual rounded").
//
// Words, each at most once:
//   gated; single (one product); n520 k264 l136; a name of an Activation; io, oi; f16, bf16
//   bias1 bias2; residual, rounded (before the sum), sum_relu (and other activations of it)
//   scale1=1.25 scale2=3; factor1 factor2, factors=f16; scale_w1 scale_w2, scales=f16
#pragma once

#include "absl/strings/numbers.h"
#include "src/chain/composites.h"
#include "tests/support/common.h"

namespace sinter {

inline bool ReadFfnWord(absl::string_view word, FfnSpec* spec) {
  const std::pair<absl::string_view, bool*> switches[] = {
      {"gated", &spec->gated},       {"bias1", &spec->bias1},        {"bias2", &spec->bias2},
      {"residual", &spec->residual}, {"rounded", &spec->rounds_sum}, {"factor1", &spec->factor1},
      {"factor2", &spec->factor2},   {"scale_w1", &spec->scale_w1},  {"scale_w2", &spec->scale_w2}};
  for (const auto& [name, field] : switches) {
    if (word == name) return *field = true;
  }
  const std::pair<absl::string_view, int64_t*> sizes[] = {
      {"n", &spec->n}, {"k", &spec->k}, {"l", &spec->l}};
  for (const auto& [name, size] : sizes) {
    if (absl::StartsWith(word, name) && absl::SimpleAtoi(word.substr(1), size)) return true;
  }
  const std::pair<absl::string_view, double*> scales[] = {{"scale1=", &spec->scale1},
                                                          {"scale2=", &spec->scale2}};
  for (const auto& [name, scale] : scales) {
    if (absl::ConsumePrefix(&word, name)) return absl::SimpleAtod(word, scale);
  }
  for (const Activation act : kActivations) {
    if (word == NameOf(act)) return spec->act = act, true;
    if (word == absl::StrCat("sum_", NameOf(act))) return spec->sum_act = act, true;
  }
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (word == NameOf(dtype)) return spec->dtype = dtype, true;
    if (word == absl::StrCat("factors=", NameOf(dtype))) return spec->factor_dtype = dtype, true;
    if (word == absl::StrCat("scales=", NameOf(dtype))) return spec->scale_w_dtype = dtype, true;
  }
  for (const Layout layout : {Layout::kOI, Layout::kIO}) {
    if (word == NameOf(layout)) return spec->layout = layout, true;
  }
  if (word != "single") return false;
  return spec->products = 1, true;
}

// A word that is not one of the above ends the test.
inline FfnSpec ReadFfn(absl::string_view text) {
  FfnSpec spec;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!ReadFfnWord(word, &spec)) throw std::runtime_error(absl::StrCat("not of an FFN: ", word));
  }
  return spec;
}

inline std::vector<FfnSpec> ReadFfns(const std::vector<absl::string_view>& texts) {
  std::vector<FfnSpec> specs;
  for (const absl::string_view text : texts) specs.push_back(ReadFfn(text));
  return specs;
}

}  // namespace sinter
