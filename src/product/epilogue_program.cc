#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/product/epilogue.h"
#include "src/stitch/body_work.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseProgram(const Args&... args) {
  return Invalid("program ", args...);
}

size_t IndexOf(ValueId id) { return static_cast<size_t>(id); }

// Whether an epilogue can compute `op`: its results are neither FP8/INT8 values nor integers.
bool IsTaken(const Op& op) {
  if (IsCode(op.type.dtype) || op.type.dtype == DType::kS32) return false;
  switch (op.kind) {
    case OpKind::kInput:
    case OpKind::kScalar:
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kCast:
      return true;
    case OpKind::kUnary:
    case OpKind::kBinary:
      return TraitsOf(op).in_products;
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
      if (IsFloat(dtype) || dtype == DType::kPred) return absl::OkStatus();
      return RefuseProgram("reads a matrix of ", NameOf(dtype), ", must be f32, f16 or bf16");
    case LeafKind::kRowIndex:
    case LeafKind::kColumnIndex:
      if (dtype == DType::kF32) return absl::OkStatus();
      return RefuseProgram("reads an index as ", NameOf(dtype), ", must be f32");
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

// Checks a program with a form. Such a program has only the leaves and ops of the form.
absl::Status CheckForm(const EpilogueProgram& program, DType stored, bool pair) {
  SINTER_RETURN_IF_ERROR(CheckStored(program, stored));
  if (program.form->gate == pair) return absl::OkStatus();
  return RefuseProgram(pair ? "reads no up, the product is a pair"
                            : "reads up, the product is not a pair");
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
    return RefuseProgram("does not end in a cast to the stored dtype");
  }
  if (program.aux_results() == 0 || !IsCode(result)) return absl::OkStatus();
  return RefuseProgram("has ", body.num_outputs(), " results, must have 1 of ", NameOf(result));
}

std::string OpName(const Op& op) {
  return op.kind == OpKind::kCast ? absl::StrCat("to_", NameOf(op.type.dtype))
                                  : std::string(NameOf(op));
}

// Walks from the accumulators up, while each value has one reader that is affine in it.
class AffineWalk {
 public:
  AffineWalk(const Chain& body, const std::vector<LeafKind>& leaves)
      : body_(body), leaves_(leaves), uses_(body.UseCounts()), readers_(body.ops().size(), -1) {
    for (size_t id = 0; id < readers_.size(); ++id) {
      for (const ValueId operand : body.ops()[id].operands) {
        readers_[IndexOf(operand)] = static_cast<ValueId>(id);
      }
    }
  }

  AffinePart Run() const {
    AffinePart part = From(LeafKind::kValue);
    const AffinePart of_up = From(LeafKind::kUp);
    part.up = of_up.value;
    part.bias_up = of_up.bias;
    const bool pair = part.up >= 0;
    const bool alike = part.scale == of_up.scale && part.factor == of_up.factor &&
                       TypeAt(part.bias) == TypeAt(part.bias_up);
    // A kernel has one number of a row: the factor, or what something else reads.
    const ValueId row = part.factor < 0 ? InputOf(LeafKind::kRow) : body_.input(part.factor);
    const int readers = row < 0 ? 0 : uses_[IndexOf(row)] - (part.factor < 0 ? 0 : pair ? 2 : 1);
    const bool scaled = part.factor >= 0 || part.scale != 1;
    if ((alike || !pair) && (readers == 0 || !scaled)) return part;
    AffinePart none;
    none.value = InputOf(LeafKind::kValue);
    none.up = InputOf(LeafKind::kUp);
    return none;
  }

 private:
  DType TypeAt(int input) const {  // of no input that of no vector
    return input < 0 ? DType::kS32 : body_.input_op(input).type.dtype;
  }
  ValueId InputOf(LeafKind kind) const {
    const auto at = std::find(leaves_.begin(), leaves_.end(), kind);
    return at == leaves_.end() ? -1 : body_.input(static_cast<int>(at - leaves_.begin()));
  }

  // The input of this kind that `id` reads, widened or not; -1 if it does not read one.
  int LeafAt(ValueId id, LeafKind kind) const {
    const Op* op = &body_.op(id);
    if (op->kind == OpKind::kCast && uses_[IndexOf(id)] == 1) op = &body_.op(op->operands[0]);
    return op->kind == OpKind::kInput && leaves_[IndexOf(op->input)] == kind ? op->input : -1;
  }

  AffinePart From(LeafKind kind) const {
    AffinePart part;
    part.value = InputOf(kind);
    while (part.value >= 0 && uses_[IndexOf(part.value)] == 1 && part.bias < 0) {
      const ValueId reader = readers_[IndexOf(part.value)];
      if (reader < 0 || !Take(body_.op(reader), &part)) break;
      part.value = reader;
    }
    return part;
  }

  // Whether `op` scales or biases part.value.
  bool Take(const Op& op, AffinePart* part) const {
    if (op.kind != OpKind::kBinary || op.type.dtype != DType::kF32) return false;
    const ValueId other = op.operands[op.operands[0] == part->value ? 1 : 0];
    if (op.binary == BinaryKind::kAdd) {
      part->bias = LeafAt(other, LeafKind::kColumn);
      if (part->bias >= 0 && uses_[IndexOf(body_.input(part->bias))] > 1) part->bias = -1;
      return part->bias >= 0;
    }
    if (op.binary != BinaryKind::kMul) return false;
    const Op& by = body_.op(other);
    const auto scale = static_cast<float>(by.scalar);
    if (by.kind == OpKind::kScalar && part->scale == 1 && std::isfinite(scale) && scale != 0) {
      part->scale = scale;
      return true;
    }
    if (part->factor >= 0) return false;
    part->factor = LeafAt(other, LeafKind::kRow);
    return part->factor >= 0;
  }

  const Chain& body_;
  const std::vector<LeafKind>& leaves_;
  const std::vector<int> uses_;
  std::vector<ValueId> readers_;  // by value: the last one
};

}  // namespace

AffinePart AffineOf(const Chain& body, const std::vector<LeafKind>& leaves) {
  return AffineWalk(body, leaves).Run();
}

std::vector<bool> EpilogueProgram::InAffine() const {
  std::vector<bool> in(body->ops().size(), false);
  for (const ValueId end : {affine.value, affine.up}) {
    if (end >= 0) in[IndexOf(end)] = true;
  }
  for (size_t id = in.size(); id-- > 0;) {
    if (!in[id]) continue;
    for (const ValueId operand : body->ops()[id].operands) in[IndexOf(operand)] = true;
  }
  return in;
}

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

std::vector<int> EpilogueProgram::OperandInputs() const {
  std::vector<int> inputs;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (LiesInMemory(leaves[i])) inputs.push_back(static_cast<int>(i));
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
  if (present() != o.present() || leaves != o.leaves || for_codes != o.for_codes) return false;
  return !present() || *body == *o.body;
}

std::string ToString(const EpilogueProgram& program) {
  if (!program.present()) return "none";
  const Chain& body = *program.body;
  const std::vector<int> uses = body.UseCounts();
  const std::vector<bool> affine = program.InAffine();
  std::vector<std::string> names, lines;
  int columns = 0, numbers = 0, matrices = 0;
  const bool one_matrix = program.InputsOf(LeafKind::kMatrix).size() == 1;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.ops()[id];
    if (affine[id]) {
      names.emplace_back(static_cast<ValueId>(id) == program.affine.up ? "up" : "y");
      continue;
    }
    if (op.kind == OpKind::kInput) {
      const LeafKind kind = program.leaves[static_cast<size_t>(op.input)];
      names.push_back(kind == LeafKind::kMatrix && one_matrix ? "r"
                      : kind == LeafKind::kMatrix             ? absl::StrCat("r", ++matrices)
                      : kind == LeafKind::kRow                ? "s"
                      : kind == LeafKind::kNumber             ? absl::StrCat("n", ++numbers)
                      : kind == LeafKind::kRowIndex           ? "row"
                      : kind == LeafKind::kColumnIndex        ? "column"
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

ValueId OfGateAlone(const EpilogueProgram& program) {
  if (!program.written() || program.affine.up < 0 || program.aux_results() > 0) return -1;
  const Chain& body = *program.body;
  const std::vector<bool> affine = program.InAffine();
  for (int i = 0; i < body.num_inputs(); ++i) {
    if (!affine[IndexOf(body.input(i))]) return -1;
  }
  const Op& op = body.op(body.op(body.outputs()[0].value).operands[0]);
  const ValueId up = program.affine.up;
  if (!IsBinary(op, BinaryKind::kMul) || body.UseCounts()[IndexOf(up)] != 1) return -1;
  if (op.operands[0] != up && op.operands[1] != up) return -1;
  return op.operands[op.operands[0] == up ? 1 : 0];
}

namespace {

// How many leaves of a kind a program reads.
struct LeafCount {
  LeafKind kind;
  int least, most;
};

absl::Status CheckProgramOf(const EpilogueProgram& program, DType result, bool pair,
                            absl::Span<const LeafCount> counts) {
  const DType stored = IsCode(result) ? DType::kF32 : result;
  const Chain& body = *program.body;
  if (program.leaves.size() != static_cast<size_t>(body.num_inputs())) {
    return RefuseProgram("has ", program.leaves.size(), " leaves, its body ", body.num_inputs());
  }
  for (int i = 0; i < body.num_inputs(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckLeaf(program, i, result));
  }
  if (program.form.has_value()) return CheckForm(program, stored, pair);
  SINTER_RETURN_IF_ERROR(CheckBody(body));
  for (const LeafCount& count : counts) {
    const auto has = static_cast<int>(program.InputsOf(count.kind).size());
    if (has >= count.least && has <= count.most) continue;
    return RefuseProgram("reads ", has, " leaves of kind ", static_cast<int>(count.kind),
                         ", must be ", count.least, " to ", count.most);
  }
  SINTER_RETURN_IF_ERROR(CheckResults(program, result));
  return CheckStored(program, stored);
}

}  // namespace

absl::Status CheckProgram(const EpilogueProgram& program, DType result, bool pair) {
  if (!program.present()) {
    return pair ? RefuseProgram("is missing, the product is a pair") : absl::OkStatus();
  }
  if (program.for_codes && result != DType::kF32) {
    return RefuseProgram("is for codes of an f32 result, the result is ", NameOf(result));
  }
  const int up = pair ? 1 : 0;
  const LeafCount counts[] = {{LeafKind::kValue, 1, 1},
                              {LeafKind::kUp, up, up},
                              {LeafKind::kColumn, 0, kMostColumnLeaves},
                              {LeafKind::kNumber, 0, kMostColumnLeaves},
                              {LeafKind::kMatrix, 0, 1},
                              {LeafKind::kRow, 0, 1},
                              {LeafKind::kRowIndex, 0, 0},
                              {LeafKind::kColumnIndex, 0, 0}};
  SINTER_RETURN_IF_ERROR(CheckProgramOf(program, result, pair, counts));
  if (!program.Reads(LeafKind::kMatrix) || program.MatrixType() != DType::kPred) {
    return absl::OkStatus();
  }
  return RefuseProgram("reads a matrix of pred, must be f32, f16 or bf16");
}

absl::Status CheckScoreProgram(const EpilogueProgram& program, int terms) {
  if (!program.present()) {
    return terms == 0 ? absl::OkStatus() : RefuseProgram("is missing, terms are there");
  }
  const LeafCount counts[] = {{LeafKind::kValue, 1, 1},    {LeafKind::kUp, 0, 0},
                              {LeafKind::kColumn, 0, 0},   {LeafKind::kNumber, 0, 0},
                              {LeafKind::kRow, 0, 0},      {LeafKind::kMatrix, terms, terms},
                              {LeafKind::kRowIndex, 0, 1}, {LeafKind::kColumnIndex, 0, 1}};
  if (program.aux_results() > 0) return RefuseProgram("has several results, must have one");
  return CheckProgramOf(program, DType::kF32, false, counts);
}

EpilogueProgram ProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves) {
  EpilogueProgram program;
  program.body = std::move(body);
  program.leaves = std::move(leaves);
  if (program.leaves.size() != static_cast<size_t>(program.body->num_inputs())) return program;
  program.affine = AffineOf(*program.body, program.leaves);
  program.form = FormOfBody(program);
  return program;
}

void WriteProgram(const EpilogueProgram& program, ByteWriter& w) {
  w.U8(static_cast<uint8_t>(program.leaves.size()));
  if (!program.present()) return;
  for (const LeafKind kind : program.leaves) w.U8(static_cast<uint8_t>(kind));
  w.Bytes(program.body->CanonicalBytes());
}

absl::StatusOr<EpilogueProgram> ReadProgram(ByteReader& r) {
  std::vector<LeafKind> leaves(r.U8());
  if (leaves.empty()) return EpilogueProgram();
  for (LeafKind& kind : leaves) kind = static_cast<LeafKind>(r.U8());
  absl::StatusOr<Chain> body = ChainFromCanonicalBytes(r.Bytes());
  if (!body.ok()) {
    return DataLoss("program of an epilogue: ", body.status().message());
  }
  if (leaves.size() == static_cast<size_t>(body->num_inputs())) {
    return ProgramOf(std::make_shared<const Chain>(*std::move(body)), std::move(leaves));
  }
  return DataLoss("program of an epilogue: ", leaves.size(), " leaves, its body has ",
                  body->num_inputs());
}

}  // namespace sinter
