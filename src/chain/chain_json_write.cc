// ChainToJson.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/chain/chain_json.h"
#include "src/chain/replay.h"

namespace sinter {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson DimsToJson(const std::vector<Dim>& dims) {
  OrderedJson result = OrderedJson::array();
  for (Dim dim : dims) {
    if (dim.symbolic) {
      result.push_back("M");
    } else {
      result.push_back(dim.value);
    }
  }
  return result;
}

OrderedJson StridesToJson(const std::vector<Stride>& strides) {
  OrderedJson result = OrderedJson::array();
  for (Stride s : strides) {
    if (s.m_power == 0) {
      result.push_back(s.value);
    } else {
      const std::string text = ToString({s});
      result.push_back(text.substr(1, text.size() - 2));
    }
  }
  return result;
}

OrderedJson ScalarToJson(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

void PutType(const TensorType& type, OrderedJson* out) {
  (*out)["dtype"] = std::string(NameOf(type.dtype));
  (*out)["dims"] = DimsToJson(type.dims);
}

void PutStrides(const TensorType& type, const std::vector<Stride>& strides, OrderedJson* out) {
  if (strides != ContiguousStrides(type.dims)) (*out)["strides"] = StridesToJson(strides);
}

void PutAttributes(const Op& op, OrderedJson* out) {
  switch (op.kind) {
    case OpKind::kScalar:
      (*out)["value"] = ScalarToJson(op.scalar);
      break;
    case OpKind::kIota:
    case OpKind::kConcat:
    case OpKind::kGather:
      (*out)["axis"] = op.axis;
      break;
    case OpKind::kMatmul:
      (*out)["transpose_a"] = op.transpose_a;
      (*out)["transpose_b"] = op.transpose_b;
      break;
    case OpKind::kGroupedMatmul:
      (*out)["transpose_b"] = op.transpose_b;
      break;
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      (*out)["axis"] = op.axis;
      [[fallthrough]];
    case OpKind::kAllReduce:
      (*out)["ranks"] = op.ranks;
      break;
    case OpKind::kUnary:
    case OpKind::kBinary:
    case OpKind::kCompare:
      (*out)["kind"] = std::string(NameOf(op));
      break;
    case OpKind::kScan:
      (*out)["kind"] = std::string(NameOf(op.reduce));
      break;
    case OpKind::kReduce:
      (*out)["kind"] = std::string(NameOf(op.reduce));
      (*out)["axes"] = op.axes;
      (*out)["keepdims"] = op.keepdims;
      break;
    case OpKind::kTranspose:
      (*out)["axes"] = op.axes;
      break;
    case OpKind::kConv2d:
      (*out)["filter"] = std::string(NameOf(op.conv.filter));
      (*out)["strides"] = op.conv.strides;
      (*out)["pads"] = op.conv.pads;
      (*out)["dilations"] = op.conv.dilations;
      if (op.conv.groups != 1) (*out)["groups"] = op.conv.groups;
      break;
    case OpKind::kWindow:
      (*out)["window"] = op.taps;
      (*out)["strides"] = op.conv.strides;
      (*out)["pads"] = op.conv.pads;
      (*out)["dilations"] = op.conv.dilations;
      break;
    case OpKind::kScaledMatmul:
      if (op.accumulate == Accumulate::kFast) {
        (*out)["accumulate"] = std::string(NameOf(op.accumulate));
      }
      break;
    case OpKind::kSlice:
      (*out)["starts"] = op.starts;
      (*out)["limits"] = DimsToJson(SliceLimits(op));
      (*out)["steps"] = op.steps;
      break;
    default:
      break;
  }
}

std::string Line(const OrderedJson& value) {
  return value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
}

// `lines` as the array `key` of the top-level object, one line each.
void AppendArray(absl::string_view key, const std::vector<std::string>& lines, bool last,
                 std::string* text) {
  absl::StrAppend(text, "  \"", key, "\": [");
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(text, i == 0 ? "\n    " : ",\n    ", lines[i]);
  }
  absl::StrAppend(text, lines.empty() ? "]" : "\n  ]", last ? "\n" : ",\n");
}

// Numbers in the file: inputs in the caller's order, then the other ops in canonical order.
std::vector<ValueId> FileNumbers(const Chain& chain) {
  std::vector<ValueId> number(chain.ops().size());
  ValueId next = chain.num_inputs();
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.ops()[id];
    number[id] = op.kind == OpKind::kInput ? chain.InputOrder()[op.input] : next++;
  }
  return number;
}

std::vector<std::string> InputLines(const Chain& chain) {
  std::vector<std::string> lines;
  for (int32_t canonical : chain.CallerOrder()) {
    const Op& op = chain.input_op(canonical);
    OrderedJson line;
    line["id"] = lines.size();
    const std::string& name = chain.InputName(static_cast<int>(lines.size()));
    if (!name.empty()) line["name"] = name;
    PutType(op.type, &line);
    PutStrides(op.type, op.strides, &line);
    if (op.constant) line["constant"] = true;
    lines.push_back(Line(line));
  }
  return lines;
}

}  // namespace

std::string ChainToJson(const Chain& chain) {
  const std::vector<ValueId> number = FileNumbers(chain);
  std::vector<std::string> ops, outputs;
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.ops()[id];
    if (op.kind == OpKind::kInput) continue;
    OrderedJson line;
    line["id"] = number[id];
    line["op"] = std::string(NameOf(op.kind));
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(number[operand]);
    if (!operands.empty()) line["in"] = operands;
    PutAttributes(op, &line);
    PutType(op.type, &line);
    ops.push_back(Line(line));
  }
  for (const ChainOutput& out : chain.outputs()) {
    OrderedJson line;
    line["value"] = number[out.value];
    PutStrides(chain.op(out.value).type, out.strides, &line);
    if (out.alias_input >= 0) line["alias"] = number[chain.input(out.alias_input)];
    outputs.push_back(Line(line));
  }
  std::string text = absl::StrCat("{\n  \"schema\": ", kChainJsonSchema, ",\n");
  AppendArray("inputs", InputLines(chain), false, &text);
  AppendArray("ops", ops, false, &text);
  AppendArray("outputs", outputs, true, &text);
  return text + "}\n";
}

}  // namespace sinter
