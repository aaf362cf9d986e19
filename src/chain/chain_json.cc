#include "src/chain/chain_json.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/replay.h"

namespace sinter {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMaxText = size_t{64} << 20;
constexpr int kMaxDepth = 8;

// ------------------------------------------------------------------------------------------
// writing

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
      (*out)["axis"] = op.axis;
      break;
    case OpKind::kMatmul:
      (*out)["transpose_a"] = op.transpose_a;
      (*out)["transpose_b"] = op.transpose_b;
      break;
    case OpKind::kUnary:
    case OpKind::kBinary:
    case OpKind::kCompare:
      (*out)["kind"] = std::string(NameOf(op));
      break;
    case OpKind::kReduce:
      (*out)["kind"] = std::string(NameOf(op.reduce));
      (*out)["axes"] = op.axes;
      (*out)["keepdims"] = op.keepdims;
      break;
    case OpKind::kTranspose:
      (*out)["axes"] = op.axes;
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

// ------------------------------------------------------------------------------------------
// reading

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// One JSON object at a path: typed access to its keys, and no others.
class Object {
 public:
  static std::string Printable(const std::string& text) {
    std::string result = text.substr(0, 40);
    for (char& c : result) {
      if (c < ' ' || c > '~') c = '?';
    }
    return result;
  }

  Object(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  std::string At(absl::string_view key) const {
    return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
  }
  bool Has(const char* key) const { return json_.contains(key); }

  absl::Status CheckKeys(const std::set<std::string>& allowed) const {
    if (!json_.is_object()) return Bad(path_.empty() ? "json" : path_, ": must be an object");
    for (auto it = json_.begin(); it != json_.end(); ++it) {
      if (allowed.count(it.key()) == 0) return Bad(At(Printable(it.key())), ": unknown key");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<const Json*> Array(const char* key, size_t most) const {
    if (!Has(key)) return Bad(At(key), ": missing");
    const Json& value = json_[key];
    if (!value.is_array()) return Bad(At(key), ": must be an array");
    if (value.size() > most) {
      return Bad(At(key), ": has ", value.size(), " elements, must have at most ", most);
    }
    return &value;
  }
  absl::StatusOr<std::string> Text(const char* key) const {
    if (!Has(key)) return Bad(At(key), ": missing");
    if (!json_[key].is_string()) return Bad(At(key), ": must be a string");
    return json_[key].get<std::string>();
  }
  absl::StatusOr<bool> Flag(const char* key) const {
    if (!Has(key)) return false;
    if (!json_[key].is_boolean()) return Bad(At(key), ": must be true or false");
    return json_[key].get<bool>();
  }
  absl::StatusOr<int64_t> Integer(const char* key) const {
    if (!Has(key)) return Bad(At(key), ": missing");
    return IntegerAt(json_[key], At(key));
  }
  template <typename T>
  absl::StatusOr<std::vector<T>> Integers(const char* key, size_t most) const {
    SINTER_ASSIGN_OR_RETURN(const Json* array, Array(key, most));
    std::vector<T> result;
    for (const Json& element : *array) {
      SINTER_ASSIGN_OR_RETURN(int64_t v,
                              IntegerAt(element, absl::StrCat(At(key), "[", result.size(), "]")));
      result.push_back(static_cast<T>(v));
    }
    return result;
  }
  absl::StatusOr<double> Number(const char* key) const {
    if (!Has(key)) return Bad(At(key), ": missing");
    const Json& value = json_[key];
    if (value.is_number()) return value.get<double>();
    if (value == "inf") return HUGE_VAL;
    if (value == "-inf") return -HUGE_VAL;
    return Bad(At(key), ": must be a number, \"inf\" or \"-inf\"");
  }
  absl::StatusOr<std::vector<Dim>> Dims(const char* key) const {
    SINTER_ASSIGN_OR_RETURN(const Json* array, Array(key, kMaxRank));
    std::vector<Dim> dims;
    for (const Json& element : *array) {
      if (element == "M") {
        dims.push_back(Dim::M());
        continue;
      }
      const std::string where = absl::StrCat(At(key), "[", dims.size(), "]");
      if (!element.is_number_integer()) return Bad(where, ": must be an integer or \"M\"");
      SINTER_ASSIGN_OR_RETURN(int64_t v, IntegerAt(element, where));
      dims.push_back(Dim::Constant(v));
    }
    return dims;
  }
  absl::StatusOr<std::vector<Stride>> Strides(const char* key) const {
    std::vector<Stride> strides;
    if (!Has(key)) return strides;
    SINTER_ASSIGN_OR_RETURN(const Json* array, Array(key, kMaxRank));
    for (const Json& element : *array) {
      SINTER_ASSIGN_OR_RETURN(Stride s,
                              StrideAt(element, absl::StrCat(At(key), "[", strides.size(), "]")));
      strides.push_back(s);
    }
    return strides;
  }
  absl::StatusOr<DType> Type(const char* key) const {
    SINTER_ASSIGN_OR_RETURN(std::string name, Text(key));
    absl::StatusOr<DType> dtype = ParseDType(name);
    if (!dtype.ok()) {
      return Bad(At(key), ": is ", Printable(name), ", must be f32, f16, bf16, s32 or pred");
    }
    return dtype;
  }
  template <typename Kind>
  absl::Status ReadKind(absl::StatusOr<Kind> (*parse)(absl::string_view), const char* key,
                        Kind* out) const {
    SINTER_ASSIGN_OR_RETURN(std::string name, Text(key));
    absl::StatusOr<Kind> kind = parse(Printable(name));
    if (!kind.ok()) return Bad(At(key), ": ", kind.status().message());
    *out = *kind;
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<int64_t> IntegerAt(const Json& value, const std::string& where) {
    constexpr int64_t kLimit = int64_t{1} << 53;
    if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kLimit)) {
      return static_cast<int64_t>(value.get<uint64_t>());
    }
    if (value.is_number_integer() && !value.is_number_unsigned() &&
        value.get<int64_t>() >= -kLimit) {
      return value.get<int64_t>();
    }
    return Bad(where, ": must be an integer of at most 2^53");
  }
  // An integer, "M", "8*M" or "8*M^2".
  static absl::StatusOr<Stride> StrideAt(const Json& value, const std::string& where) {
    if (!value.is_string()) {
      if (!value.is_number_integer()) return Bad(where, ": must be an integer or like \"8*M\"");
      SINTER_ASSIGN_OR_RETURN(int64_t v, IntegerAt(value, where));
      return Stride{v, 0};
    }
    const std::string text = value.get<std::string>();
    Stride stride{1, 1};
    const size_t star = text.find('*');
    const std::string power = star == std::string::npos ? text : text.substr(star + 1);
    bool good = star == std::string::npos || absl::SimpleAtoi(text.substr(0, star), &stride.value);
    if (power.size() == 3 && power[1] == '^' && power[2] >= '2' && power[2] <= '5') {
      stride.m_power = power[2] - '0';
    } else {
      good = good && power.size() == 1;
    }
    if (!good || power[0] != 'M') return Bad(where, ": must be an integer or like \"8*M\"");
    return stride;
  }

  const Json& json_;
  std::string path_;
};

std::set<std::string> KeysOf(OpKind kind) {
  std::set<std::string> keys = {"id", "op", "in", "dtype", "dims"};
  const auto add = [&](std::initializer_list<const char*> more) {
    keys.insert(more.begin(), more.end());
  };
  if (kind == OpKind::kScalar) add({"value"});
  if (kind == OpKind::kIota || kind == OpKind::kConcat) add({"axis"});
  if (kind == OpKind::kMatmul) add({"transpose_a", "transpose_b"});
  if (kind == OpKind::kUnary || kind == OpKind::kBinary || kind == OpKind::kCompare) add({"kind"});
  if (kind == OpKind::kReduce) add({"kind", "axes", "keepdims"});
  if (kind == OpKind::kTranspose) add({"axes"});
  if (kind == OpKind::kSlice) add({"starts", "limits", "steps"});
  return keys;
}

absl::Status ReadAxis(const Object& in, Op* op) {
  SINTER_ASSIGN_OR_RETURN(int64_t axis, in.Integer("axis"));
  op->axis = axis >= 0 && axis < kMaxRank ? static_cast<int32_t>(axis) : -1;
  return absl::OkStatus();
}

absl::Status ReadAxes(const Object& in, Op* op) {
  SINTER_ASSIGN_OR_RETURN(op->axes, in.Integers<int32_t>("axes", kMaxRank));
  return absl::OkStatus();
}

absl::Status ReadAttributes(const Object& in, Op* op) {
  switch (op->kind) {
    case OpKind::kScalar: {
      SINTER_ASSIGN_OR_RETURN(op->scalar, in.Number("value"));
      return absl::OkStatus();
    }
    case OpKind::kIota:
    case OpKind::kConcat:
      return ReadAxis(in, op);
    case OpKind::kMatmul: {
      SINTER_ASSIGN_OR_RETURN(op->transpose_a, in.Flag("transpose_a"));
      SINTER_ASSIGN_OR_RETURN(op->transpose_b, in.Flag("transpose_b"));
      return absl::OkStatus();
    }
    case OpKind::kUnary:
      return in.ReadKind(&ParseUnaryKind, "kind", &op->unary);
    case OpKind::kBinary:
      return in.ReadKind(&ParseBinaryKind, "kind", &op->binary);
    case OpKind::kCompare:
      return in.ReadKind(&ParseCompareKind, "kind", &op->compare);
    case OpKind::kReduce: {
      SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseReduceKind, "kind", &op->reduce));
      SINTER_ASSIGN_OR_RETURN(op->keepdims, in.Flag("keepdims"));
      return ReadAxes(in, op);
    }
    case OpKind::kTranspose:
      return ReadAxes(in, op);
    case OpKind::kSlice: {
      SINTER_ASSIGN_OR_RETURN(op->starts, in.Integers<int64_t>("starts", kMaxRank));
      SINTER_ASSIGN_OR_RETURN(op->steps, in.Integers<int64_t>("steps", kMaxRank));
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckId(const Object& in, ValueId expected) {
  SINTER_ASSIGN_OR_RETURN(int64_t id, in.Integer("id"));
  if (id == expected) return absl::OkStatus();
  return Bad(in.At("id"), ": is ", id, ", must be ", expected);
}

absl::Status ReadInput(const Json& json, const std::string& path, ChainBuilder& builder) {
  const Object in(json, path);
  SINTER_RETURN_IF_ERROR(in.CheckKeys({"id", "name", "dtype", "dims", "strides", "constant"}));
  SINTER_RETURN_IF_ERROR(CheckId(in, builder.size()));
  TensorType type;
  InputOptions options;
  SINTER_ASSIGN_OR_RETURN(type.dtype, in.Type("dtype"));
  SINTER_ASSIGN_OR_RETURN(type.dims, in.Dims("dims"));
  SINTER_ASSIGN_OR_RETURN(options.strides, in.Strides("strides"));
  SINTER_ASSIGN_OR_RETURN(options.constant, in.Flag("constant"));
  if (in.Has("name")) {
    SINTER_ASSIGN_OR_RETURN(options.name, in.Text("name"));
  }
  absl::Status status = builder.Input(type, options).status();
  return status.ok() ? status : Annotate(status, path);
}

absl::Status AddSlice(const Object& in, const Op& op, ChainBuilder& builder) {
  SINTER_ASSIGN_OR_RETURN(std::vector<Dim> limits, in.Dims("limits"));
  return builder.Slice(op.operands.empty() ? -1 : op.operands[0], op.starts, limits, op.steps)
      .status();
}

absl::Status ReadOp(const Json& json, const std::string& path, ChainBuilder& builder) {
  const Object in(json, path);
  Op op;
  if (!json.is_object()) return in.CheckKeys({});
  SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseOpKind, "op", &op.kind));
  if (op.kind == OpKind::kInput) return Bad(in.At("op"), ": an input belongs into inputs");
  SINTER_RETURN_IF_ERROR(in.CheckKeys(KeysOf(op.kind)));
  SINTER_RETURN_IF_ERROR(CheckId(in, builder.size()));
  if (in.Has("in")) {
    SINTER_ASSIGN_OR_RETURN(std::vector<int64_t> ids, in.Integers<int64_t>("in", 64));
    for (int64_t id : ids) {
      op.operands.push_back(id >= 0 && id < builder.size() ? static_cast<ValueId>(id) : -1);
    }
  }
  SINTER_ASSIGN_OR_RETURN(op.type.dtype, in.Type("dtype"));
  SINTER_ASSIGN_OR_RETURN(op.type.dims, in.Dims("dims"));
  SINTER_RETURN_IF_ERROR(ReadAttributes(in, &op));
  absl::Status status;
  if (op.kind == OpKind::kSlice) {
    // The step of a slice of one element is free, so limits are read, not derived.
    status = AddSlice(in, op, builder);
  } else {
    status = Replay(builder, op, false).status();
  }
  if (!status.ok()) return Annotate(status, path);
  const TensorType& type = builder.TypeOf(builder.size() - 1);
  if (type == op.type) return absl::OkStatus();
  return Bad(path, ": type is ", ToString(op.type), ", must be ", ToString(type));
}

absl::Status ReadOutput(const Json& json, const std::string& path, ChainBuilder& builder) {
  const Object in(json, path);
  SINTER_RETURN_IF_ERROR(in.CheckKeys({"value", "strides", "alias"}));
  OutputOptions options;
  SINTER_ASSIGN_OR_RETURN(int64_t value, in.Integer("value"));
  SINTER_ASSIGN_OR_RETURN(options.strides, in.Strides("strides"));
  if (in.Has("alias")) {
    SINTER_ASSIGN_OR_RETURN(int64_t alias, in.Integer("alias"));
    options.alias = alias >= 0 && alias < builder.size() ? static_cast<ValueId>(alias) : -2;
  }
  const bool known = value >= 0 && value < builder.size();
  return builder.Output(known ? static_cast<ValueId>(value) : -1, options);
}

using ReadElement = absl::Status (*)(const Json&, const std::string&, ChainBuilder&);

absl::Status ReadArray(const Object& top, const char* key, ReadElement read,
                       ChainBuilder& builder) {
  SINTER_ASSIGN_OR_RETURN(const Json* array, top.Array(key, size_t{1} << 16));
  for (size_t i = 0; i < array->size(); ++i) {
    SINTER_RETURN_IF_ERROR(read((*array)[i], absl::StrCat(key, "[", i, "]"), builder));
  }
  return absl::OkStatus();
}

// Deep nesting and repeated keys are found while parsing: the parser itself accepts both.
absl::StatusOr<Json> ParseText(absl::string_view text) {
  if (text.size() > kMaxText) {
    return Bad("json: has ", text.size(), " bytes, must have at most ", kMaxText);
  }
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth) return Bad("json: nested deeper than ", kMaxDepth, " at byte ", i);
  }
  std::vector<std::set<std::string>> keys;
  bool repeats = false;
  std::string repeated;
  const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      repeats = true;
      repeated = Object::Printable(parsed.get<std::string>());
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("json: not valid JSON");
  if (repeats) return Bad("json: key ", repeated, " is given twice in one object");
  return json;
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

absl::StatusOr<Chain> ChainFromJson(absl::string_view text) {
  SINTER_ASSIGN_OR_RETURN(const Json json, ParseText(text));
  const Object top(json, "");
  SINTER_RETURN_IF_ERROR(top.CheckKeys({"schema", "inputs", "ops", "outputs"}));
  SINTER_ASSIGN_OR_RETURN(int64_t schema, top.Integer("schema"));
  if (schema != kChainJsonSchema) {
    return Bad("schema: is ", schema, ", must be ", kChainJsonSchema);
  }
  ChainBuilder builder;
  SINTER_RETURN_IF_ERROR(ReadArray(top, "inputs", &ReadInput, builder));
  SINTER_RETURN_IF_ERROR(ReadArray(top, "ops", &ReadOp, builder));
  SINTER_RETURN_IF_ERROR(ReadArray(top, "outputs", &ReadOutput, builder));
  return builder.Finish();
}

}  // namespace sinter
