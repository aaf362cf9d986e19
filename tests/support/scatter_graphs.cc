#include "tests/support/scatter_graphs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"

namespace sinter::testing {
namespace {

Dim ExtentOf(int64_t extent) { return extent == 0 ? Dim::M() : Dim::Constant(extent); }

std::vector<Dim> AxesOf(const std::vector<int64_t>& extents) {
  std::vector<Dim> dims;
  for (const int64_t extent : extents) dims.push_back(ExtentOf(extent));
  return dims;
}

// Every call is valid: a refusal is a mistake of this file.
ValueId Given(ChainBuilder& b, DType dtype, const std::vector<int64_t>& extents) {
  return b.Input({dtype, AxesOf(extents)}).value();
}

void Store(ChainBuilder& b, ValueId value, ValueId over = -1) {
  OutputOptions options;
  options.alias = over;
  b.Output(value, options).IgnoreError();
}

Chain Written(ChainBuilder& b, ValueId value, ValueId over = -1) {
  Store(b, value, over);
  return b.Finish().value();
}

// Over relu of what was there, which is no input: read and stored at each element.
Chain OverComputed(int64_t rows, int64_t columns, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kF32, {20, columns});
  const ValueId ids = Given(b, DType::kS32, {rows}), r = Given(b, DType::kF32, {rows, columns});
  const ValueId written = b.Scatter(b.Unary(UnaryKind::kRelu, x).value(), ids, r).value();
  return Written(b, written, in_place ? x : -1);
}

// ids floor(8 f32 y[rows]) - 1, which may be outside.
Chain ByComputedIds(int64_t rows, int64_t columns, DType dtype, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, dtype, {9, columns});
  const ValueId y = Given(b, DType::kF32, {rows});
  const ValueId scaled = b.Binary(BinaryKind::kMul, y, b.Scalar(8).value()).value();
  const ValueId whole = b.Cast(b.Unary(UnaryKind::kFloor, scaled).value(), DType::kS32).value();
  const ValueId ids = b.Binary(BinaryKind::kSub, whole, b.Scalar(1, DType::kS32).value()).value();
  const ValueId written = b.Scatter(x, ids, Given(b, dtype, {rows, columns})).value();
  return Written(b, written, in_place ? x : -1);
}

// Every second row of x[40, 3, 4] seen as [20, 12], ids [4, 6] turned, rows [6, 4, 12] turned, the
// result turned.
Chain OfViews(DType ids) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kF16, {40, 3, 4});
  const ValueId half = b.Slice(x, {1, 0, 0}, AxesOf({40, 3, 4}), {2, 1, 1}).value();
  const ValueId flat = b.Reshape(half, AxesOf({20, 12})).value();
  const ValueId which = b.Transpose(Given(b, ids, {4, 6}), {1, 0}).value();
  const ValueId rows = b.Transpose(Given(b, DType::kF16, {12, 4, 6}), {2, 1, 0}).value();
  return Written(b, b.Transpose(b.Scatter(flat, which, rows).value(), {1, 0}).value());
}

Chain OverMRows(int64_t columns, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kBF16, {0, columns});
  const ValueId ids = Given(b, DType::kS64, {5}), r = Given(b, DType::kBF16, {5, columns});
  return Written(b, b.Scatter(x, ids, r).value(), in_place ? x : -1);
}

Chain OverZeros(int64_t rows, int64_t columns) {
  ChainBuilder b;
  const ValueId zeros = b.Broadcast(b.Scalar(0).value(), AxesOf({33, columns})).value();
  const ValueId ids = Given(b, DType::kS32, {rows}), r = Given(b, DType::kF32, {rows, columns});
  return Written(b, b.Scatter(zeros, ids, r).value());
}

// x with half of each row that ids name added to it: rows are read where they are written.
Chain Added(int64_t rows, int64_t columns, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kF32, {20, columns});
  const ValueId ids = Given(b, DType::kS64, {rows}), r = Given(b, DType::kF32, {rows, columns});
  const ValueId sum = b.Binary(BinaryKind::kAdd, b.Gather(x, ids).value(), r).value();
  return Written(b, b.Scatter(x, ids, sum).value(), in_place ? x : -1);
}

// A cache is written and then read by other ids, whose rows are normed.
Chain WrittenAndRead(int64_t rows, int64_t columns, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kBF16, {20, columns});
  const ValueId ids = Given(b, DType::kS32, {rows}), r = Given(b, DType::kBF16, {rows, columns});
  const ValueId cache = b.Scatter(x, ids, r).value();
  const ValueId read = b.Gather(cache, Given(b, DType::kS32, {7})).value();
  Store(b, b.Cast(AddRmsNorm(b, read, 1e-6).value(), DType::kBF16).value());
  return Written(b, cache, in_place ? x : -1);
}

// Twice over one another, numbered rows first; the result is given out twice.
Chain Twice(int64_t columns, bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kS32, {20, columns});
  const ValueId first =
      b.Scatter(x, b.Iota(AxesOf({6}), 0, DType::kS32).value(), Given(b, DType::kS32, {6, columns}))
          .value();
  const ValueId second =
      b.Scatter(first, Given(b, DType::kS64, {3, 2}), Given(b, DType::kS32, {3, 2, columns}))
          .value();
  Store(b, second);
  return Written(b, second, in_place ? x : -1);
}

// One id without an axis writes one row.
Chain OneRow(int64_t columns) {
  ChainBuilder b;
  const ValueId x = Given(b, DType::kF16, {20, columns});
  return Written(
      b, b.Scatter(x, Given(b, DType::kS64, {}), Given(b, DType::kF16, {columns})).value(), x);
}

}  // namespace

Chain CacheWrite(int64_t rows, int64_t slots, int64_t columns, DType dtype, DType ids,
                 bool in_place) {
  ChainBuilder b;
  const ValueId x = Given(b, dtype, {slots, columns});
  const ValueId which = Given(b, ids, {rows}), r = Given(b, dtype, {rows, columns});
  return Written(b, b.Scatter(x, which, r).value(), in_place ? x : -1);
}

Chain CachesWrite(int64_t rows, int64_t slots, int64_t heads, int64_t dim) {
  ChainBuilder b;
  const ValueId keys = Given(b, DType::kE4M3, {slots, heads, dim});
  const ValueId values = Given(b, DType::kBF16, {slots, heads, dim});
  const ValueId ids = Given(b, DType::kS64, {rows});
  const ValueId k = Given(b, DType::kBF16, {rows, heads, dim});
  const ValueId v = Given(b, DType::kBF16, {rows, heads, dim});
  const ValueId factors =
      b.Broadcast(Given(b, DType::kF32, {rows, 1, 1}), AxesOf({rows, heads, dim})).value();
  const ValueId normal = AddRmsNorm(b, k, 1e-6).value();
  const ValueId scaled = b.Binary(BinaryKind::kMul, normal, b.Scalar(4).value()).value();
  const ValueId codes = b.Cast(scaled, DType::kE4M3).value();
  const ValueId wide = b.Binary(BinaryKind::kMul, v, factors).value();
  Store(b, b.Scatter(keys, ids, codes).value(), keys);
  return Written(b, b.Scatter(values, ids, b.Cast(wide, DType::kBF16).value()).value(), values);
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
