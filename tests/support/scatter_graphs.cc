#include "tests/support/scatter_graphs.h"

#include "tests/support/read_chain.h"

namespace sinter::testing {
namespace {

// Over what was there.
const char* Over(bool in_place) { return in_place ? "over x" : ""; }

// Over relu of the old rows, which is not an input: read and stored at each element.
Chain OverComputed(int64_t rows, int64_t columns, bool in_place) {
  return ReadChain("x: f32[20,$1]; ids: s32[$0]; r: f32[$0,$1]; out scatter(relu(x), ids, r) $2",
                   ExtentText(rows), columns, Over(in_place));
}

// ids floor(8 f32 y[rows]) - 1, which may be outside.
Chain ByComputedIds(int64_t rows, int64_t columns, DType dtype, bool in_place) {
  return ReadChain(
      "x: $2[9,$1]; y: f32[$0]; r: $2[$0,$1]; out scatter(x, s32(floor(y * 8)) - 1:s32, r) $3",
      ExtentText(rows), columns, NameOf(dtype), Over(in_place));
}

// Every second row of x[40, 3, 4] seen as [20, 12], ids [4, 6] turned, rows [6, 4, 12] turned, the
// result turned.
Chain OfViews(DType ids) {
  return ReadChain(
      "x: f16[40,3,4]; ids: $0[4,6]; r: f16[12,4,6]; flat = reshape(x[1:40:2, 0:3, 0:4], [20,12]);"
      "out transpose(scatter(flat, transpose(ids, 1, 0), transpose(r, 2, 1, 0)), 1, 0)",
      NameOf(ids));
}

Chain OverMRows(int64_t columns, bool in_place) {
  return ReadChain("x: bf16[M,$0]; ids: s64[5]; r: bf16[5,$0]; out scatter(x, ids, r) $1", columns,
                   Over(in_place));
}

Chain OverZeros(int64_t rows, int64_t columns) {
  return ReadChain("ids: s32[$0]; r: f32[$0,$1]; out scatter(spread(0:f32, [33,$1]), ids, r)",
                   ExtentText(rows), columns);
}

// x with half of each row that ids name added to it: rows are read where they are written.
Chain Added(int64_t rows, int64_t columns, bool in_place) {
  return ReadChain(
      "x: f32[20,$1]; ids: s64[$0]; r: f32[$0,$1]; out scatter(x, ids, gather(x, ids) + r) $2",
      ExtentText(rows), columns, Over(in_place));
}

// A cache is written and then read by other ids, whose rows are normed.
Chain WrittenAndRead(int64_t rows, int64_t columns, bool in_place) {
  return ReadChain(
      "x: bf16[20,$1]; ids: s32[$0]; r: bf16[$0,$1]; others: s32[7]; cache = scatter(x, ids, r);"
      "out bf16(rmsnorm(gather(cache, others), 1e-6)), cache $2",
      ExtentText(rows), columns, Over(in_place));
}

// Twice over one another, numbered rows first; the result is output twice.
Chain Twice(int64_t columns, bool in_place) {
  return ReadChain(
      "x: s32[20,$0]; r: s32[6,$0]; ids: s64[3,2]; q: s32[3,2,$0];"
      "second = scatter(scatter(x, iota([6], 0, s32), r), ids, q); out second, second $1",
      columns, Over(in_place));
}

// One id without an axis writes one row.
Chain OneRow(int64_t columns) {
  return ReadChain("x: f16[20,$0]; id: s64[]; r: f16[$0]; out scatter(x, id, r) over x", columns);
}

}  // namespace

Chain CacheWrite(int64_t rows, int64_t slots, int64_t columns, DType dtype, DType ids,
                 bool in_place) {
  return ReadChain("x: $3[$1,$2]; ids: $4[$0]; r: $3[$0,$2]; out scatter(x, ids, r) $5",
                   ExtentText(rows), slots, columns, NameOf(dtype), NameOf(ids), Over(in_place));
}

Chain CachesWrite(int64_t rows, int64_t slots, int64_t heads, int64_t dim) {
  return ReadChain(
      "keys: e4m3[$1,$2,$3]; values: bf16[$1,$2,$3]; ids: s64[$0]; k, v: bf16[$0,$2,$3];"
      "factors: f32[$0,1,1]; out scatter(keys, ids, e4m3(rmsnorm(k, 1e-6) * 4)) over keys,"
      "scatter(values, ids, bf16(v * spread(factors, v))) over values",
      ExtentText(rows), slots, heads, dim);
}

std::vector<ScatterGraph> ScatterGraphs() {
  std::vector<ScatterGraph> graphs;
  const auto add = [&](const std::string& name, Chain chain, int64_t m) {
    graphs.push_back({name, std::move(chain), m});
  };
  for (const int64_t columns : {64, 5}) {
    for (const bool in_place : {true, false}) {
      const std::string what = absl::StrCat(" ", columns, in_place ? " in place" : "");
      for (const DType ids : {DType::kS32, DType::kS64}) {
        add(absl::StrCat("cache write ", NameOf(ids), what),
            CacheWrite(0, 50, columns, DType::kBF16, ids, in_place), 29);
      }
      add("over computed" + what, OverComputed(0, columns, in_place), 13);
      add("over M rows" + what, OverMRows(columns, in_place), 29);
      add("added" + what, Added(0, columns, in_place), 13);
      add("written and read" + what, WrittenAndRead(0, columns, in_place), 13);
      add("twice" + what, Twice(columns, in_place), 0);
      for (const DType dtype :
           {DType::kF32, DType::kF16, DType::kS32, DType::kPred, DType::kE4M3, DType::kS8}) {
        add(absl::StrCat("computed ids ", NameOf(dtype), what),
            ByComputedIds(dtype == DType::kS8 ? 21 : 0, columns, dtype, in_place), 21);
      }
    }
    add(absl::StrCat("over zeros ", columns), OverZeros(0, columns), 13);
    add(absl::StrCat("one row ", columns), OneRow(columns), 0);
  }
  add("caches 64", CachesWrite(0, 50, 2, 64), 13);
  add("caches 12", CachesWrite(0, 50, 3, 12), 13);
  for (const DType ids : {DType::kS32, DType::kS64}) {
    add(absl::StrCat("views ", NameOf(ids)), OfViews(ids), 0);
  }
  return graphs;
}

}  // namespace sinter::testing
