#include "tests/support/gather_graphs.h"

#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"

namespace sinter::testing {
namespace {

Dim Of(int64_t extent) { return extent == 0 ? Dim::M() : Dim::Constant(extent); }

// Every call is valid: a refusal is a mistake of this file.
ValueId In(ChainBuilder& b, DType dtype, const std::vector<int64_t>& extents) {
  std::vector<Dim> dims;
  for (const int64_t extent : extents) dims.push_back(Of(extent));
  return b.Input({dtype, dims}).value();
}

Chain Finish(ChainBuilder& b, ValueId output) {
  b.Output(output).IgnoreError();
  return b.Finish().value();
}

}  // namespace

Chain Embedding(int64_t rows, int64_t vocabulary, int64_t columns, DType dtype) {
  ChainBuilder b;
  const ValueId words = In(b, DType::kBF16, {vocabulary, columns});
  const ValueId places = In(b, DType::kBF16, {64, columns});
  const ValueId gamma = In(b, DType::kBF16, {columns}), beta = In(b, DType::kBF16, {columns});
  const ValueId word = b.Gather(words, In(b, dtype, {rows})).value();
  const ValueId place = b.Gather(places, In(b, dtype, {rows})).value();
  const ValueId sum = b.Binary(BinaryKind::kAdd, word, place).value();
  const ValueId normal = AddLayerNorm(b, sum, 1e-5, gamma, beta).value();
  return Finish(b, b.Cast(normal, DType::kBF16).value());
}

Chain TakenOfSoftmax(int64_t rows, int64_t columns, int64_t taken) {
  ChainBuilder b;
  const ValueId x = In(b, DType::kBF16, {rows, columns});
  const ValueId shares = AddSoftmax(b, b.Cast(x, DType::kF32).value(), 1).value();
  const ValueId best = b.Gather(shares, In(b, DType::kS32, {rows, taken}), -1).value();
  const ValueId sum = b.Reduce(ReduceKind::kSum, best, {1}, true).value();
  const ValueId spread = b.Broadcast(sum, {Of(rows), Of(taken)}).value();
  return Finish(b, b.Binary(BinaryKind::kDiv, best, spread).value());
}

Chain TakenOfJoined(int64_t rows, int64_t columns, int64_t taken) {
  ChainBuilder b;
  const ValueId x = In(b, DType::kBF16, {rows, columns}), y = In(b, DType::kBF16, {rows, columns});
  const ValueId both = b.Concat({x, y}, 1).value();
  const ValueId found = b.Gather(both, In(b, DType::kS32, {rows, taken}), -1).value();
  const ValueId z = In(b, DType::kF32, {rows, taken});
  return Finish(b, b.Binary(BinaryKind::kAdd, z, b.Cast(found, DType::kF32).value()).value());
}

Chain RowsOfRows(int64_t columns, int64_t count) {
  ChainBuilder b;
  const ValueId x = In(b, DType::kBF16, {0, columns});
  const ValueId last = b.Gather(x, In(b, DType::kS64, {count})).value();
  const ValueId normal = AddRmsNorm(b, last, 1e-6).value();
  return Finish(b, b.Cast(normal, DType::kBF16).value());
}

Chain ComputedIds(int64_t rows, int64_t columns, DType dtype) {
  ChainBuilder b;
  const ValueId table = In(b, dtype, {9, columns});
  const ValueId x = In(b, DType::kF32, {rows});
  const ValueId scaled = b.Binary(BinaryKind::kMul, x, b.Scalar(8).value()).value();
  const ValueId whole = b.Cast(b.Unary(UnaryKind::kFloor, scaled).value(), DType::kS32).value();
  const ValueId one = b.Scalar(1, DType::kS32).value();
  const ValueId ids = b.Binary(BinaryKind::kSub, whole, one).value();
  return Finish(b, b.Gather(table, ids).value());
}

Chain GatherOfViews(DType ids) {
  ChainBuilder b;
  const ValueId table = In(b, DType::kF16, {40, 3, 4});
  const ValueId half = b.Slice(table, {1, 0, 0}, {Of(40), Of(3), Of(4)}, {2, 1, 1}).value();
  const ValueId flat = b.Reshape(half, {Of(20), Of(12)}).value();
  const ValueId which = b.Transpose(In(b, ids, {4, 6}), {1, 0}).value();
  const ValueId rows = b.Gather(flat, which).value();  // [6, 4, 12]
  const ValueId turned = b.Transpose(rows, {2, 0, 1}).value();
  return Finish(b, b.Reshape(turned, {Of(24), Of(12)}).value());
}

Chain PixelsBetween(int64_t before, int64_t behind, int64_t columns) {
  ChainBuilder b;
  const auto whole = [&](int64_t v) {
    return b.Scalar(static_cast<double>(v), DType::kS32).value();
  };
  const auto binary = [&](BinaryKind kind, ValueId x, ValueId y) {
    return b.Binary(kind, x, y).value();
  };
  const ValueId x = In(b, DType::kBF16, {before, columns});
  const ValueId half = b.Scalar(0.5).value();
  const ValueId middle =
      binary(BinaryKind::kAdd, b.Iota({Of(behind)}, 0, DType::kF32).value(), half);
  const double step = static_cast<double>(before) / static_cast<double>(behind);
  const ValueId scaled = binary(BinaryKind::kMul, middle, b.Scalar(step).value());
  const ValueId place =
      binary(BinaryKind::kMax, binary(BinaryKind::kSub, scaled, half), b.Scalar(0).value());
  const ValueId first =
      binary(BinaryKind::kMin, b.Cast(place, DType::kS32).value(), whole(before - 1));
  const ValueId second =
      binary(BinaryKind::kMin, binary(BinaryKind::kAdd, first, whole(1)), whole(before - 1));
  const ValueId share = binary(BinaryKind::kSub, place, b.Cast(first, DType::kF32).value());
  const auto row = [&](ValueId ids) {
    return b.Cast(b.Gather(x, ids).value(), DType::kF32).value();
  };
  const ValueId spread =
      b.Broadcast(b.Reshape(share, {Of(behind), Of(1)}).value(), {Of(behind), Of(columns)}).value();
  const ValueId low = row(first);
  const ValueId more = binary(BinaryKind::kMul, binary(BinaryKind::kSub, row(second), low), spread);
  return Finish(b, binary(BinaryKind::kAdd, low, more));
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
