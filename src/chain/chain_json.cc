// ChainFromJson.
#include "src/chain/chain_json.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/json_stream.h"
#include "src/chain/replay.h"

namespace sinter {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxOperands = 64;

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
  if (kind == OpKind::kIota || kind == OpKind::kConcat || kind == OpKind::kGather) add({"axis"});
  if (kind == OpKind::kMatmul) add({"transpose_a", "transpose_b"});
  if (kind == OpKind::kGroupedMatmul) add({"transpose_b"});
  if (kind == OpKind::kAllReduce) add({"ranks"});
  if (kind == OpKind::kAllGather || kind == OpKind::kReduceScatter) add({"axis", "ranks"});
  if (kind == OpKind::kUnary || kind == OpKind::kBinary || kind == OpKind::kCompare) add({"kind"});
  if (kind == OpKind::kReduce) add({"kind", "axes", "keepdims"});
  if (kind == OpKind::kScan) add({"kind"});
  if (kind == OpKind::kTranspose) add({"axes"});
  if (kind == OpKind::kSlice) add({"starts", "limits", "steps"});
  if (kind == OpKind::kConv2d) add({"filter", "strides", "pads", "dilations", "groups"});
  if (kind == OpKind::kWindow) add({"window", "strides", "pads", "dilations"});
  if (kind == OpKind::kScaledMatmul) add({"accumulate"});
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

// As many as `values` has; left as they are where the key is left out.
template <size_t kCount>
absl::Status ReadAll(const JsonObject& in, const char* key, std::array<int64_t, kCount>* values) {
  if (!in.Has(key)) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const std::vector<int64_t> given, in.Integers<int64_t>(key, kCount));
  if (given.size() != kCount) {
    return Bad(in.At(key), ": has ", given.size(), " elements, must have ", kCount);
  }
  std::copy(given.begin(), given.end(), values->begin());
  return absl::OkStatus();
}

absl::Status ReadConv(const JsonObject& in, Conv2d* conv) {
  if (in.Has("filter")) {
    SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseFilterLayout, "filter", &conv->filter));
  }
  SINTER_RETURN_IF_ERROR(ReadAll(in, "strides", &conv->strides));
  SINTER_RETURN_IF_ERROR(ReadAll(in, "pads", &conv->pads));
  return ReadAll(in, "dilations", &conv->dilations);
}

absl::Status ReadAttributes(const JsonObject& in, Op* op) {
  switch (op->kind) {
    case OpKind::kScalar: {
      SINTER_ASSIGN_OR_RETURN(op->scalar, in.Number("value"));
      return absl::OkStatus();
    }
    case OpKind::kIota:
    case OpKind::kConcat:
    case OpKind::kGather:
      return ReadAxis(in, op);
    case OpKind::kMatmul: {
      SINTER_ASSIGN_OR_RETURN(op->transpose_a, in.Flag("transpose_a"));
      SINTER_ASSIGN_OR_RETURN(op->transpose_b, in.Flag("transpose_b"));
      return absl::OkStatus();
    }
    case OpKind::kGroupedMatmul: {
      SINTER_ASSIGN_OR_RETURN(op->transpose_b, in.Flag("transpose_b"));
      return absl::OkStatus();
    }
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
      SINTER_RETURN_IF_ERROR(ReadAxis(in, op));
      [[fallthrough]];
    case OpKind::kAllReduce: {
      SINTER_ASSIGN_OR_RETURN(const int64_t ranks, in.Integer("ranks"));
      op->ranks = JsonObject::Narrow(ranks);
      return absl::OkStatus();
    }
    case OpKind::kUnary:
      return in.ReadKind(&ParseUnaryKind, "kind", &op->unary);
    case OpKind::kBinary:
      return in.ReadKind(&ParseBinaryKind, "kind", &op->binary);
    case OpKind::kCompare:
      return in.ReadKind(&ParseCompareKind, "kind", &op->compare);
    case OpKind::kScan:
      return in.ReadKind(&ParseReduceKind, "kind", &op->reduce);
    case OpKind::kReduce: {
      SINTER_RETURN_IF_ERROR(in.ReadKind(&ParseReduceKind, "kind", &op->reduce));
      SINTER_ASSIGN_OR_RETURN(op->keepdims, in.Flag("keepdims"));
      return ReadAxes(in, op);
    }
    case OpKind::kTranspose:
      return ReadAxes(in, op);
    case OpKind::kConv2d:
      if (in.Has("groups")) {
        SINTER_ASSIGN_OR_RETURN(op->conv.groups, in.Integer("groups"));
      }
      return ReadConv(in, &op->conv);
    case OpKind::kWindow:
      if (!in.Has("window")) return Bad(in.At("window"), ": is missing, must be [height, width]");
      SINTER_RETURN_IF_ERROR(ReadAll(in, "window", &op->taps));
      return ReadConv(in, &op->conv);
    case OpKind::kScaledMatmul:
      if (!in.Has("accumulate")) return absl::OkStatus();
      return in.ReadKind(&ParseAccumulate, "accumulate", &op->accumulate);
    case OpKind::kSlice: {
      SINTER_ASSIGN_OR_RETURN(op->starts, in.Integers<int64_t>("starts", kMaxRank));
      SINTER_ASSIGN_OR_RETURN(op->steps, in.Integers<int64_t>("steps", kMaxRank));
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

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

// What does not follow from the operands.
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
  if (op.kind == OpKind::kInput) return Bad(in.At("op"), ": an input belongs into inputs");
  SINTER_RETURN_IF_ERROR(in.CheckKeys(KeysOf(op.kind)));
  SINTER_ASSIGN_OR_RETURN(written->id, in.Integer("id"));
  if (in.Has("in")) {
    SINTER_ASSIGN_OR_RETURN(std::vector<int64_t> ids, in.Integers<int64_t>("in", kMaxOperands));
    for (int64_t id : ids) op.operands.push_back(JsonObject::Narrow(id));
  }
  SINTER_RETURN_IF_ERROR(ReadType(in, written));
  SINTER_RETURN_IF_ERROR(ReadAttributes(in, &op));
  if (op.kind == OpKind::kSlice) {
    SINTER_ASSIGN_OR_RETURN(written->limits, in.Dims("limits"));
  }
  return absl::OkStatus();
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
    return Bad(PrintableJson(key), ": unknown key");
  }

  absl::Status Scalar(const std::string&, const Json& value) override {
    SINTER_ASSIGN_OR_RETURN(const int64_t schema, JsonObject::IntegerAt(value, "schema"));
    if (schema == kChainJsonSchema) return absl::OkStatus();
    return Bad("schema: is ", schema, ", must be ", kChainJsonSchema);
  }

  absl::Status Element(const std::string& key, size_t index, const Json& element) override {
    const JsonObject in(element, absl::StrCat(key, "[", index, "]"));
    if (key == "inputs") return ReadInput(in, &inputs_.emplace_back());
    if (key == "ops") return ReadOp(in, &ops_.emplace_back());
    return ReadOutput(in, &outputs_.emplace_back());
  }

  absl::StatusOr<Chain> Build() {
    for (const char* key : {"schema", "inputs", "ops", "outputs"}) {
      if (seen_.count(key) == 0) return Bad(key, ": missing");
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
    return Bad(path, ".id: is ", id, ", must be ", builder_.size());
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

  // What is given of the type of the op just added is what follows.
  absl::Status CheckType(const std::string& path, const WrittenOp& written) const {
    const TensorType& type = builder_.TypeOf(builder_.size() - 1);
    TensorType given = type;
    if (written.has_dtype) given.dtype = written.op.type.dtype;
    if (written.has_dims) given.dims = written.op.type.dims;
    if (given == type) return absl::OkStatus();
    return Bad(path, ": type is ", ToString(given), ", must be ", ToString(type));
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

}  // namespace sinter
