#include "src/plan/row_order.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/plan/family.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

// "0 1024 2048": the first element of each range of K.
std::string RangesText(int64_t k, int block_k, int ranges) {
  const int64_t blocks = CeilDiv(k, block_k);
  std::string text;
  for (int i = 0; i < ranges; ++i) {
    absl::StrAppend(&text, i > 0 ? " " : "", blocks * i / ranges * block_k);
  }
  return text;
}

// A product's line, as if it were alone in a kernel.
std::string ProductLine(const ProductSequence& product, const Schedule& s,
                        const std::string& ranges) {
  if (product.front().k_is_m) {  // as many steps as a launch has, whatever the bucket
    ProductSequence any = product;
    any[0].k = 1;
    const std::string blocks = s.first.split_k > 1 ? absl::StrCat(" of ", s.block_k) : "";
    return absl::StrCat("product ", absl::BytesToHexString(any.Canonical()), " steps of M by ",
                        s.first.split_k, blocks, s.swapped ? " swapped" : "", "\n");
  }
  return absl::StrCat("product ", absl::BytesToHexString(product.Canonical()), " steps ",
                      RoundUp(product.front().StagedK(), s.block_k) / 16, " ranges ", ranges,
                      s.swapped ? " swapped" : "", "\n");
}

// Ranges of the first product's K. Ranks with gate and up apart add each other's parts.
std::string FirstRanges(const ProductSequence& p, const Schedule& s) {
  return absl::StrCat(RangesText(p.front().StagedK(), s.block_k, s.first.split_k),
                      GateRanks(s) > 1 ? " apart" : "");
}

// Ranges of the second product: of K for its ranks, or of N for the clusters.
std::string SecondRanges(const ProductSequence& p, const Schedule& s) {
  if (RowOf(s).medium == Medium::kRegister) return absl::StrCat("registers ", s.cluster);
  if (RangesOf(s) == 1) return RangesText(p.back().k, s.block_k, s.second.split_k);
  std::string text = "clusters";
  for (int i = 0; i < RangesOf(s); ++i) {
    absl::StrAppend(&text, " ", int64_t{s.cluster} * s.first.block_n * i);
  }
  return text;
}

}  // namespace

std::string RowOrderOfProducts(const ProductSequence& p, const Schedule& s) {
  if (p.size() == 1) return ProductLine(p, s, FirstRanges(p, s));
  return ProductLine(p.Part(0, 1), s, FirstRanges(p, s)) +
         ProductLine(p.Part(1, 1), s, SecondRanges(p, s));
}

std::string RowOrder(const KernelSpec& spec) { return spec.family->RowOrder(spec); }

std::string RowOrder(const Plan& plan) {
  std::string text;
  for (const PlannedKernel& kernel : plan.kernels) text += RowOrder(kernel.spec);
  return text;
}

}  // namespace sinter
