#include <algorithm>
#include <map>
#include <utility>

#include "src/normal/rules.h"

namespace sinter {
namespace {

// A part of the last axis.
struct Columns {
  int64_t start = 0, extent = 0;
  bool operator<(const Columns& o) const { return start < o.start; }
};

// Slices of a value that a product and ops on its elements make.
class Pairs {
 public:
  explicit Pairs(NormalGraph& graph) : graph_(graph) {}

  bool Run() {
    const std::vector<std::vector<ValueId>> users = graph_.Users();
    const std::vector<bool> is_result = graph_.IsResult();
    std::map<ValueId, ValueId> halves;  // slices: what takes their places
    const std::vector<ValueId> order = graph_.Order();
    for (const ValueId id : order) {
      const std::vector<ValueId>& of = users[static_cast<size_t>(id)];
      if (of.size() != 2 || is_result[static_cast<size_t>(id)]) continue;
      const bool pair =
          AreHalves(id, of) && (IsGateOf(of[0], of[1], users) || IsGateOf(of[1], of[0], users));
      int visits = 0;
      if (!pair || !IsOfProduct(id, users, is_result, &visits)) continue;
      for (const ValueId slice : of) {
        made_.clear();
        graph_.WorkOn(slice);
        halves[slice] = Part(id, ColumnsOf(graph_.op(slice)));
      }
    }
    if (halves.empty()) return false;
    return graph_.Rewrite([&](ValueId id) {
      const auto half = halves.find(id);
      return half == halves.end() ? id : half->second;
    });
  }

 private:
  static Columns ColumnsOf(const Op& slice) {
    return {slice.starts.back(), slice.type.dims.back().value};
  }

  // Whether two slices cut the columns of `id` in the middle.
  bool AreHalves(ValueId id, const std::vector<ValueId>& slices) const {
    const std::vector<Dim>& dims = graph_.type(id).dims;
    if (dims.empty() || dims.back().symbolic) return false;
    int64_t starts = 0;
    for (const ValueId slice : slices) {
      const Op& op = graph_.op(slice);
      if (op.kind != OpKind::kSlice || op.steps.back() != 1) return false;
      for (size_t i = 0; i + 1 < dims.size(); ++i) {
        if (op.type.dims[i] != dims[i]) return false;
      }
      const int64_t half = op.type.dims.back().value, start = op.starts.back();
      if (2 * half != dims.back().value || (start != 0 && start != half)) return false;
      starts += start;
    }
    return 2 * starts == dims.back().value;
  }

  // The only user, below casts; -1 where there are more. A cast that rounds is let through: the
  // pair then has it too.
  ValueId OnlyUser(ValueId id, const std::vector<std::vector<ValueId>>& users) const {
    for (;;) {
      const std::vector<ValueId>& of = users[static_cast<size_t>(id)];
      if (of.size() != 1) return -1;
      if (graph_.op(of[0]).kind != OpKind::kCast) return of[0];
      id = of[0];
    }
  }

  // Whether `up` is multiplied by a function of only `gate`, and neither is used elsewhere.
  bool IsGateOf(ValueId gate, ValueId up, const std::vector<std::vector<ValueId>>& users) const {
    const ValueId product = OnlyUser(up, users);
    if (product < 0 || !IsBinary(graph_.op(product), BinaryKind::kMul)) return false;
    int visits = 0;
    const bool left = IsFunctionOf(graph_.op(product).operands[0], gate, &visits);
    visits = 0;
    const bool right = IsFunctionOf(graph_.op(product).operands[1], gate, &visits);
    return left != right;
  }

  bool IsFunctionOf(ValueId id, ValueId gate, int* visits) const {
    if (id == gate) return true;
    const Op& op = graph_.op(id);
    if (++*visits > kMostVisits || !IsElementWise(op)) return false;
    bool any = false;
    for (const ValueId operand : op.operands) {
      if (graph_.type(operand).dims.empty()) continue;
      if (!IsFunctionOf(operand, gate, visits)) return false;
      any = true;
    }
    return any;
  }

  // Whether a part of the columns of `id` is made of that part of a weight, and nobody reads what
  // is between.
  bool IsOfProduct(ValueId id, const std::vector<std::vector<ValueId>>& users,
                   const std::vector<bool>& is_result, int* visits) const {
    if (++*visits > kMostVisits) return false;
    const Op& op = graph_.op(id);
    if (IsRowProduct(graph_, op)) {
      ValueId base = -1;
      NormalLayout layout;
      return LayoutBelowViews(graph_, op.operands[1], &base, &layout) &&
             graph_.op(base).kind == OpKind::kInput && !graph_.IsWritten(base) &&
             op.type.dims.back().value % (2 * VectorOf(graph_.type(base).dtype)) == 0;
    }
    if (!IsElementWise(op)) return false;
    int products = 0;
    for (const ValueId operand : op.operands) {
      const Op& from = graph_.op(operand);
      if (from.type.dims.empty() || IsSpreadVector(from)) continue;
      const bool alone = users[static_cast<size_t>(operand)].size() == 1 &&
                         !is_result[static_cast<size_t>(operand)];
      if (!alone || !IsOfProduct(operand, users, is_result, visits)) return false;
      ++products;
    }
    return products == 1;
  }

  // A vector of columns, or one number.
  bool IsSpreadVector(const Op& op) const {
    if (op.kind != OpKind::kBroadcast) return false;
    const TensorType& from = graph_.type(op.operands[0]);
    return from.rank() == 0 || (from.rank() == 1 && from.dims[0] == op.type.dims.back());
  }

  // The columns of `id`, made of those of the weight.
  ValueId Part(ValueId id, Columns columns) {
    const auto [known, fresh] = made_.try_emplace(id, -1);
    if (!fresh) return known->second;
    Op op = graph_.op(id);
    if (op.type.dims.empty()) return made_[id] = id;
    if (IsRowProduct(graph_, op)) {
      const int axis = op.transpose_b ? 0 : 1;
      std::vector<int64_t> starts = {0, 0};
      std::vector<Dim> extents = graph_.type(op.operands[1]).dims;
      starts[static_cast<size_t>(axis)] = columns.start;
      extents[static_cast<size_t>(axis)] = Dim::Constant(columns.extent);
      op.operands[1] = graph_.AddSlice(op.operands[1], starts, extents);
    } else if (op.kind == OpKind::kBroadcast) {
      if (graph_.type(op.operands[0]).rank() == 1) {
        op.operands[0] =
            graph_.AddSlice(op.operands[0], {columns.start}, {Dim::Constant(columns.extent)});
      }
    } else {
      for (ValueId& operand : op.operands) operand = Part(operand, columns);
    }
    op.type.dims.back() = Dim::Constant(columns.extent);
    graph_.WorkOn(id);
    const ValueId part = graph_.Add(std::move(op));
    return made_[id] = part;
  }

  static constexpr int kMostVisits = 64;

  NormalGraph& graph_;
  std::map<ValueId, ValueId> made_;  // of one part
};

}  // namespace

bool PairsOfOneWeight(NormalGraph& graph) { return Pairs(graph).Run(); }

}  // namespace sinter
