#include "tests/support/row_step_graphs.h"

#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"

namespace sinter::testing {
namespace {

Dim Fixed(int64_t extent) { return extent == 0 ? Dim::M() : Dim::Constant(extent); }

// Every call is valid: a refusal is a mistake of this file.
ValueId AddInput(ChainBuilder& b, DType dtype, const std::vector<int64_t>& extents) {
  std::vector<Dim> dims;
  for (const int64_t extent : extents) dims.push_back(Fixed(extent));
  return b.Input({dtype, dims}).value();
}

Chain Finish(ChainBuilder& b, const std::vector<ValueId>& outputs) {
  for (const ValueId output : outputs) b.Output(output).IgnoreError();
  return b.Finish().value();
}

ValueId Shares(ChainBuilder& b, ValueId x, ValueId places) {
  const ValueId taken = b.Gather(x, places, -1).value();
  const ValueId sum = b.Reduce(ReduceKind::kSum, taken, {1}, true).value();
  const ValueId spread = b.Broadcast(sum, std::vector<Dim>(b.TypeOf(taken).dims)).value();
  return b.Binary(BinaryKind::kDiv, taken, spread).value();
}

}  // namespace

Chain LargestOfRows(int64_t rows, int64_t columns, int64_t taken, DType dtype) {
  ChainBuilder b;
  return Finish(b, {b.TopK(AddInput(b, dtype, {rows, columns}), taken).value()});
}

Chain LargestOfLeast(int64_t rows, int64_t columns, int64_t taken, bool all) {
  ChainBuilder b;
  ValueId x = AddInput(b, DType::kS32, {rows, columns});
  const ValueId least = b.Scalar(-2147483648.0, DType::kS32).value();
  x = b.Binary(BinaryKind::kMul, x, least).value();  // wraps
  if (all) x = b.Binary(BinaryKind::kMin, x, least).value();
  return Finish(b, {b.TopK(x, taken).value()});
}

Chain Router(int64_t rows, int64_t columns, int64_t taken) {
  ChainBuilder b;
  const ValueId logits = AddInput(b, DType::kBF16, {rows, columns});
  const ValueId places = b.TopK(logits, taken).value();
  return Finish(b, {places, Shares(b, AddSoftmax(b, logits, 1).value(), places)});
}

Chain RouterOfShares(int64_t rows, int64_t columns, int64_t taken) {
  ChainBuilder b;
  const ValueId shares = AddSoftmax(b, AddInput(b, DType::kBF16, {rows, columns}), 1).value();
  const ValueId places = b.TopK(shares, taken).value();
  return Finish(b, {places, Shares(b, shares, places)});
}

Chain SumsOfRows(int64_t rows, int64_t columns, DType dtype) {
  ChainBuilder b;
  return Finish(b, {b.Scan(ReduceKind::kSum, AddInput(b, dtype, {rows, columns})).value()});
}

Chain SumsOfSoftmax(int64_t rows, int64_t columns, bool groups) {
  ChainBuilder b;
  const ValueId shares = AddSoftmax(b, AddInput(b, DType::kBF16, {rows, columns}), 1).value();
  ValueId x = shares;
  if (groups) x = b.Reshape(x, {Fixed(rows), Fixed(2), Fixed(columns / 2)}).value();
  ValueId sums = b.Scan(ReduceKind::kSum, x).value();
  if (groups) sums = b.Reshape(sums, {Fixed(rows), Fixed(columns)}).value();
  const ValueId half = b.Scalar(0.4375).value();
  return Finish(b, {sums, b.Binary(BinaryKind::kMin, sums, half).value()});
}

Chain PlacesOfOnes(int64_t rows, int64_t columns) {
  ChainBuilder b;
  const ValueId x = AddInput(b, DType::kS32, {rows, columns});
  const ValueId zero = b.Scalar(8, DType::kS32).value();
  const ValueId mask = b.Cast(b.Compare(CompareKind::kLt, x, zero).value(), DType::kS32).value();
  const ValueId places =
      b.Binary(BinaryKind::kMul, b.Scan(ReduceKind::kSum, mask).value(), mask).value();
  return Finish(b, {places, AddArgmax(b, places).value(), AddArgmin(b, x).value()});
}

Chain DropoutNorm(int64_t rows, int64_t columns) {
  ChainBuilder b;
  const ValueId x = AddInput(b, DType::kBF16, {rows, columns}),
                r = AddInput(b, DType::kBF16, {rows, columns});
  const ValueId seeds = AddInput(b, DType::kS64, {4});
  const ValueId seed = b.Reshape(b.Slice(seeds, {2}, {Fixed(3)}).value(), {}).value();
  const ValueId offset = AddInput(b, DType::kS32, {});
  const ValueId drawn = b.Random({Fixed(rows), Fixed(columns)}, seed, offset).value();
  const ValueId kept = b.Compare(CompareKind::kGt, drawn, b.Scalar(0.25).value()).value();
  const ValueId wide = b.Cast(x, DType::kF32).value();
  const ValueId scaled = b.Binary(BinaryKind::kMul, wide, b.Scalar(1 / 0.75).value()).value();
  const ValueId dropped = b.Select(kept, scaled, b.Scalar(0).value()).value();
  const ValueId sum = b.Binary(BinaryKind::kAdd, dropped, b.Cast(r, DType::kF32).value()).value();
  const ValueId normal = AddRmsNorm(b, sum, 1e-6).value();
  return Finish(b, {b.Cast(normal, DType::kBF16).value(), drawn});
}

Chain RowsBesideOthers(bool m_first) {
  ChainBuilder b;
  const ValueId x = AddInput(b, DType::kF16, {m_first ? 0 : 3, m_first ? 3 : 0, 40});
  const ValueId places = b.TopK(x, 2).value();
  return Finish(b, {places, b.Scan(ReduceKind::kSum, x).value()});
}

std::vector<RowStepGraph> RowStepGraphs() {
  std::vector<RowStepGraph> graphs;
  const auto add = [&](const std::string& name, Chain chain, int64_t m) {
    graphs.push_back({name, std::move(chain), m});
  };
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32};
  size_t turn = 0;
  for (const int64_t columns : {1, 2, 31, 32, 33, 64, 127, 128, 1000}) {
    for (const int64_t taken : {1, 2, 8, 32}) {
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
  return graphs;
}

}  // namespace sinter::testing
