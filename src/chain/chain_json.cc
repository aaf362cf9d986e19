// ChainFromJson.
#include "src/chain/chain_json.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/json_object.h"
#include "src/chain/replay.h"

namespace sinter {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxText = size_t{64} << 20;
constexpr int kMaxDepth = 8;

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

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

absl::Status ReadAxis(const JsonObject& in, Op* op) {
  SINTER_ASSIGN_OR_RETURN(int64_t axis, in.Integer("axis"));
  op->axis = JsonObject::Narrow(axis);
  return absl::OkStatus();
}

absl::Status ReadAxes(const JsonObject& in, Op* op) {
  SINTER_ASSIGN_OR_RETURN(op->axes, in.Integers<int32_t>("axes", kMaxRank));
  return absl::OkStatus();
}

absl::Status ReadAttributes(const JsonObject& in, Op* op) {
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

absl::Status CheckId(const JsonObject& in, ValueId expected) {
  SINTER_ASSIGN_OR_RETURN(int64_t id, in.Integer("id"));
  if (id == expected) return absl::OkStatus();
  return Bad(in.At("id"), ": is ", id, ", must be ", expected);
}

absl::Status ReadInput(const Json& json, const std::string& path, ChainBuilder& builder) {
  const JsonObject in(json, path);
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

absl::Status AddSlice(const JsonObject& in, const Op& op, ChainBuilder& builder) {
  SINTER_ASSIGN_OR_RETURN(std::vector<Dim> limits, in.Dims("limits"));
  return builder.Slice(op.operands.empty() ? -1 : op.operands[0], op.starts, limits, op.steps)
      .status();
}

absl::Status ReadOp(const Json& json, const std::string& path, ChainBuilder& builder) {
  const JsonObject in(json, path);
  Op op;
  if (!json.is_object()) return in.CheckKeys({});
  SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseOpKind, "op", &op.kind));
  if (op.kind == OpKind::kInput) return Bad(in.At("op"), ": an input belongs into inputs");
  SINTER_RETURN_IF_ERROR(in.CheckKeys(KeysOf(op.kind)));
  SINTER_RETURN_IF_ERROR(CheckId(in, builder.size()));
  if (in.Has("in")) {
    SINTER_ASSIGN_OR_RETURN(std::vector<int64_t> ids, in.Integers<int64_t>("in", 64));
    for (int64_t id : ids) op.operands.push_back(JsonObject::Narrow(id));
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
  const JsonObject in(json, path);
  SINTER_RETURN_IF_ERROR(in.CheckKeys({"value", "strides", "alias"}));
  OutputOptions options;
  SINTER_ASSIGN_OR_RETURN(int64_t value, in.Integer("value"));
  SINTER_ASSIGN_OR_RETURN(options.strides, in.Strides("strides"));
  if (in.Has("alias")) {
    SINTER_ASSIGN_OR_RETURN(int64_t alias, in.Integer("alias"));
    options.alias = alias == -1 ? -2 : JsonObject::Narrow(alias);  // -1 would mean none
  }
  return builder.Output(JsonObject::Narrow(value), options);
}

using ReadElement = absl::Status (*)(const Json&, const std::string&, ChainBuilder&);

absl::Status ReadArray(const JsonObject& top, const char* key, ReadElement read,
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
      repeated = JsonObject::Printable(parsed.get<std::string>());
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("json: not valid JSON");
  if (repeats) return Bad("json: key ", repeated, " is given twice in one object");
  return json;
}

}  // namespace

absl::StatusOr<Chain> ChainFromJson(absl::string_view text) {
  SINTER_ASSIGN_OR_RETURN(const Json json, ParseText(text));
  const JsonObject top(json, "");
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
