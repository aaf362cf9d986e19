#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/op.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {
namespace {

using Order = std::vector<int32_t>;  // of a transpose: result axis i is operand axis order[i]

Order InverseOf(const Order& order) {
  Order inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }
  return inverse;
}

std::vector<Dim> InOrder(const std::vector<Dim>& dims, const Order& order) {
  std::vector<Dim> result;
  for (const int32_t axis : order) result.push_back(dims[static_cast<size_t>(axis)]);
  return result;
}

class Straightener {
 public:
  explicit Straightener(const Chain& body) : body_(body), ops_(body.ops()), orders_(ops_.size()) {}

  absl::StatusOr<std::optional<Chain>> Run() {
    if (!Has(OpKind::kTranspose) || !Has(OpKind::kReduce)) return std::optional<Chain>();
    const size_t count = ops_.size();
    for (size_t id = 0; id < count; ++id) {
      const auto value = static_cast<ValueId>(id);
      for (ValueId& operand : ops_[id].operands) operand = now_[static_cast<size_t>(operand)];
      const Op op = ops_[id];
      orders_[id] = OrderOf(op);
      now_.push_back(op.kind == OpKind::kReduce ? Reduced(value, op) : value);
    }
    if (ops_.size() == count) return std::optional<Chain>();
    SINTER_ASSIGN_OR_RETURN(Chain straight, Replayed());
    return std::optional<Chain>(std::move(straight));
  }

 private:
  bool Has(OpKind kind) const {
    return std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) { return op.kind == kind; });
  }

  // The order of the transpose that an op is, or reads through element-wise ops; else empty.
  Order OrderOf(const Op& op) const {
    if (op.kind == OpKind::kTranspose) return op.axes;
    if (!IsElementWise(op)) return {};
    for (const ValueId operand : op.operands) {
      const Order& order = orders_[static_cast<size_t>(operand)];
      if (!order.empty()) return order;
    }
    return {};
  }

  ValueId Add(Op op) {
    ops_.push_back(std::move(op));
    orders_.emplace_back();
    return static_cast<ValueId>(ops_.size()) - 1;
  }

  ValueId AddView(OpKind kind, ValueId of, const std::vector<Dim>& dims, Order axes = {}) {
    Op view;
    view.kind = kind;
    view.operands = {of};
    view.type = {ops_[static_cast<size_t>(of)].type.dtype, dims};
    view.axes = std::move(axes);
    return Add(std::move(view));
  }

  // The value of which `value` is the transpose by `order`.
  ValueId Straight(ValueId value, const Order& order) {
    const auto known = straight_.find({value, order});
    if (known != straight_.end()) return known->second;
    Op op = ops_[static_cast<size_t>(value)];
    ValueId result = value;
    if (op.kind == OpKind::kTranspose && op.axes == order) {
      result = op.operands[0];
    } else if (op.type.rank() > 0) {
      const Order inverse = InverseOf(order);
      const std::vector<Dim> dims = InOrder(op.type.dims, inverse);
      if (orders_[static_cast<size_t>(value)] == order) {
        for (ValueId& operand : op.operands) operand = Straight(operand, order);
        op.type.dims = dims;
        result = Add(std::move(op));
      } else {
        result = AddView(OpKind::kTranspose, value, dims, inverse);
      }
    }
    straight_[{value, order}] = result;
    return result;
  }

  ValueId Reduced(ValueId value, Op op) {
    const Order order = orders_[static_cast<size_t>(op.operands[0])];
    if (order.empty()) return value;
    const std::vector<Dim> dims = op.type.dims;
    Order axes, kept;  // of the straight operand; kept ones in the order of the result
    for (size_t i = 0; i < order.size(); ++i) {
      const auto axis = static_cast<int32_t>(i);
      const bool reduced = std::find(op.axes.begin(), op.axes.end(), axis) != op.axes.end();
      (reduced ? axes : kept).push_back(order[i]);
    }
    std::sort(axes.begin(), axes.end());
    op.operands = {Straight(op.operands[0], order)};
    const std::vector<Dim> from = ops_[static_cast<size_t>(op.operands[0])].type.dims;
    Order ascending = kept;
    std::sort(ascending.begin(), ascending.end());
    op.axes = axes;
    op.keepdims = false;
    op.type.dims = InOrder(from, ascending);
    ValueId result = Add(std::move(op));
    if (ascending != kept) {
      Order turn;
      for (const int32_t axis : kept) {
        const auto at = std::find(ascending.begin(), ascending.end(), axis);
        turn.push_back(static_cast<int32_t>(at - ascending.begin()));
      }
      result = AddView(OpKind::kTranspose, result, InOrder(from, kept), turn);
      orders_.back() = turn;
    }
    if (ops_[static_cast<size_t>(result)].type.dims == dims) return result;
    return AddView(OpKind::kReshape, result, dims);
  }

  // What the outputs need of the ops, and all inputs, as a chain.
  absl::StatusOr<Chain> Replayed() const {
    std::vector<bool> needed(ops_.size(), false);
    std::vector<ValueId> open;
    for (const ChainOutput& out : body_.outputs()) {
      open.push_back(now_[static_cast<size_t>(out.value)]);
    }
    while (!open.empty()) {
      const auto id = static_cast<size_t>(open.back());
      open.pop_back();
      if (needed[id]) continue;
      needed[id] = true;
      open.insert(open.end(), ops_[id].operands.begin(), ops_[id].operands.end());
    }
    ChainBuilder builder;
    std::map<ValueId, ValueId> ids;
    for (const ValueId id : InComputingOrder(needed)) {
      Op op = ops_[static_cast<size_t>(id)];
      for (ValueId& operand : op.operands) operand = ids.at(operand);
      SINTER_ASSIGN_OR_RETURN(ids[id], Replay(builder, op, false));
    }
    for (const ChainOutput& out : body_.outputs()) {
      OutputOptions options;
      options.strides = out.strides;
      if (out.alias_input >= 0) options.alias = ids.at(body_.input(out.alias_input));
      SINTER_RETURN_IF_ERROR(builder.Output(ids.at(now_[static_cast<size_t>(out.value)]), options));
    }
    return builder.Finish();
  }

  // The inputs first, in their order; then each op after its operands.
  std::vector<ValueId> InComputingOrder(const std::vector<bool>& needed) const {
    std::vector<ValueId> order;
    std::vector<bool> done(ops_.size(), false);
    for (int i = 0; i < body_.num_inputs(); ++i) {
      order.push_back(body_.input(i));
      done[static_cast<size_t>(body_.input(i))] = true;
    }
    for (size_t id = 0; id < ops_.size(); ++id) {
      if (!needed[id]) continue;
      std::vector<ValueId> open = {static_cast<ValueId>(id)};
      while (!open.empty()) {
        const ValueId top = open.back();
        if (done[static_cast<size_t>(top)]) {
          open.pop_back();
          continue;
        }
        bool ready = true;
        for (const ValueId operand : ops_[static_cast<size_t>(top)].operands) {
          if (done[static_cast<size_t>(operand)]) continue;
          ready = false;
          open.push_back(operand);
        }
        if (!ready) continue;
        done[static_cast<size_t>(top)] = true;
        order.push_back(top);
        open.pop_back();
      }
    }
    return order;
  }

  const Chain& body_;
  std::vector<Op> ops_;        // of the body, then the added ones
  std::vector<Order> orders_;  // by op of ops_
  std::vector<ValueId> now_;   // by op of the body: what stands for it
  std::map<std::pair<ValueId, Order>, ValueId> straight_;
};

}  // namespace

absl::StatusOr<std::optional<Chain>> WithStraightReductions(const Chain& body) {
  return Straightener(body).Run();
}

}  // namespace sinter
