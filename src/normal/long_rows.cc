#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "src/normal/rules.h"

namespace sinter {
namespace {

constexpr int64_t kFewRows = 16;       // more of them keep all SMs busy, each with one
constexpr int64_t kLongRow = 1 << 16;  // elements; shorter ones are not worth a second kernel
constexpr int64_t kFewest = 32, kMost = 256;  // parts of a row
constexpr int64_t kVector = 8;                // elements that a part is a multiple of

// Elements of `dims`; none where M is one of them.
std::optional<int64_t> CountOf(const std::vector<Dim>& dims) {
  return SymbolicAxis(dims) < 0 ? std::optional<int64_t>(ElementsPerM(dims)) : std::nullopt;
}

// Parts of whole vectors, 0 where none are.
int64_t PartsOf(int64_t row) {
  for (int64_t parts = kMost; parts >= kFewest; --parts) {
    if (row % (parts * kVector) == 0) return parts;
  }
  return 0;
}

// The axes before those that `reduce` reduces; -1 if an axis that it keeps follows one of these.
int RowAxes(const Op& reduce, int rank) {
  const int rows = rank - static_cast<int>(reduce.axes.size());
  return reduce.axes.front() == rows ? rows : -1;
}

constexpr int64_t kLongest = 1 << 13;  // elements of a row that one unit takes
constexpr int64_t kMostOfPart = 1 << 12, kFewestOfPart = 1 << 10;
constexpr int64_t kPaddedPart = 1 << 11;  // where a row has no parts of equal length

// Elements of a part; rows that it does not divide are padded.
int64_t PartOf(int64_t row) {
  for (int64_t part = kMostOfPart; part >= kFewestOfPart; --part) {
    if (row % part == 0) return part;
  }
  return kPaddedPart;
}

class Parts {
 public:
  explicit Parts(NormalGraph& graph) : graph_(graph) {}

  // The places of the largest of each part, then the places of the largest of these. Equal numbers
  // stay in the order of their places.
  ValueId Largest(ValueId x, int64_t taken) {
    const int64_t row = RowOf(x);
    if (row <= kLongest) return TopK(x, taken);
    const int64_t part = PartOf(row);
    const DType dtype = graph_.type(x).dtype;
    const double least = dtype == DType::kS32 ? std::numeric_limits<int32_t>::min()
                                              : -std::numeric_limits<double>::infinity();
    const ValueId parts = Cut(x, part, least);
    const ValueId first = TopK(parts, taken);
    const std::vector<Dim> dims = graph_.type(first).dims;
    const ValueId number = graph_.AddIota(dims, static_cast<int>(dims.size()) - 2);
    const ValueId start = graph_.AddBinary(
        BinaryKind::kMul, number, graph_.AddScalar(static_cast<double>(part), DType::kS32));
    const ValueId places = graph_.AddBinary(BinaryKind::kAdd, first, start);
    const ValueId best = Joined(Taken(parts, first));
    return Taken(Joined(places), Largest(best, taken));
  }

  // The sums inside of each part, and what the parts before it sum up to.
  ValueId Sums(ValueId x) {
    const int64_t row = RowOf(x);
    if (row <= kLongest) return Scan(x);
    const ValueId sums = Scan(Cut(x, PartOf(row), 0));
    const std::vector<Dim> dims = graph_.type(sums).dims;
    const size_t rank = dims.size();
    const int64_t parts = dims[rank - 2].value, part = dims[rank - 1].value;
    std::vector<int64_t> starts(rank, 0);
    std::vector<Dim> extents = dims;
    starts[rank - 1] = part - 1;
    extents[rank - 1] = Dim::Constant(1);
    extents[rank - 2] = Dim::Constant(parts - 1);
    const ValueId ends = graph_.AddSlice(sums, std::move(starts), extents);
    extents.pop_back();
    const ValueId before = Sums(graph_.AddView(OpKind::kReshape, ends, extents));
    extents.back() = Dim::Constant(1);
    const ValueId none = Spread(0, graph_.type(sums).dtype, extents);
    std::vector<Dim> each = dims;
    each.back() = Dim::Constant(1);
    const ValueId all = graph_.AddView(
        OpKind::kReshape, graph_.AddConcat({none, before}, static_cast<int>(rank) - 2), each);
    const ValueId whole = Joined(
        graph_.AddBinary(BinaryKind::kAdd, graph_.AddView(OpKind::kBroadcast, all, dims), sums));
    std::vector<Dim> own = graph_.type(whole).dims;
    if (own.back().value == row) return whole;
    own.back() = Dim::Constant(row);
    return graph_.AddSlice(whole, std::vector<int64_t>(own.size(), 0), own);
  }

 private:
  int64_t RowOf(ValueId x) const { return graph_.type(x).dims.back().value; }

  ValueId TopK(ValueId x, int64_t taken) {
    Op op = OpOf(OpKind::kTopK, {x}, {DType::kS32, graph_.type(x).dims});
    op.type.dims.back() = Dim::Constant(taken);
    return graph_.Add(std::move(op));
  }

  ValueId Scan(ValueId x) {
    Op op = OpOf(OpKind::kScan, {x}, graph_.type(x));
    op.reduce = ReduceKind::kSum;
    if (IsFloat(op.type.dtype)) op.type.dtype = DType::kF32;
    return graph_.Add(std::move(op));
  }

  // x[.., ids[.., t]].
  ValueId Taken(ValueId x, ValueId ids) {
    Op op = OpOf(OpKind::kGather, {x, ids}, {graph_.type(x).dtype, graph_.type(ids).dims});
    op.axis = static_cast<int32_t>(op.type.dims.size()) - 1;
    return graph_.Add(std::move(op));
  }

  ValueId Spread(double value, DType dtype, const std::vector<Dim>& dims) {
    return graph_.AddView(OpKind::kBroadcast, graph_.AddScalar(value, dtype), dims);
  }

  // x in parts of `part`; a row that `part` does not divide is padded with `fill`.
  ValueId Cut(ValueId x, int64_t part, double fill) {
    std::vector<Dim> dims = graph_.type(x).dims;
    const int64_t row = dims.back().value, rest = row % part == 0 ? 0 : part - row % part;
    if (rest > 0) {
      dims.back() = Dim::Constant(rest);
      const ValueId behind = Spread(fill, graph_.type(x).dtype, dims);
      x = graph_.AddConcat({x, behind}, static_cast<int>(dims.size()) - 1);
    }
    dims.back() = Dim::Constant((row + rest) / part);
    dims.push_back(Dim::Constant(part));
    return graph_.AddView(OpKind::kReshape, x, dims);
  }

  // The last two axes as one.
  ValueId Joined(ValueId x) {
    std::vector<Dim> dims = graph_.type(x).dims;
    const int64_t part = dims.back().value;
    dims.pop_back();
    dims.back() = Dim::Constant(dims.back().value * part);
    return graph_.AddView(OpKind::kReshape, x, dims);
  }

  NormalGraph& graph_;
};

}  // namespace

bool LongRowsInParts(NormalGraph& graph) {
  // By value: whether it is spread over long rows again. Then one kernel holds them.
  std::vector<bool> spread(static_cast<size_t>(graph.size()), false);
  const std::vector<ValueId> order = graph.Order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Op& op = graph.op(*at);
    const bool is_long = CountOf(op.type.dims).value_or(kLongRow) >= kLongRow;
    for (const ValueId operand : op.operands) {
      if (is_long || spread[static_cast<size_t>(*at)]) spread[static_cast<size_t>(operand)] = true;
    }
  }
  // By value: whether such a reduction is part of it. A second reduction over the same rows, for
  // example of exp(x - max), is best in the kernel that holds the first one.
  std::vector<bool> behind(static_cast<size_t>(graph.size()), false);
  for (const ValueId id : order) {
    for (const ValueId operand : graph.op(id).operands) {
      const auto from = static_cast<size_t>(operand);
      const bool kept = graph.op(operand).kind == OpKind::kReduce && spread[from];
      if (kept || behind[from]) behind[static_cast<size_t>(id)] = true;
    }
  }
  return graph.Rewrite([&](ValueId id) {
    const Op whole = graph.op(id);
    const auto at = static_cast<size_t>(id);
    if (whole.kind != OpKind::kReduce || spread[at] || behind[at]) return id;
    const TensorType from = graph.type(whole.operands[0]);
    const int rows = RowAxes(whole, from.rank());
    const std::optional<int64_t> all = CountOf(from.dims), kept = CountOf(whole.type.dims);
    if (rows < 0 || rows + 2 > kMaxRank || !all || *kept > kFewRows) return id;
    const int64_t row = *all / *kept, parts = row >= kLongRow ? PartsOf(row) : 0;
    if (parts == 0) return id;
    Op first = whole, second = whole;
    std::vector<Dim> dims(from.dims.begin(), from.dims.begin() + rows);
    second.type.dims = dims;
    dims.push_back(Dim::Constant(parts));
    first.type.dims = dims;
    dims.push_back(Dim::Constant(row / parts));
    first.operands = {graph.AddView(OpKind::kReshape, whole.operands[0], dims)};
    first.axes = {rows + 1};
    first.keepdims = false;
    second.operands = {graph.Add(std::move(first))};
    second.axes = {rows};
    second.keepdims = false;
    const ValueId joined = graph.Add(std::move(second));
    return whole.keepdims ? graph.AddView(OpKind::kReshape, joined, whole.type.dims) : joined;
  });
}

bool LongStepsInParts(NormalGraph& graph) {
  return graph.Rewrite([&](ValueId id) {
    const Op step = graph.op(id);
    if (!TakesRow(step)) return id;
    const std::vector<Dim>& row = graph.type(step.operands[0]).dims;
    if (row.back().value <= kLongest || row.size() >= static_cast<size_t>(kMaxRank)) return id;
    Parts parts(graph);
    return step.kind == OpKind::kTopK ? parts.Largest(step.operands[0], step.type.dims.back().value)
                                      : parts.Sums(step.operands[0]);
  });
}

}  // namespace sinter
