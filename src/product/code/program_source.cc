#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "src/product/code/kernel_source.h"
#include "src/product/operand.h"
#include "src/product/schedule_check.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/precision.h"

namespace sinter {
namespace {

constexpr char kTemplate[] = R"(template <>
struct Wgmma<$0, $1, $2, $A> {
  static SINTER_DEVICE void mma($S (&d)[$3], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %$6, 0;"
        "wgmma.mma_async.sync.aligned.m64n$0k$K.$D.$7.$7 {$8}, %$4, %$5, p$9;}"
        : $B
        : "l"(a), "l"(b), "r"(accumulate));
  }
};
)";

constexpr char kRegisterTemplate[] = R"(template <>
struct RegisterWgmma<$0, $1, $2> {
  static SINTER_DEVICE void mma(float (&d)[$3], const u32 (&a)[4], u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %$P, 0;"
        "wgmma.mma_async.sync.aligned.m64n$0k$K.f32.$4.$4 {$5}, {$6}, %$7, p, 1, 1, $8;}"
        : $B
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
  }
};
)";

struct Accumulators {
  std::string names, outputs;  // in PTX, and as operands
};

Accumulators AccumulatorText(int registers, char constraint) {
  Accumulators text;
  for (int i = 0; i < registers; ++i) {
    absl::StrAppend(&text.names, i ? "," : "", "%", i);
    absl::StrAppend(&text.outputs, i ? ", " : "", "\"+", std::string(1, constraint), "\"(d[", i,
                    "])");
  }
  return text;
}

}  // namespace

std::string RegisterWgmmaSource(int n, const ElementRow& element, bool b_transposed) {
  const int registers = n / 2;
  const Accumulators d = AccumulatorText(registers, 'f');
  std::string a;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&a, i ? ", " : "", "%", registers + i);
  const std::string text =
      absl::StrReplaceAll(kRegisterTemplate, {{"$B", d.outputs},
                                              {"$K", absl::StrCat(element.wgmma_k)},
                                              {"$P", absl::StrCat(registers + 5)}});
  return absl::Substitute(text, n, element.device_type, b_transposed ? "true" : "false", registers,
                          element.wgmma_type, d.names, a, registers + 4, b_transposed ? 1 : 0);
}

std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed) {
  const int registers = n / 2;
  const Accumulators d = AccumulatorText(registers, element.exact ? 'r' : 'f');
  // The signs of the operands, only for floats, and their major order. Operands of 8 bits are
  // always K-major.
  std::string options = element.exact ? "" : ", 1, 1";
  if (element.bytes != 1)
    absl::StrAppend(&options, ", ", a_transposed ? 1 : 0, ", ", b_transposed ? 1 : 0);
  // absl::Substitute takes at most ten arguments; five more are replaced first.
  const std::string text =
      absl::StrReplaceAll(kTemplate, {{"$A", b_transposed ? "true" : "false"},
                                      {"$B", d.outputs},
                                      {"$D", element.exact ? "s32" : "f32"},
                                      {"$K", absl::StrCat(element.wgmma_k)},
                                      {"$S", element.exact ? "int" : "float"}});
  return absl::Substitute(text, n, element.device_type, a_transposed ? "true" : "false", registers,
                          registers, registers + 1, registers + 2, element.wgmma_type, d.names,
                          options);
}

namespace {

size_t AsIndex(ValueId id) { return static_cast<size_t>(id); }

// By op: whether a result of f32 is made of it, with no rounding to 16 bits between. None where
// codes are made of that.
std::vector<bool> OfF32(const EpilogueProgram& program) {
  const Chain& body = *program.body;
  std::vector<bool> of(body.ops().size(), false);
  if (program.for_codes) return of;
  for (int i = 0; i < body.num_outputs(); ++i) {
    if (body.output_type(i).dtype == DType::kF32)
      of[AsIndex(body.outputs()[AsIndex(i)].value)] = true;
  }
  for (size_t id = of.size(); id-- > 0;) {
    const Op& op = body.ops()[id];
    if (!of[id] || (op.kind == OpKind::kCast && SizeOf(op.type.dtype) == 2)) continue;
    for (const ValueId operand : op.operands) of[AsIndex(operand)] = true;
  }
  return of;
}

// Writes ops of one program, by the functions that stitched kernels call.
class ProgramWriter {
 public:
  explicit ProgramWriter(const EpilogueProgram& program,
                         const std::vector<Precision>* precisions = nullptr)
      : body_(*program.body),
        precisions_(precisions != nullptr ? *precisions : PrecisionsOf(body_, program.for_codes)),
        alone_(SubtractsAlone(body_, true)),
        activations_(ActivationsIn(body_)),
        of_f32_(OfF32(program)) {}

  // The name of a leaf, or of a value that another function computed.
  void Name(ValueId id, std::string name) { names_[id] = std::move(name); }

  // Statements that end in assignments of `values` to the elements of an array.
  std::string Assign(const char* array, const std::vector<ValueId>& values) {
    std::string ends;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string name = TextOf(values[i]);
      absl::StrAppend(&ends, "    ", array, "[", i, "] = ", name, ";\n");
    }
    return text_ + ends;
  }
  // Statements that end in the return of `value`.
  std::string Return(ValueId value) {
    const std::string name = TextOf(value);
    return absl::StrCat(text_, "    return ", name, ";\n");
  }

 private:
  std::string TextOf(ValueId id) {
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    return names_[id] = Written(id);
  }

  std::string Written(ValueId id) {
    const Op& op = body_.op(id);
    if (op.kind == OpKind::kScalar) return ScalarText(op);
    if (op.kind == OpKind::kCast && !CastRounds(body_, op)) return TextOf(op.operands[0]);
    const FoundActivation& activation = activations_[AsIndex(id)];
    if (activation.activation != Activation::kIdentity) {
      const char* name = ActivationName(activation.activation, of_f32_[AsIndex(id)]);
      return Declared(id, absl::StrCat(name, "::apply(", TextOf(activation.of), ")"));
    }
    const Compound compound = CompoundAt(body_, precisions_, id);
    if (compound.function != Compound::kNone) {
      const auto& [last, operand] = compound.path.back();
      return Declared(id, CompoundText(compound, TextOf(body_.op(last).operands[operand])));
    }
    std::vector<std::string> operands;
    for (const ValueId operand : op.operands) operands.push_back(TextOf(operand));
    return Declared(id, OpText(op, body_.op(op.operands[0]).type.dtype, operands,
                               precisions_[AsIndex(id)], alone_[AsIndex(id)]));
  }

  std::string Declared(ValueId id, const std::string& expression) {
    const std::string name = absl::StrCat("v", id);
    absl::StrAppend(&text_, "    const ", WordName(body_.op(id).type.dtype), " ", name, " = ",
                    expression, ";\n");
    return name;
  }

  const Chain& body_;
  const std::vector<Precision>& precisions_;
  const std::vector<bool> alone_;  // SubtractsAlone
  const std::vector<FoundActivation> activations_;
  const std::vector<bool> of_f32_;
  std::map<ValueId, std::string> names_;
  std::string text_;
};

// The store rounds to the type that the last cast names.
ValueId Unrounded(const EpilogueProgram& program) {
  const Chain& body = *program.body;
  return body.op(body.outputs()[0].value).operands[0];
}

ValueId LeafAt(const EpilogueProgram& program, LeafKind kind) {
  return program.body->input(program.InputsOf(kind)[0]);
}

// A vector of columns or a number that the program's struct loads.
struct Vector {
  std::string name;
  DType element = DType::kF32;
  bool one = false;  // one number for all columns
  int input = -1;    // of the program's body
  std::string term;  // its field of ColumnTerms
};

// The vectors of product `number`, in the order of the kernel's parameters.
std::vector<Vector> VectorsOf(const MatrixProduct& p, int number) {
  std::vector<Vector> list;
  for (const Leaf& leaf : p.Leaves(number)) {
    if (leaf.kind != LeafKind::kColumn && leaf.kind != LeafKind::kNumber) continue;
    list.push_back(
        {FieldOf(leaf.role), leaf.element, leaf.kind == LeafKind::kNumber, leaf.input, ""});
  }
  std::vector<std::string> terms = {"bias", "bias_up"};
  const bool factors = p.HasColumnFactors();
  if (!factors || !p.pair) terms.emplace_back("factor_up");
  if (!factors) terms.emplace_back("factor");
  for (size_t i = 0; i < list.size(); ++i) list[i].term = terms[i];
  return list;
}

std::string LeavesText(const std::vector<Vector>& vectors) {
  std::string pointers, pairs, loads, terms;
  int words = 0;
  for (const Vector& v : vectors) {
    const char* device = DeviceTypeOf(v.element);
    words += v.element == DType::kF32 ? 2 : 1;
    absl::StrAppend(&pointers, "    const ", device, "::Stored* ", v.name, ";\n");
    absl::StrAppend(&pairs, "    ", device, "::Pair ", v.name, ";\n");
    absl::StrAppend(&loads, "    pair.", v.name, " = load_pair<", device, ", kCount, ",
                    v.one ? 0 : 1, ">(leaves.", v.name, ", column);\n");
    absl::StrAppend(&terms, "    terms.", v.term, " = i == 0 ? ", device, "::low(pair.", v.name,
                    ") : ", device, "::high(pair.", v.name, ");\n");
  }
  return absl::Substitute(
      "  struct Leaves {\n$0  };\n  struct Pair {\n$1  };\n  static constexpr int kWords = $2;\n"
      "  template <int kCount>\n"
      "  static SINTER_DEVICE Pair load(const Leaves& leaves, int column) {\n    Pair pair;\n$3"
      "    return pair;\n  }\n"
      "  static SINTER_DEVICE ColumnTerms terms(const Pair& pair, int i) {\n"
      "    ColumnTerms terms;\n$4    return terms;\n  }\n",
      pointers, pairs, words, loads, terms);
}

// Names what a program reads where its struct has the vectors' terms.
void NameLeaves(const MatrixProduct& p, const std::vector<Vector>& vectors, ProgramWriter* writer) {
  const EpilogueProgram& program = p.epilogue.program;
  const AffinePart& affine = program.affine;
  writer->Name(affine.value, "y");
  if (p.pair) writer->Name(affine.up, "up");
  if (p.ReadsRow()) writer->Name(LeafAt(program, LeafKind::kRow), "row");
  for (const Vector& v : vectors) {
    const std::string term = "terms." + v.term;
    if (v.input == affine.bias) {
      writer->Name(affine.value, absl::StrCat("(y + ", term, ")"));
    } else if (v.input == affine.bias_up) {
      writer->Name(affine.up, absl::StrCat("(up + ", term, ")"));
    } else {
      writer->Name(program.body->input(v.input), term);
    }
  }
}

// The function of a whole program: of all its results, which their stores round.
std::string WholeText(const EpilogueProgram& program, ProgramWriter* writer) {
  const Chain& body = *program.body;
  if (program.Reads(LeafKind::kMatrix)) writer->Name(LeafAt(program, LeafKind::kMatrix), "r");
  std::vector<ValueId> values;
  for (const ChainOutput& out : body.outputs()) {
    values.push_back(body.op(out.value).operands[0]);
  }
  return absl::StrCat(
      "  static SINTER_DEVICE void apply(float y, float up, float row, const "
      "ColumnTerms& terms, float r,\n                                  float (&of)[",
      values.size(), "]) {\n", writer->Assign("of", values));
}

// Registers that the device library keeps for a whole program. Functions with slow paths take more
// where several results are made: next to 60 sums and 32 words of terms, one register spilled.
int RegistersOf(const EpilogueProgram& program) {
  constexpr int kAuxRegisters = 32;
  const int scratch = ScratchRegisters(program);
  return program.aux_results() > 0 && scratch >= kSlowPathRegisters ? scratch + kAuxRegisters
                                                                    : scratch;
}

// A program of gate and up, or with vectors, or a whole one, as a struct called `name`.
std::string WithLeavesText(const MatrixProduct& p, int number, const std::string& name) {
  const EpilogueProgram& program = p.epilogue.program;
  const std::vector<Vector> vectors = VectorsOf(p, number);
  ProgramWriter writer(program);
  NameLeaves(p, vectors, &writer);
  const std::string function =
      program.whole() ? WholeText(program, &writer)
                      : absl::StrCat(
                            "  static SINTER_DEVICE float apply(float y, float up, float "
                            "row, const ColumnTerms& terms) {\n",
                            writer.Return(Unrounded(program)));
  return absl::StrCat("struct ", name, " {\n", LeavesText(vectors),
                      "  static constexpr int kScratch = ", RegistersOf(program),
                      ";\n  static constexpr bool kReadsRow = ", p.ReadsRow() ? "true" : "false",
                      ", kWhole = ", program.whole() ? "true" : "false", ";\n", function,
                      "  }\n};\n");
}

// `value` as a function of the values that are affine in the product, as a struct called `name`.
std::string OfValueText(const EpilogueProgram& program, ValueId value, const std::string& name) {
  ProgramWriter writer(program);
  writer.Name(program.affine.value, "y");
  const int scratch = ScratchRegisters(program);
  return absl::StrCat("struct ", name, " {\n  static SINTER_DEVICE float apply(float y) {\n",
                      writer.Return(value), "  }\n};\n",
                      scratch == 0 ? ""
                                   : absl::StrCat("template <>\nconstexpr int kScratchOf<", name,
                                                  "> = ", scratch, ";\n"));
}

// Adds what product `number` computes.
void AddPart(const MatrixProduct& p, int number, ProgramSource* source) {
  const EpilogueProgram& program = p.epilogue.program;
  ProgramSource::Part& part = source->parts[number];
  part.name = absl::StrCat("Program", number + 1);
  const ValueId of_gate = OfGateAlone(program);
  const bool reads = program.ColumnLeaves().size() > (p.epilogue.bias().has_value() ? 1u : 0u);
  part.leaves = program.whole() || (of_gate < 0 && (reads || p.ReadsRow() || p.pair));
  part.activation = part.leaves ? absl::StrCat("WithLeaves<", part.name, ">") : part.name;
  absl::StrAppend(
      &source->text,
      part.leaves ? WithLeavesText(p, number, part.name)
                  : OfValueText(program, of_gate < 0 ? Unrounded(program) : of_gate, part.name));
}

}  // namespace

std::string BodyText(const EpilogueProgram& program, const std::map<int, std::string>& names,
                     const std::vector<Precision>* precisions, ValueId y) {
  if (!program.present()) return "    return y;\n";
  ProgramWriter writer(program, precisions);
  for (int i = 0; i < program.body->num_inputs(); ++i) {
    const bool up = program.leaves[AsIndex(i)] == LeafKind::kUp;
    const auto name = names.find(i);
    writer.Name(program.body->input(i), name != names.end() ? name->second : up ? "up" : "y");
  }
  writer.Name(y, "y");
  return writer.Return(Unrounded(program));
}

const char* ActivationName(Activation activation, bool f32) {
  switch (activation) {
    case Activation::kIdentity:
      return "Identity";
    case Activation::kRelu:
      return "Relu";
    case Activation::kGeluTanh:
      return f32 ? "GeluTanhF32" : "GeluTanh";
    case Activation::kGeluErf:
      return f32 ? "GeluErfF32" : "GeluErf";
    case Activation::kSilu:
      return f32 ? "SiluF32" : "Silu";
  }
  return "";
}

ProgramSource ProgramSourceOf(const ProductSequence& sequence) {
  ProgramSource source;
  for (int i = 0; i < sequence.size(); ++i) {
    if (sequence[i].epilogue.program.written()) AddPart(sequence[i], i, &source);
  }
  if (!source.text.empty()) source.text += "\n";
  return source;
}

}  // namespace sinter
