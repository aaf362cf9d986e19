#include "src/product/epilogue_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/replay.h"
#include "src/stitch/body_work.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseProgram(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("program ", args...));
}

size_t IndexOf(ValueId id) { return static_cast<size_t>(id); }

// Functions that a kernel of products cannot hold: sin and cos keep an array of digits, codes and
// integers are no results of its epilogue.
bool IsTaken(const Op& op) {
  if (IsCode(op.type.dtype) || op.type.dtype == DType::kS32) return false;
  switch (op.kind) {
    case OpKind::kInput:
    case OpKind::kScalar:
    case OpKind::kBinary:
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kCast:
      return true;
    case OpKind::kUnary:
      return op.unary != UnaryKind::kSin && op.unary != UnaryKind::kCos &&
             op.unary != UnaryKind::kCeilPow2;
    default:
      return false;
  }
}

absl::Status CheckLeaf(const EpilogueProgram& program, int input, DType result) {
  const DType dtype = program.TypeOf(input);
  switch (program.leaves[static_cast<size_t>(input)]) {
    case LeafKind::kValue:
    case LeafKind::kUp:
      if (dtype == DType::kF32) return absl::OkStatus();
      return RefuseProgram("reads accumulators as ", NameOf(dtype), ", must be f32");
    case LeafKind::kColumn:
    case LeafKind::kRow:
    case LeafKind::kNumber:
      if (IsFloat(dtype)) return absl::OkStatus();
      return RefuseProgram("reads a vector or a number of ", NameOf(dtype),
                           ", must be f32, f16 or bf16");
    case LeafKind::kMatrix:
      if (IsCode(result)) {
        return RefuseProgram("reads a matrix, the result is ", NameOf(result),
                             ": only one of f32, f16 or bf16 has one");
      }
      if (IsFloat(dtype)) return absl::OkStatus();
      return RefuseProgram("reads a matrix of ", NameOf(dtype), ", must be f32, f16 or bf16");
  }
  return RefuseProgram("reads a leaf of kind ",
                       static_cast<int>(program.leaves[static_cast<size_t>(input)]));
}

absl::Status CheckStored(const EpilogueProgram& program, DType stored) {
  for (int i = 0; i < program.body->num_outputs(); ++i) {
    const DType gives = program.body->output_type(i).dtype;
    if (i == 0 ? gives == stored : IsFloat(gives)) continue;
    if (i == 0) return RefuseProgram("gives ", NameOf(gives), ", the result is ", NameOf(stored));
    return RefuseProgram("has auxiliary result ", i, " of ", NameOf(gives),
                         ", must be f32, f16 or bf16");
  }
  return absl::OkStatus();
}

// Of a program with a form, which has no leaves and ops but those of the form.
absl::Status CheckForm(const EpilogueProgram& program, DType result, DType stored, bool pair) {
  for (int i = 0; i < program.body->num_inputs(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckLeaf(program, i, result));
  }
  SINTER_RETURN_IF_ERROR(CheckStored(program, stored));
  if (program.form->gate == pair) return absl::OkStatus();
  return RefuseProgram(pair ? "reads no up, the product is a pair"
                            : "reads up, the product is no pair");
}

absl::Status CheckBody(const Chain& body) {
  if (body.num_outputs() < 1 || body.num_outputs() > 1 + kMostAuxResults) {
    return RefuseProgram("has ", body.num_outputs(), " results, must have 1 to ",
                         1 + kMostAuxResults);
  }
  if (static_cast<int>(body.ops().size()) > kMostProgramOps) {
    return RefuseProgram("has ", body.ops().size(), " ops, at most ", kMostProgramOps);
  }
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.ops()[id];
    const std::vector<Dim>& dims = op.type.dims;
    const bool element =
        dims.empty() ? op.kind != OpKind::kInput : dims == std::vector<Dim>{Dim::Constant(2)};
    if (!element || !IsTaken(op)) {
      return RefuseProgram("has op ", id, " (", NameOf(op), ", ", ToString(op.type),
                           "), which no epilogue computes");
    }
  }
  int64_t branches = 0;
  for (const Op& op : body.ops()) branches += BranchesOf(op);
  if (branches > kMostProgramBranches) {
    return RefuseProgram("has ", branches, " branches for each value, at most ",
                         kMostProgramBranches);
  }
  return absl::OkStatus();
}

// Each result is a cast; of several none is codes.
absl::Status CheckResults(const EpilogueProgram& program, DType result) {
  const Chain& body = *program.body;
  for (const ChainOutput& out : body.outputs()) {
    if (body.op(out.value).kind == OpKind::kCast) continue;
    return RefuseProgram("does not end in a cast to what is stored");
  }
  if (program.aux_results() == 0 || !IsCode(result)) return absl::OkStatus();
  return RefuseProgram("has ", body.num_outputs(), " results, must have 1 of ", NameOf(result));
}

std::string OpName(const Op& op) {
  return op.kind == OpKind::kCast ? absl::StrCat("to_", NameOf(op.type.dtype))
                                  : std::string(NameOf(op));
}

// Copies the ops that lead to `value` into `builder`.
absl::StatusOr<ValueId> CopyOf(const Chain& body, ValueId value, std::map<ValueId, ValueId>* made,
                               ChainBuilder* builder) {
  const auto known = made->find(value);
  if (known != made->end()) return known->second;
  Op op = body.op(value);
  for (ValueId& operand : op.operands) {
    SINTER_ASSIGN_OR_RETURN(operand, CopyOf(body, operand, made, builder));
  }
  SINTER_ASSIGN_OR_RETURN(const ValueId copy, Replay(*builder, op));
  return (*made)[value] = copy;
}

// f as a program whose result is stored as `result`.
absl::StatusOr<EpilogueProgram> Function(const Chain& body, ValueId f, DType result) {
  ChainBuilder builder;
  std::map<ValueId, ValueId> made;
  SINTER_ASSIGN_OR_RETURN(ValueId value, CopyOf(body, f, &made, &builder));
  SINTER_ASSIGN_OR_RETURN(value, builder.Cast(value, result));
  SINTER_RETURN_IF_ERROR(builder.Output(value));
  SINTER_ASSIGN_OR_RETURN(Chain chain, builder.Finish());
  if (chain.num_inputs() != 1) return RefuseProgram("reads ", chain.num_inputs(), " values");
  EpilogueProgram program;
  program.body = std::make_shared<const Chain>(std::move(chain));
  program.leaves = {LeafKind::kValue};
  return program;
}

}  // namespace

bool EpilogueProgram::Reads(LeafKind kind) const {
  return std::find(leaves.begin(), leaves.end(), kind) != leaves.end();
}

std::vector<int> EpilogueProgram::InputsOf(LeafKind kind) const {
  std::vector<int> inputs;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] == kind) inputs.push_back(static_cast<int>(i));
  }
  return inputs;
}

std::vector<int> EpilogueProgram::ColumnLeaves() const {
  std::vector<int> inputs;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i] == LeafKind::kColumn || leaves[i] == LeafKind::kNumber) {
      inputs.push_back(static_cast<int>(i));
    }
  }
  return inputs;
}

bool EpilogueProgram::operator==(const EpilogueProgram& o) const {
  if (present() != o.present() || leaves != o.leaves) return false;
  return !present() || *body == *o.body;
}

std::string ToString(const EpilogueProgram& program) {
  if (!program.present()) return "none";
  const Chain& body = *program.body;
  const std::vector<int> uses = body.UseCounts();
  std::vector<std::string> names, lines;
  int columns = 0, numbers = 0;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.ops()[id];
    if (op.kind == OpKind::kInput) {
      const LeafKind kind = program.leaves[static_cast<size_t>(op.input)];
      names.push_back(kind == LeafKind::kValue    ? "y"
                      : kind == LeafKind::kUp     ? "up"
                      : kind == LeafKind::kMatrix ? "r"
                      : kind == LeafKind::kRow    ? "s"
                      : kind == LeafKind::kNumber ? absl::StrCat("n", ++numbers)
                                                  : absl::StrCat("c", ++columns));
      continue;
    }
    if (op.kind == OpKind::kScalar) {
      names.push_back(absl::StrCat(op.scalar));
      continue;
    }
    std::vector<std::string> operands;
    for (const ValueId operand : op.operands) operands.push_back(names[IndexOf(operand)]);
    std::string text = absl::StrCat(OpName(op), "(", absl::StrJoin(operands, ","), ")");
    if (uses[id] > 1) {
      const std::string name = absl::StrCat("t", lines.size() + 1);
      lines.push_back(absl::StrCat(name, "=", text));
      text = name;
    }
    names.push_back(std::move(text));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    const ValueId value = body.outputs()[static_cast<size_t>(i)].value;
    const std::string& made = names[IndexOf(body.op(value).operands[0])];
    lines.push_back(absl::StrCat(i == 0 ? "" : "aux=", made));
  }
  return absl::StrJoin(lines, ";");
}

EpilogueProgram OfGateAlone(const EpilogueProgram& program) {
  if (!program.present() || program.leaves.size() != 2 || !program.Reads(LeafKind::kUp)) return {};
  if (program.aux_results() > 0) return {};
  const Chain& body = *program.body;
  ValueId product = body.outputs()[0].value;
  product = body.op(product).operands[0];
  const Op& op = body.op(product);
  if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kMul) return {};
  const ValueId up = body.input(program.InputsOf(LeafKind::kUp)[0]);
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (op.operands[side] != up || op.operands[1 - side] == up) continue;
    const absl::StatusOr<EpilogueProgram> function =
        Function(body, op.operands[1 - side], body.output_type(0).dtype);
    if (function.ok() && body.UseCounts()[IndexOf(up)] == 1) return *function;
  }
  return {};
}

absl::Status CheckProgram(const EpilogueProgram& program, DType result, bool pair) {
  const DType stored = IsCode(result) ? DType::kF32 : result;
  if (!program.present()) {
    return pair ? RefuseProgram("is missing, the product is a pair") : absl::OkStatus();
  }
  const Chain& body = *program.body;
  if (program.form.has_value()) return CheckForm(program, result, stored, pair);
  SINTER_RETURN_IF_ERROR(CheckBody(body));
  if (program.leaves.size() != static_cast<size_t>(body.num_inputs())) {
    return RefuseProgram("has ", program.leaves.size(), " leaves, its body ", body.num_inputs());
  }
  for (int i = 0; i < body.num_inputs(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckLeaf(program, i, result));
  }
  const struct {
    LeafKind kind;
    size_t least, most;
  } kCounts[] = {{LeafKind::kValue, 1, 1},
                 {LeafKind::kUp, pair ? 1u : 0u, pair ? 1u : 0u},
                 {LeafKind::kColumn, 0, kMostColumnLeaves},
                 {LeafKind::kNumber, 0, kMostColumnLeaves},
                 {LeafKind::kMatrix, 0, 1},
                 {LeafKind::kRow, 0, 1}};
  for (const auto& count : kCounts) {
    const size_t has = program.InputsOf(count.kind).size();
    if (has >= count.least && has <= count.most) continue;
    return RefuseProgram("reads ", has, " leaves of kind ", static_cast<int>(count.kind),
                         ", must be ", count.least, " to ", count.most);
  }
  SINTER_RETURN_IF_ERROR(CheckResults(program, result));
  return CheckStored(program, stored);
}

EpilogueProgram ProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves) {
  const std::optional<EpilogueForm> form = FormOfBody(*body, leaves);
  if (form.has_value()) return ProgramOf(*form, body->output_type(0).dtype);
  EpilogueProgram program;
  program.body = std::move(body);
  program.leaves = std::move(leaves);
  return program;
}

void WriteProgram(const EpilogueProgram& program, ByteWriter& w) {
  w.U8(static_cast<uint8_t>(program.leaves.size()));
  for (const LeafKind kind : program.leaves) w.U8(static_cast<uint8_t>(kind));
  w.Bytes(program.body->CanonicalBytes());
}

absl::StatusOr<EpilogueProgram> ReadProgram(ByteReader& r) {
  std::vector<LeafKind> leaves(r.U8());
  for (LeafKind& kind : leaves) kind = static_cast<LeafKind>(r.U8());
  absl::StatusOr<Chain> body = ChainFromCanonicalBytes(r.Bytes());
  if (!body.ok()) {
    return absl::DataLossError(absl::StrCat("program of an epilogue: ", body.status().message()));
  }
  if (leaves.size() == static_cast<size_t>(body->num_inputs())) {
    return ProgramOf(std::make_shared<const Chain>(*std::move(body)), std::move(leaves));
  }
  return absl::DataLossError(absl::StrCat("program of an epilogue: ", leaves.size(),
                                          " leaves, its body has ", body->num_inputs()));
}

}  // namespace sinter
