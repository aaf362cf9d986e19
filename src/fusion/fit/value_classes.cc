#include "src/fusion/fit/value_classes.h"

#include <algorithm>
#include <utility>

#include "src/base/codec.h"

namespace sinter {
namespace {

// The kind of classes that no op makes; kinds of ops start at 1.
constexpr uint32_t kOther = 0;

bool IsNarrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

void WriteType(const TensorType& type, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(type.dtype));
  for (const Dim& dim : type.dims) w.I64(dim.symbolic ? -1 : dim.value);
}

template <typename T>
void WriteList(const std::vector<T>& list, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(list.size()));
  for (const T value : list) w.I64(value);
}

// Writes the fields that distinguish ops with equal operands and types, except those written
// elsewhere.
void WriteFields(const Op& op, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(op.kind));
  switch (op.kind) {
    case OpKind::kUnary:
      return w.U32(static_cast<uint32_t>(op.unary));
    case OpKind::kBinary:
      return w.U32(static_cast<uint32_t>(op.binary));
    case OpKind::kCompare:
      return w.U32(static_cast<uint32_t>(op.compare));
    case OpKind::kScalar:
      return w.F64(op.scalar);
    case OpKind::kIota:
    case OpKind::kConcat:
      return w.I64(op.axis);
    case OpKind::kMatmul:
      return w.U32(static_cast<uint32_t>(op.transpose_a) | static_cast<uint32_t>(op.transpose_b)
                                                               << 1);
    case OpKind::kScaledMatmul:
      return w.U32(static_cast<uint32_t>(op.accumulate));
    case OpKind::kConv2d:
      w.U32(static_cast<uint32_t>(op.conv.filter));
      for (int64_t v : op.conv.strides) w.I64(v);
      for (int64_t v : op.conv.dilations) w.I64(v);
      for (int64_t v : op.conv.pads) w.I64(v);
      return;
    case OpKind::kSlice:
      WriteList(op.starts, w);
      return WriteList(op.steps, w);
    default:
      return;
  }
}

}  // namespace

ValueClasses::ValueClasses(const Chain& chain) { of_chain_ = OfOps(chain, nullptr); }

std::vector<ValueClasses::Class> ValueClasses::OfBody(const Chain& body,
                                                      const std::vector<Class>& inputs) {
  return OfOps(body, &inputs);
}

std::vector<ValueClasses::Class> ValueClasses::OfOps(const Chain& chain,
                                                     const std::vector<Class>* inputs) {
  std::vector<Class> classes;
  classes.reserve(chain.ops().size());
  std::vector<Class> operands;
  for (const Op& op : chain.ops()) {
    if (op.kind == OpKind::kInput) {
      ByteWriter w;
      w.Raw("input");
      w.I64(op.input);
      classes.push_back(inputs != nullptr ? (*inputs)[static_cast<size_t>(op.input)]
                                          : OfOther(w.str(), op.type));
      continue;
    }
    operands.clear();
    for (const ValueId operand : op.operands) operands.push_back(classes[At(operand)]);
    classes.push_back(OfOp(op, operands));
  }
  return classes;
}

ValueClasses::Class ValueClasses::OfOp(const Op& op, const std::vector<Class>& operands) {
  switch (op.kind) {
    case OpKind::kCast:
      return Cast(operands[0], op.type);
    case OpKind::kTranspose:
      return Transposed(operands[0], op.axes, op.type);
    case OpKind::kReshape:
      return Reshaped(operands[0], op.type);
    case OpKind::kReduce:
      return Reduced(op, operands[0]);
    default:
      break;
  }
  ByteWriter w;
  WriteFields(op, w);
  WriteList(operands, w);
  WriteType(op.type, w);
  return Intern(w.Take(), {op.kind, -1, {}, op.type});
}

ValueClasses::Class ValueClasses::OfOther(absl::string_view description, const TensorType& type) {
  ByteWriter w;
  w.U32(kOther);
  w.Bytes(description);
  WriteType(type, w);
  return Intern(w.Take(), {OpKind::kInput, -1, {}, type});
}

ValueClasses::Class ValueClasses::Stored(Class value, DType dtype) {
  return Cast(value, {dtype, TypeOf(value).dims});
}

ValueClasses::Class ValueClasses::Cast(Class value, const TensorType& type) {
  const Node& node = nodes_[At(value)];
  if (node.type.dtype == type.dtype) return value;
  if (node.kind == OpKind::kCast) {
    const DType below = TypeOf(node.operand).dtype;
    const bool rounded = below == DType::kF32 && IsNarrow(node.type.dtype);
    const bool widened = IsNarrow(below) && node.type.dtype == DType::kF32;
    if (below == type.dtype && (rounded || widened)) return node.operand;
  }
  ByteWriter w;
  w.U32(static_cast<uint32_t>(OpKind::kCast));
  w.I64(value);
  WriteType(type, w);
  return Intern(w.Take(), {OpKind::kCast, value, {}, type});
}

// `axes`: axis i of the result is axis axes[i] of `value`.
ValueClasses::Class ValueClasses::Transposed(Class value, std::vector<int32_t> axes,
                                             const TensorType& type) {
  const Node& node = nodes_[At(value)];
  if (node.kind == OpKind::kTranspose) {
    for (int32_t& axis : axes) axis = node.axes[static_cast<size_t>(axis)];
    value = node.operand;
  }
  if (std::is_sorted(axes.begin(), axes.end())) return value;
  ByteWriter w;
  w.U32(static_cast<uint32_t>(OpKind::kTranspose));
  w.I64(value);
  WriteList(axes, w);
  WriteType(type, w);
  return Intern(w.Take(), {OpKind::kTranspose, value, std::move(axes), type});
}

ValueClasses::Class ValueClasses::Reshaped(Class value, const TensorType& type) {
  if (nodes_[At(value)].kind == OpKind::kReshape) value = nodes_[At(value)].operand;
  if (TypeOf(value).dims == type.dims) return value;
  ByteWriter w;
  w.U32(static_cast<uint32_t>(OpKind::kReshape));
  w.I64(value);
  WriteType(type, w);
  return Intern(w.Take(), {OpKind::kReshape, value, {}, type});
}

// Below a transpose, by the axes that are left, in the order of the result. The order of the
// reduced axes is not part of a chain's meaning.
ValueClasses::Class ValueClasses::Reduced(const Op& op, Class operand) {
  const Node& node = nodes_[At(operand)];
  const bool turned = node.kind == OpKind::kTranspose;
  const Class below = turned ? node.operand : operand;
  std::vector<int32_t> left;
  TensorType type{op.type.dtype, {}};
  for (int32_t i = 0; i < node.type.rank(); ++i) {
    if (std::find(op.axes.begin(), op.axes.end(), i) != op.axes.end()) continue;
    left.push_back(turned ? node.axes[static_cast<size_t>(i)] : i);
    type.dims.push_back(node.type.dims[static_cast<size_t>(i)]);
  }
  ByteWriter w;
  w.U32(static_cast<uint32_t>(OpKind::kReduce));
  w.U32(static_cast<uint32_t>(op.reduce));
  w.I64(below);
  WriteList(left, w);
  WriteType(type, w);
  const Class reduced = Intern(w.Take(), {OpKind::kReduce, below, {}, type});
  return Reshaped(reduced, op.type);
}

ValueClasses::Class ValueClasses::Intern(std::string key, Node node) {
  const auto [at, fresh] = known_.try_emplace(std::move(key), static_cast<Class>(nodes_.size()));
  if (fresh) nodes_.push_back(std::move(node));
  return at->second;
}

}  // namespace sinter
