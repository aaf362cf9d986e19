#include "tests/support/row_step_graphs.h"

#include "tests/support/read_chain.h"

namespace sinter::testing {

Chain LargestOfRows(int64_t rows, int64_t columns, int64_t taken, DType dtype) {
  return ReadChain("x: $3[$0,$1]; out topk(x, $2)", ExtentText(rows), columns, taken,
                   NameOf(dtype));
}

Chain LargestOfLeast(int64_t rows, int64_t columns, int64_t taken, bool all) {
  return ReadChain(  // the product wraps
      "x: s32[$0,$1]; least = -2147483648:s32; y = x * least; out topk($3, $2)", ExtentText(rows),
      columns, taken, all ? "min(y, least)" : "y");
}

Chain LargestOfStripes(int64_t rows, int64_t columns, int64_t taken, int64_t run) {
  return ReadChain(
      "x: s32[$0,$1]; parts = reshape(x, [$0,$4,64,$3]); stripe = iota([$0,$4,64,$3], 2, s32);"
      "z = reshape(parts + stripe * 65536:s32, [$0,$1]); out topk(z, $2), z",
      ExtentText(rows), columns, taken, run, columns / 64 / run);
}

Chain Router(int64_t rows, int64_t columns, int64_t taken) {
  return ReadChain(
      "logits: bf16[$0,$1]; places = topk(logits, $2);"
      "taken = gather(softmax(logits, 1), places, -1);"
      "out places, taken / spread(sum(taken, 1, keep), taken)",
      ExtentText(rows), columns, taken);
}

Chain RouterOfShares(int64_t rows, int64_t columns, int64_t taken) {
  return ReadChain(
      "x: bf16[$0,$1]; shares = softmax(x, 1); places = topk(shares, $2);"
      "taken = gather(shares, places, -1); out places, taken / spread(sum(taken, 1, keep), taken)",
      ExtentText(rows), columns, taken);
}

Chain SumsOfRows(int64_t rows, int64_t columns, DType dtype) {
  return ReadChain("x: $2[$0,$1]; out cumsum(x)", ExtentText(rows), columns, NameOf(dtype));
}

Chain SumsOfSoftmax(int64_t rows, int64_t columns, bool groups) {
  return ReadChain(
      groups ? "x: bf16[$0,$1]; parts = reshape(softmax(x, 1), [$0,2,$2]);"
               "sums = reshape(cumsum(parts), [$0,$1]); out sums, min(sums, 0.4375)"
             : "x: bf16[$0,$1]; sums = cumsum(softmax(x, 1)); out sums, min(sums, 0.4375)",
      ExtentText(rows), columns, columns / 2);
}

Chain PlacesOfOnes(int64_t rows, int64_t columns) {
  return ReadChain(
      "x: s32[$0,$1]; mask = s32(lt(x, 8:s32)); places = cumsum(mask) * mask;"
      "out places, argmax(places), argmin(x)",
      ExtentText(rows), columns);
}

Chain DropoutNorm(int64_t rows, int64_t columns) {
  return ReadChain(
      "x, r: bf16[$0,$1]; seeds: s64[4]; offset: s32[];"
      "drawn = random([$0,$1], reshape(seeds[2:3], []), offset);"
      "dropped = select(gt(drawn, 0.25), f32(x) * 1.3333333333333333, 0);"
      "out bf16(rmsnorm(dropped + f32(r), 1e-6)), drawn",
      ExtentText(rows), columns);
}

Chain RowsBesideOthers(bool m_first) {
  return ReadChain("x: f16[$0,40]; out topk(x, 2), cumsum(x)", m_first ? "M,3" : "3,M");
}

Chain DrawnTokens(int64_t rows, int64_t columns, int64_t count) {
  return ReadChain(
      "x: bf16[$0,$1]; heat, q: f32[$0]; seed, offset: s64[]; $3"
      "token, logarithm = next_token(x * 8:bf16, seed, offset, count=$2, temperature=heat,"
      "min_p=q * 0.125, logprob=1$4); out token, logarithm",
      ExtentText(rows), columns, count,
      count == 0 ? ""
                 : absl::StrCat("k: s32[", ExtentText(rows), "]; p: f32[", ExtentText(rows), "];"),
      count == 0 ? "" : ", k=k, top_p=abs(p)");
}

std::vector<RowStepGraph> RowStepGraphs() {
  std::vector<RowStepGraph> graphs;
  const auto add = [&](const std::string& name, Chain chain, int64_t m) {
    graphs.push_back({name, std::move(chain), m});
  };
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32};
  size_t turn = 0;
  for (const int64_t columns : {1, 2, 31, 32, 33, 64, 127, 128, 1000}) {
    for (const int64_t taken : {1, 2, 8, 32, 33, 64}) {
      if (taken > columns) continue;
      const DType dtype = types[turn++ % 4];
      add(absl::StrCat("largest ", taken, " of ", columns, " ", NameOf(dtype)),
          LargestOfRows(0, columns, taken, dtype), 7);
    }
  }
  for (const int64_t columns : {1, 2, 31, 32, 33, 64, 100, 1024, 1025, 2112}) {
    for (size_t i = 0; i < 2; ++i) {
      const DType dtype = types[turn++ % 4];
      add(absl::StrCat("sums of ", columns, " ", NameOf(dtype)), SumsOfRows(0, columns, dtype), 5);
    }
  }
  for (const int64_t run : {1, 4}) {
    for (const int64_t taken : {2, 20, 64}) {
      add(absl::StrCat("largest ", taken, " of stripes of ", run),
          LargestOfStripes(0, 2048, taken, run), 3);
    }
  }
  add("rows beside others", RowsBesideOthers(true), 5);
  add("largest of least 40", LargestOfLeast(0, 40, 32, false), 5);
  add("largest of least 300", LargestOfLeast(0, 300, 32, true), 5);
  for (const int64_t columns : {8, 60, 128}) {
    add(absl::StrCat("router of ", columns), Router(0, columns, 4), 13);
    add(absl::StrCat("router of shares of ", columns), RouterOfShares(6, columns, 8), 0);
    add(absl::StrCat("sums of softmax of ", columns), SumsOfSoftmax(0, columns, false), 13);
    add(absl::StrCat("sums of groups of ", columns), SumsOfSoftmax(5, columns, true), 0);
    add(absl::StrCat("places of ones of ", columns), PlacesOfOnes(0, columns), 9);
    add(absl::StrCat("dropout of ", columns + 1), DropoutNorm(0, columns + 1), 11);
    add(absl::StrCat("dropout of ", columns), DropoutNorm(9, columns), 0);
  }
  for (const int64_t columns : {33, 200}) {
    add(absl::StrCat("tokens of ", columns), DrawnTokens(0, columns, 0), 9);
    add(absl::StrCat("tokens of 20 of ", columns), DrawnTokens(0, columns, 20), 9);
  }
  return graphs;
}

}  // namespace sinter::testing
