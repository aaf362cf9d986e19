#include <optional>
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
  int64_t count = 1;
  for (const Dim dim : dims) {
    if (dim.symbolic) return std::nullopt;
    count *= dim.value;
  }
  return count;
}

// Parts of whole vectors, 0 where none are.
int64_t PartsOf(int64_t row) {
  for (int64_t parts = kMost; parts >= kFewest; --parts) {
    if (row % (parts * kVector) == 0) return parts;
  }
  return 0;
}

// The axes before those that `reduce` reduces; -1 where others lie behind one of these.
int RowAxes(const Op& reduce, int rank) {
  const int rows = rank - static_cast<int>(reduce.axes.size());
  return reduce.axes.front() == rows ? rows : -1;
}

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
  // By value: whether such a reduction is part of it. A second reduction over the same rows, as of
  // exp(x - max), is best in the kernel that holds the first one.
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

}  // namespace sinter
