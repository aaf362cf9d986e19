#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/json_stream.h"

namespace sinter {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxOperands = 64;

// Calls visit(key, field) for each attribute of an op of its kind, in the order of files. `limits`
// are a slice's.
template <typename AnyOp, typename Dims, typename Visitor>
void VisitAttributes(AnyOp& op, Dims& limits, Visitor& visit) {
  const auto moves = [&] {
    visit("strides", op.conv.strides);
    visit("pads", op.conv.pads);
    visit("dilations", op.conv.dilations);
  };
  switch (op.kind) {
    case OpKind::kScalar:
      return visit("value", op.scalar);
    case OpKind::kIota:
    case OpKind::kConcat:
    case OpKind::kGather:
      return visit("axis", op.axis);
    case OpKind::kMatmul:
      visit("transpose_a", op.transpose_a);
      [[fallthrough]];
    case OpKind::kGroupedMatmul:
      return visit("transpose_b", op.transpose_b);
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      visit("axis", op.axis);
      [[fallthrough]];
    case OpKind::kAllReduce:
      return visit("ranks", op.ranks);
    case OpKind::kUnary:
      return visit("kind", op.unary);
    case OpKind::kBinary:
      return visit("kind", op.binary);
    case OpKind::kCompare:
      return visit("kind", op.compare);
    case OpKind::kScan:
      return visit("kind", op.reduce);
    case OpKind::kReduce:
      visit("kind", op.reduce);
      visit("axes", op.axes);
      return visit("keepdims", op.keepdims);
    case OpKind::kTranspose:
      return visit("axes", op.axes);
    case OpKind::kConv2d:
      visit("filter", op.conv.filter);
      moves();
      return visit("groups", op.conv.groups);
    case OpKind::kWindow:
      visit("window", op.taps);
      return moves();
    case OpKind::kScaledMatmul:
      return visit("accumulate", op.accumulate);
    case OpKind::kSlice:
      visit("starts", op.starts);
      visit("limits", limits);
      return visit("steps", op.steps);
    default:
      return;
  }
}

std::set<std::string> KeysOf(const Op& op) {
  std::set<std::string> keys = {"id", "op", "in", "dtype", "dims"};
  const std::vector<Dim> none;
  const auto add = [&](const char* key, const auto&) { keys.insert(key); };
  VisitAttributes(op, none, add);
  return keys;
}

// Reads attributes; the first failure stays.
class AttributeReader {
 public:
  explicit AttributeReader(const JsonObject& in) : in_(in) {}
  const absl::Status& status() const { return status_; }

  void operator()(const char* key, double& out) { Set(in_.Number(key), &out); }
  void operator()(const char* key, bool& out) { Set(in_.Flag(key), &out); }
  void operator()(const char* key, std::vector<Dim>& out) { Set(in_.Dims(key), &out); }
  void operator()(const char* key, int32_t& out) {
    int64_t given = 0;
    Set(in_.Integer(key), &given);
    out = JsonObject::Narrow(given);
  }
  template <typename T>
  void operator()(const char* key, std::vector<T>& out) {
    Set(in_.Integers<T>(key, kMaxRank), &out);
  }
  void operator()(const char* key, UnaryKind& out) { Kind(ParseUnaryKind, key, &out); }
  void operator()(const char* key, BinaryKind& out) { Kind(ParseBinaryKind, key, &out); }
  void operator()(const char* key, CompareKind& out) { Kind(ParseCompareKind, key, &out); }
  void operator()(const char* key, ReduceKind& out) { Kind(ParseReduceKind, key, &out); }

  // These may be left out, and then stay as they are.
  void operator()(const char* key, FilterLayout& out) {
    if (in_.Has(key)) Kind(ParseFilterLayout, key, &out);
  }
  void operator()(const char* key, Accumulate& out) {
    if (in_.Has(key)) Kind(ParseAccumulate, key, &out);
  }
  void operator()(const char* key, int64_t& out) {
    if (in_.Has(key)) Set(in_.Integer(key), &out);
  }
  template <size_t kCount>
  void operator()(const char* key, std::array<int64_t, kCount>& out) {
    std::vector<int64_t> given(out.begin(), out.end());
    if (in_.Has(key)) Set(in_.Integers<int64_t>(key, kCount), &given);
    if (given.size() == kCount) {
      std::copy(given.begin(), given.end(), out.begin());
    } else {
      Keep(Invalid(in_.At(key), ": has ", given.size(), " elements, must have ", kCount));
    }
  }

 private:
  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  template <typename T>
  void Set(absl::StatusOr<T> value, T* out) {
    Keep(value.status());
    if (value.ok()) *out = *std::move(value);
  }
  template <typename T>
  void Kind(absl::StatusOr<T> (*parse)(absl::string_view), const char* key, T* out) {
    Keep(in_.ReadKind(parse, key, out));
  }

  const JsonObject& in_;
  absl::Status status_;
};

// Elements as they are written, before a builder has seen them: the file's arrays come in any
// order.
struct WrittenInput {
  int64_t id = 0;
  TensorType type;
  InputOptions options;
};

struct WrittenOp {
  int64_t id = 0;
  Op op;
  bool has_dtype = false, has_dims = false;
  std::vector<Dim> limits;  // of a slice: the step of one element is free, so they do not follow
};

struct WrittenOutput {
  int64_t value = 0;
  OutputOptions options;
};

// Whether the dtype does not follow from the operands.
bool NeedsDType(OpKind kind) {
  return kind == OpKind::kScalar || kind == OpKind::kIota || kind == OpKind::kCast;
}
bool NeedsDims(OpKind kind) {
  return kind == OpKind::kIota || kind == OpKind::kBroadcast || kind == OpKind::kReshape ||
         kind == OpKind::kTopK || kind == OpKind::kRandom;
}

absl::Status ReadInput(const JsonObject& in, WrittenInput* input) {
  SINTER_RETURN_IF_ERROR(in.CheckKeys({"id", "name", "dtype", "dims", "strides", "constant"}));
  SINTER_ASSIGN_OR_RETURN(input->id, in.Integer("id"));
  SINTER_ASSIGN_OR_RETURN(input->type.dtype, in.Type("dtype"));
  SINTER_ASSIGN_OR_RETURN(input->type.dims, in.Dims("dims"));
  SINTER_ASSIGN_OR_RETURN(input->options.strides, in.Strides("strides"));
  SINTER_ASSIGN_OR_RETURN(input->options.constant, in.Flag("constant"));
  if (in.Has("name")) {
    SINTER_ASSIGN_OR_RETURN(input->options.name, in.Text("name"));
  }
  return absl::OkStatus();
}

absl::Status ReadType(const JsonObject& in, WrittenOp* written) {
  Op& op = written->op;
  written->has_dtype = in.Has("dtype");
  written->has_dims = in.Has("dims");
  if (written->has_dtype || NeedsDType(op.kind)) {
    SINTER_ASSIGN_OR_RETURN(op.type.dtype, in.Type("dtype"));
  }
  if (written->has_dims || NeedsDims(op.kind)) {
    SINTER_ASSIGN_OR_RETURN(op.type.dims, in.Dims("dims"));
  }
  return absl::OkStatus();
}

absl::Status ReadOp(const JsonObject& in, WrittenOp* written) {
  Op& op = written->op;
  SINTER_RETURN_IF_ERROR(in.CheckObject());
  SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseOpKind, "op", &op.kind));
  if (op.kind == OpKind::kInput) return Invalid(in.At("op"), ": an input belongs into inputs");
  SINTER_RETURN_IF_ERROR(in.CheckKeys(KeysOf(op)));
  SINTER_ASSIGN_OR_RETURN(written->id, in.Integer("id"));
  if (in.Has("in")) {
    SINTER_ASSIGN_OR_RETURN(std::vector<int64_t> ids, in.Integers<int64_t>("in", kMaxOperands));
    for (int64_t id : ids) op.operands.push_back(JsonObject::Narrow(id));
  }
  SINTER_RETURN_IF_ERROR(ReadType(in, written));
  if (op.kind == OpKind::kWindow && !in.Has("window")) {
    return WithField(Invalid(in.At("window"), ": is missing, must be [height, width]"),
                     in.At("window"), "missing", "[height, width]");
  }
  AttributeReader attributes(in);
  VisitAttributes(op, written->limits, attributes);
  return attributes.status();
}

absl::Status ReadOutput(const JsonObject& in, WrittenOutput* output) {
  SINTER_RETURN_IF_ERROR(in.CheckKeys({"value", "strides", "alias"}));
  SINTER_ASSIGN_OR_RETURN(output->value, in.Integer("value"));
  SINTER_ASSIGN_OR_RETURN(output->options.strides, in.Strides("strides"));
  if (in.Has("alias")) {
    SINTER_ASSIGN_OR_RETURN(int64_t alias, in.Integer("alias"));
    output->options.alias = alias == -1 ? -2 : JsonObject::Narrow(alias);  // -1 would mean none
  }
  return absl::OkStatus();
}

// The file, element by element.
class ChainReader : public JsonConsumer {
 public:
  absl::StatusOr<bool> TakesArray(const std::string& key) override {
    seen_.insert(key);
    if (key == "schema") return false;
    if (key == "inputs" || key == "ops" || key == "outputs") return true;
    return UnknownKey(PrintableJson(key));
  }

  absl::Status Scalar(const std::string&, const Json& value) override {
    SINTER_ASSIGN_OR_RETURN(const int64_t schema, JsonObject::IntegerAt(value, "schema"));
    if (schema == kChainJsonSchema) return absl::OkStatus();
    return InvalidJson("schema", schema, kChainJsonSchema);
  }

  absl::Status Element(const std::string& key, size_t index, const Json& element) override {
    const JsonObject in(element, absl::StrCat(key, "[", index, "]"));
    if (key == "inputs") return ReadInput(in, &inputs_.emplace_back());
    if (key == "ops") return ReadOp(in, &ops_.emplace_back());
    return ReadOutput(in, &outputs_.emplace_back());
  }

  absl::StatusOr<Chain> Build() {
    for (const char* key : {"schema", "inputs", "ops", "outputs"}) {
      if (seen_.count(key) == 0) return MissingJson(key);
    }
    SINTER_RETURN_IF_ERROR(AddInputs());
    SINTER_RETURN_IF_ERROR(AddOps());
    for (const WrittenOutput& output : outputs_) {
      SINTER_RETURN_IF_ERROR(builder_.Output(JsonObject::Narrow(output.value), output.options));
    }
    return builder_.Finish();
  }

 private:
  absl::Status CheckId(const std::string& path, int64_t id) const {
    if (id == builder_.size()) return absl::OkStatus();
    return InvalidJson(absl::StrCat(path, ".id"), id, builder_.size());
  }

  absl::Status AddInputs() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const std::string path = absl::StrCat("inputs[", i, "]");
      SINTER_RETURN_IF_ERROR(CheckId(path, inputs_[i].id));
      const absl::Status status = builder_.Input(inputs_[i].type, inputs_[i].options).status();
      if (!status.ok()) return Annotate(status, path);
    }
    return absl::OkStatus();
  }

  absl::Status AddOps() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      const std::string path = absl::StrCat("ops[", i, "]");
      SINTER_RETURN_IF_ERROR(CheckId(path, ops_[i].id));
      const absl::Status status = Add(ops_[i]);
      if (!status.ok()) return Annotate(status, path);
      SINTER_RETURN_IF_ERROR(CheckType(path, ops_[i]));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const WrittenOp& written) {
    const Op& op = written.op;
    if (op.kind != OpKind::kSlice) return Replay(builder_, op, false).status();
    const ValueId from = op.operands.empty() ? -1 : op.operands[0];
    return builder_.Slice(from, op.starts, written.limits, op.steps).status();
  }

  // Checks that the given part of the type of the op just added equals the inferred one.
  absl::Status CheckType(const std::string& path, const WrittenOp& written) const {
    const TensorType& type = builder_.TypeOf(builder_.size() - 1);
    TensorType given = type;
    if (written.has_dtype) given.dtype = written.op.type.dtype;
    if (written.has_dims) given.dims = written.op.type.dims;
    if (given == type) return absl::OkStatus();
    return InvalidField(absl::StrCat(path, ": type"), ToString(given), ToString(type));
  }

  std::set<std::string> seen_;
  std::vector<WrittenInput> inputs_;
  std::vector<WrittenOp> ops_;
  std::vector<WrittenOutput> outputs_;
  ChainBuilder builder_;
};

}  // namespace

absl::StatusOr<Chain> ChainFromJson(absl::string_view text) {
  ChainReader reader;
  SINTER_RETURN_IF_ERROR(StreamJson(text, JsonBounds(), &reader));
  return reader.Build();
}

// ChainToJson.

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

// Writes attributes; what may be left out is, where it is the default.
class AttributeWriter {
 public:
  explicit AttributeWriter(OrderedJson* out) : out_(*out) {}

  void operator()(const char* key, double value) { out_[key] = ScalarToJson(value); }
  void operator()(const char* key, const std::vector<Dim>& dims) { out_[key] = DimsToJson(dims); }
  void operator()(const char* key, int64_t value) {
    if (value != 1) out_[key] = value;
  }
  void operator()(const char* key, Accumulate value) {
    if (value == Accumulate::kFast) out_[key] = std::string(NameOf(value));
  }
  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      out_[key] = std::string(NameOf(value));
    } else {
      out_[key] = value;
    }
  }

 private:
  OrderedJson& out_;
};

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
    AttributeWriter attributes(&line);
    const std::vector<Dim> limits = op.kind == OpKind::kSlice ? SliceLimits(op) : op.type.dims;
    VisitAttributes(op, limits, attributes);
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
