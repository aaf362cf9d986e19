#include "src/normal/graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/builder.h"

namespace sinter {
namespace {

TensorType WiderOf(const TensorType& a, const TensorType& b) {
  TensorType type = a.rank() >= b.rank() ? a : b;
  if (a.dtype == b.dtype) return type;
  const bool half = SizeOf(a.dtype) == SizeOf(b.dtype);
  type.dtype = half ? DType::kF32 : SizeOf(a.dtype) > SizeOf(b.dtype) ? a.dtype : b.dtype;
  return type;
}

}  // namespace

Op OpOf(OpKind kind, std::vector<ValueId> operands, TensorType type) {
  Op op;
  op.kind = kind;
  op.operands = std::move(operands);
  op.type = std::move(type);
  return op;
}

NormalGraph::NormalGraph(std::shared_ptr<const Chain> callers)
    : callers_(std::move(callers)), ops_(callers_->ops().begin(), callers_->ops().end()) {
  const Chain& chain = *callers_;
  const std::vector<int32_t>& order = chain.InputOrder();
  for (int i = 0; i < chain.num_inputs(); ++i) {
    sources_.push_back({{i, 0}, chain.InputName(order[static_cast<size_t>(i)])});
  }
  for (size_t i = 0; i < ops_.size(); ++i) origins_.push_back(static_cast<ValueId>(i));
  for (const ChainOutput& out : chain.outputs()) {
    results_.push_back({out.value, out.strides, out.alias_input});
  }
}

const std::vector<ValueId>& NormalGraph::Order() {
  if (ordered_) return order_;
  order_.clear();
  ordered_ = true;
  std::vector<bool> seen(ops_.size(), false);
  std::vector<std::pair<ValueId, size_t>> stack;
  const auto push = [&](ValueId id) {
    if (seen[static_cast<size_t>(id)]) return;
    seen[static_cast<size_t>(id)] = true;
    stack.emplace_back(id, 0);
  };
  for (const NormalResult& result : results_) {
    push(result.value);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const std::vector<ValueId>& operands = op(id).operands;
      if (next < operands.size()) {
        push(operands[next++]);
      } else {
        order_.push_back(id);
        stack.pop_back();
      }
    }
  }
  return order_;
}

std::vector<std::vector<ValueId>> NormalGraph::Users() {
  std::vector<std::vector<ValueId>> users(ops_.size());
  for (const ValueId user : Order()) {
    for (const ValueId operand : op(user).operands) {
      users[static_cast<size_t>(operand)].push_back(user);
    }
  }
  return users;
}

std::vector<bool> NormalGraph::IsResult() const {
  std::vector<bool> is(ops_.size(), false);
  for (const NormalResult& result : results_) is[static_cast<size_t>(result.value)] = true;
  return is;
}

void NormalGraph::SetResult(size_t i, ValueId value, std::vector<Stride> strides) {
  results_[i].value = value;
  results_[i].strides = std::move(strides);
  ordered_ = false;
}

bool NormalGraph::IsWritten(ValueId input) const {
  const int buffer = source(input).buffer;
  return std::any_of(results_.begin(), results_.end(), [&](const NormalResult& result) {
    return result.alias >= 0 && sources_[static_cast<size_t>(result.alias)].view.buffer == buffer;
  });
}

void NormalGraph::MoveAlias(ValueId from, ValueId to) {
  for (NormalResult& result : results_) {
    if (result.alias == op(from).input) result.alias = op(to).input;
  }
}

ValueId NormalGraph::Add(Op op) {
  ops_.push_back(std::move(op));
  origins_.push_back(origin_);
  ordered_ = false;
  return size() - 1;
}

ValueId NormalGraph::AddInput(ValueId of, TensorType type, std::vector<Stride> strides,
                              int64_t offset_bytes) {
  Source source = sources_[static_cast<size_t>(op(of).input)];
  source.view.offset_bytes += offset_bytes;
  Op input;
  input.constant = op(of).constant;
  input.type = std::move(type);
  input.strides = std::move(strides);
  input.input = static_cast<int32_t>(sources_.size());
  sources_.push_back(std::move(source));
  return Add(std::move(input));
}

ValueId NormalGraph::AddView(OpKind kind, ValueId operand, std::vector<Dim> dims) {
  return Add(OpOf(kind, {operand}, {type(operand).dtype, std::move(dims)}));
}

ValueId NormalGraph::AddTranspose(ValueId operand, std::vector<int32_t> axes) {
  Op op = OpOf(OpKind::kTranspose, {operand}, {type(operand).dtype, {}});
  for (const int32_t axis : axes) {
    op.type.dims.push_back(type(operand).dims[static_cast<size_t>(axis)]);
  }
  op.axes = std::move(axes);
  return Add(std::move(op));
}

ValueId NormalGraph::AddSlice(ValueId operand, std::vector<int64_t> starts,
                              std::vector<Dim> extents) {
  Op op = OpOf(OpKind::kSlice, {operand}, {type(operand).dtype, std::move(extents)});
  op.steps.assign(starts.size(), 1);
  op.starts = std::move(starts);
  return Add(std::move(op));
}

ValueId NormalGraph::AddConcat(std::vector<ValueId> operands, int axis) {
  int64_t extent = 0;
  for (const ValueId operand : operands) {
    extent += type(operand).dims[static_cast<size_t>(axis)].value;
  }
  const TensorType first = type(operands[0]);
  Op op = OpOf(OpKind::kConcat, std::move(operands), first);
  op.axis = axis;
  op.type.dims[static_cast<size_t>(axis)] = Dim::Constant(extent);
  return Add(std::move(op));
}

ValueId NormalGraph::AddIota(std::vector<Dim> dims, int axis) {
  Op op = OpOf(OpKind::kIota, {}, {DType::kS32, std::move(dims)});
  op.axis = axis;
  return Add(std::move(op));
}

ValueId NormalGraph::AddScalar(double value, DType dtype) {
  Op op = OpOf(OpKind::kScalar, {}, {dtype, {}});
  op.scalar = value;
  return Add(std::move(op));
}

ValueId NormalGraph::AddUnary(UnaryKind kind, ValueId operand) {
  Op op = OpOf(OpKind::kUnary, {operand}, type(operand));
  op.unary = kind;
  return Add(std::move(op));
}

ValueId NormalGraph::AddBinary(BinaryKind kind, ValueId a, ValueId b) {
  Op op = OpOf(OpKind::kBinary, {a, b}, WiderOf(type(a), type(b)));
  op.binary = kind;
  return Add(std::move(op));
}

ValueId NormalGraph::AddCast(ValueId operand, DType dtype) {
  return Add(OpOf(OpKind::kCast, {operand}, {dtype, type(operand).dims}));
}

bool NormalGraph::Rewrite(const std::function<ValueId(ValueId)>& change) {
  const std::vector<ValueId> order = Order();
  std::vector<ValueId> now(ops_.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  bool changed = false;
  for (const ValueId id : order) {
    for (ValueId& operand : ops_[static_cast<size_t>(id)].operands) {
      // New values are made of replaced ones.
      if (static_cast<size_t>(operand) < now.size()) operand = now[static_cast<size_t>(operand)];
    }
    WorkOn(id);
    const ValueId with = change(id);
    changed = changed || with != id;
    now[static_cast<size_t>(id)] = with;
  }
  if (!changed) return false;
  for (NormalResult& result : results_) result.value = now[static_cast<size_t>(result.value)];
  ordered_ = false;
  return true;
}

absl::StatusOr<std::shared_ptr<const NormalForm>> NormalGraph::Finish() {
  auto form = std::make_shared<NormalForm>();
  ChainBuilder builder;
  std::vector<ValueId> number(ops_.size(), -1);
  std::vector<const Source*> given;  // by input of the builder
  // Inputs first, in the caller's order: messages name an input by its number.
  std::vector<ValueId> inputs;
  for (const ValueId id : Order()) {
    if (op(id).kind == OpKind::kInput) inputs.push_back(id);
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [&](ValueId a, ValueId b) { return source(a).buffer < source(b).buffer; });
  for (const ValueId id : inputs) {
    const Source& from = sources_[static_cast<size_t>(op(id).input)];
    SINTER_ASSIGN_OR_RETURN(
        number[static_cast<size_t>(id)],
        builder.Input(op(id).type, {op(id).constant, op(id).strides, from.name}));
    given.push_back(&from);
  }
  std::vector<ValueId> source_value(sources_.size(), -1);
  for (const ValueId id : Order()) {
    if (op(id).kind == OpKind::kInput) {
      source_value[static_cast<size_t>(op(id).input)] = number[static_cast<size_t>(id)];
      continue;
    }
    Op copy = op(id);
    for (ValueId& operand : copy.operands) operand = number[static_cast<size_t>(operand)];
    SINTER_ASSIGN_OR_RETURN(number[static_cast<size_t>(id)], Replay(builder, copy));
  }
  for (const NormalResult& result : results_) {
    OutputOptions options{result.strides, -1};
    if (result.alias >= 0) options.alias = source_value[static_cast<size_t>(result.alias)];
    SINTER_RETURN_IF_ERROR(builder.Output(number[static_cast<size_t>(result.value)], options));
  }
  SINTER_ASSIGN_OR_RETURN(Chain chain, builder.Finish());
  // The builder numbers ops as Order lists them, unless it made products of convolutions.
  if (chain.ops().size() == Order().size()) {
    for (const ValueId id : Order()) form->origins.push_back(origins_[static_cast<size_t>(id)]);
  }
  for (const int32_t input : chain.InputOrder()) {
    form->buffers.push_back(given[static_cast<size_t>(input)]->view);
  }
  for (int i = 0; i < chain.num_outputs(); ++i) {
    form->buffers.push_back({callers_->num_inputs() + i, 0});
  }
  form->callers = callers_;
  form->chain = std::make_shared<const Chain>(std::move(chain));
  form->notes = notes_;
  for (int i = 0; i < static_cast<int>(form->buffers.size()); ++i) {
    const BufferView& view = form->buffers[static_cast<size_t>(i)];
    if (view.offset_bytes == 0 && view.buffer == i) continue;
    const int output = view.buffer - callers_->num_inputs();
    form->notes.push_back(absl::StrCat(
        "#", i, " is ",
        output < 0 ? absl::StrCat("input ", view.buffer) : absl::StrCat("output ", output),
        view.offset_bytes == 0 ? "" : absl::StrCat(" from byte ", view.offset_bytes, " on")));
  }
  return form;
}

bool IsRowProduct(const NormalGraph& graph, const Op& op) {
  return op.kind == OpKind::kMatmul && graph.type(op.operands[1]).rank() == 2;
}

bool IsProduct(const NormalGraph& graph, const Op& op) {
  return IsRowProduct(graph, op) || op.kind == OpKind::kConv2d || op.kind == OpKind::kScaledMatmul;
}

std::vector<bool> BehindProducts(NormalGraph& graph) {
  std::vector<bool> behind(static_cast<size_t>(graph.size()), false);
  for (const ValueId id : graph.Order()) {
    const Op& op = graph.op(id);
    const bool passes = IsElementWise(op) || op.kind == OpKind::kReshape;
    behind[static_cast<size_t>(id)] =
        IsProduct(graph, op) ||
        (passes && std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId operand) {
           return behind[static_cast<size_t>(operand)];
         }));
  }
  return behind;
}

}  // namespace sinter
