#include "tests/support/gather_graphs.h"

#include "tests/support/read_chain.h"

namespace sinter::testing {

Chain Embedding(int64_t rows, int64_t vocabulary, int64_t columns, DType dtype) {
  return ReadChain(
      "words: bf16[$1,$2]; places: bf16[64,$2]; gamma, beta: bf16[$2]; ids, at: $3[$0];"
      "out bf16(layernorm(gather(words, ids) + gather(places, at), 1e-5, gamma, beta))",
      ExtentText(rows), vocabulary, columns, NameOf(dtype));
}

Chain TakenOfSoftmax(int64_t rows, int64_t columns, int64_t taken) {
  return ReadChain(
      "x: bf16[$0,$1]; ids: s32[$0,$2]; best = gather(softmax(f32(x), 1), ids, -1);"
      "out best / spread(sum(best, 1, keep), best)",
      ExtentText(rows), columns, taken);
}

Chain TakenOfJoined(int64_t rows, int64_t columns, int64_t taken) {
  return ReadChain(
      "x, y: bf16[$0,$1]; ids: s32[$0,$2]; z: f32[$0,$2];"
      "out z + f32(gather(concat(x, y, 1), ids, -1))",
      ExtentText(rows), columns, taken);
}

Chain RowsOfRows(int64_t columns, int64_t count) {
  return ReadChain("x: bf16[M,$0]; ids: s64[$1]; out bf16(rmsnorm(gather(x, ids), 1e-6))", columns,
                   count);
}

Chain ComputedIds(int64_t rows, int64_t columns, DType dtype) {
  return ReadChain("table: $2[9,$1]; x: f32[$0]; out gather(table, s32(floor(x * 8)) - 1:s32)",
                   ExtentText(rows), columns, NameOf(dtype));
}

Chain GatherOfViews(DType ids) {
  return ReadChain(
      "table: f16[40,3,4]; ids: $0[4,6]; flat = reshape(table[1:40:2, 0:3, 0:4], [20,12]);"
      "rows = gather(flat, transpose(ids, 1, 0)); out reshape(transpose(rows, 2, 0, 1), [24,12])",
      NameOf(ids));
}

Chain PixelsBetween(int64_t before, int64_t behind, int64_t columns) {
  const double step = static_cast<double>(before) / static_cast<double>(behind);
  return ReadChain(
      "x: bf16[$0,$2]; half = 0.5; middle = iota([$1], 0, f32) + half;"
      "place = max(middle * $3 - half, 0); first = min(s32(place), $4:s32);"
      "second = min(first + 1:s32, $4:s32); share = place - f32(first);"
      "low = f32(gather(x, first)); by = spread(reshape(share, [$1,1]), [$1,$2]);"
      "out low + (f32(gather(x, second)) - low) * by",
      before, behind, columns, absl::StrFormat("%.17g", step), before - 1);
}

std::vector<GatherGraph> GatherGraphs() {
  std::vector<GatherGraph> graphs;
  const auto add = [&](const std::string& name, Chain chain, int64_t m) {
    graphs.push_back({name, std::move(chain), m});
  };
  for (const int64_t columns : {64, 37}) {
    for (const DType ids : {DType::kS32, DType::kS64}) {
      const std::string what = absl::StrCat(" ", columns, " ", NameOf(ids));
      add("embedding" + what, Embedding(0, 50, columns, ids), 13);
      add("embedding of rows" + what, Embedding(7, 50, columns, ids), 0);
    }
  }
  for (const int64_t taken : {1, 3, 8}) {
    add(absl::StrCat("taken ", taken), TakenOfSoftmax(0, 24, taken), 13);
    add(absl::StrCat("taken of 129 ", taken), TakenOfSoftmax(5, 129, taken), 0);
  }
  for (const int64_t taken : {1, 8}) {
    add(absl::StrCat("joined ", taken), TakenOfJoined(0, 24, taken), 13);
  }
  for (const int64_t columns : {64, 7}) {
    add(absl::StrCat("rows of rows ", columns), RowsOfRows(columns, 5), 29);
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kS32, DType::kPred,
                            DType::kE4M3, DType::kS8}) {
    for (const int64_t columns : {8, 5}) {
      add(absl::StrCat("computed ids ", NameOf(dtype), " ", columns),
          ComputedIds(0, columns, dtype), 21);
    }
  }
  for (const DType ids : {DType::kS32, DType::kS64}) {
    add(absl::StrCat("views ", NameOf(ids)), GatherOfViews(ids), 0);
  }
  for (const int64_t columns : {16, 7}) {
    add(absl::StrCat("pixels between ", columns), PixelsBetween(5, 12, columns), 0);
  }
  return graphs;
}

}  // namespace sinter::testing
