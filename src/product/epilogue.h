// ProductEpilogue: what happens to a product's f32 accumulators until the result is stored.
#ifndef SINTER_SRC_PRODUCT_EPILOGUE_H_
#define SINTER_SRC_PRODUCT_EPILOGUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/chain/chain.h"
#include "src/chain/choices.h"

namespace sinter {

// EpilogueProgram: element-wise ops on a product's accumulators. The device library has a
// handwritten form of some of them, such as a bias or an activation of a gate-up pair.

// What a program reads. Values are part of plan records: never reused.
enum class LeafKind : uint8_t {
  kValue = 0,   // the product, in f32; of a gate-up pair gate
  kUp = 1,      // the same of up
  kColumn = 2,  // a vector with an element of each column
  kMatrix = 3,  // a matrix of the result's extents
  kRow = 4,     // a vector with an element of each row
  kNumber = 5,  // one number in memory
  // Only programs of attention's scores read the numbers of the row and the column, exact in f32.
  kRowIndex = 6,
  kColumnIndex = 7,
};
// Whether a program reads it from memory.
inline bool LiesInMemory(LeafKind kind) {
  return kind >= LeafKind::kColumn && kind <= LeafKind::kNumber;
}

constexpr int kMostColumnLeaves = 4;  // vectors of columns and numbers, biases among them
constexpr int kMostProgramOps = 128;
constexpr int kMostAuxResults = 2;  // both halves of a gate-up pair
// Branches of functions with slow paths (BranchesOf), which a kernel has for each accumulator.
constexpr int64_t kMostProgramBranches = 6;

// The forms that the device library has for the ops after the affine part of a program:
// sum_activation(round(activation(y) * up) + r), or less.
struct EpilogueForm {
  Activation activation = Activation::kIdentity;
  bool gate = false;      // times up, of a gate-up pair
  bool rounds = false;    // to the result's element, before the matrix is added
  bool residual = false;  // plus the matrix
  Activation sum_activation = Activation::kIdentity;  // with a residual

  SINTER_FIELDS(EpilogueForm, activation, gate, rounds, residual, sum_activation);
};

// The ops with which a body begins, if they are scale * factor * product + bias, or less. The
// device library has them by hand, whatever follows them. A pair has them for both halves.
struct AffinePart {
  float scale = 1;
  int factor = -1, bias = -1, bias_up = -1;  // inputs of the body, which nothing else reads
  ValueId value = -1, up = -1;               // what they make of the product, and of up
};

// Immutable and cheap to copy; any thread may read it. Made by ProgramOf.
struct EpilogueProgram {
  // One element of the result: inputs and ops have the dims [2] or none. Outputs are casts to the
  // stored types, to which the store rounds. The first is the result. Auxiliary results of any
  // float follow, such as the activation's input; they are stored too. Null: there is no program.
  std::shared_ptr<const Chain> body;
  std::vector<LeafKind> leaves;  // by input of the body
  // Set for an f32 result that only a later quantization to 8-bit floats reads. Its functions are
  // the ones of results of 16 bits.
  bool for_codes = false;
  // Both follow from the body. If it has no form, code generation writes the ops after the affine
  // part.
  AffinePart affine;
  std::optional<EpilogueForm> form;

  bool present() const { return body != nullptr; }
  bool written() const { return present() && !form.has_value(); }
  int aux_results() const { return present() ? body->num_outputs() - 1 : 0; }
  // Whether a kernel computes all results in one function of the accumulators and the matrix.
  bool whole() const { return written() && (Reads(LeafKind::kMatrix) || aux_results() > 0); }
  bool Reads(LeafKind kind) const;
  // The inputs of a kind, in the body's order.
  std::vector<int> InputsOf(LeafKind kind) const;
  // All that lie in memory, in the body's order.
  std::vector<int> OperandInputs() const;
  // Vectors of columns, biases among them, and numbers: a thread holds them for its columns.
  std::vector<int> ColumnLeaves() const;
  // By op: whether it is of the affine part, or an input that the part reads.
  std::vector<bool> InAffine() const;
  DType TypeOf(int input) const { return body->input_op(input).type.dtype; }
  std::optional<DType> TypeAt(int input) const {  // none of -1
    return input < 0 ? std::nullopt : std::optional<DType>(TypeOf(input));
  }
  // The dtype of the matrix, which it reads.
  DType MatrixType() const { return TypeOf(InputsOf(LeafKind::kMatrix)[0]); }
  DType AuxType(int i) const { return body->output_type(i + 1).dtype; }
  bool operator==(const EpilogueProgram& o) const;
};

AffinePart AffineOf(const Chain& body, const std::vector<LeafKind>& leaves);
// The form that follows from a program's body: none where it has other ops or leaves.
std::optional<EpilogueForm> FormOfBody(const EpilogueProgram& program);
// By op: the SiLU or GELU that it is the result of, and of which value. Kernels compute it as forms
// do, so that it has the same bits next to other ops.
struct FoundActivation {
  Activation activation = Activation::kIdentity;  // none
  ValueId of = -1;
};
std::vector<FoundActivation> ActivationsIn(const Chain& body);
EpilogueProgram ProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves);

// "tanh(y)", "t1=to_bf16(y);mul(t1,sigmoid(t1))": y is what the affine part makes of the product,
// `up` that of up, c1, c2, .. the columns, n1, n2, .. the numbers, r the matrix, s the rows.
// Without the last rounding. Auxiliary results follow it: "tanh(y);aux=y".
std::string ToString(const EpilogueProgram& program);

// Where the program of a gate-up pair is f(y) * up, the value f(y); else -1.
ValueId OfGateAlone(const EpilogueProgram& program);

// OK, or why no kernel can apply it to store `result`; `pair`: to a gate-up pair.
absl::Status CheckProgram(const EpilogueProgram& program, DType result, bool pair);
// The same of attention's scores, f32, which read `terms` matrices: floats, or predicates.
absl::Status CheckScoreProgram(const EpilogueProgram& program, int terms);

// An absent program has no leaf. ReadProgram trusts nothing: DATA_LOSS on damage.
void WriteProgram(const EpilogueProgram& program, ByteWriter& w);
absl::StatusOr<EpilogueProgram> ReadProgram(ByteReader& r);

// How results become codes (AddQuantize): by the scale of 128 columns of a row, which the kernel
// stores too, or by one that is given.
struct QuantizeRule {
  int64_t columns = 0;       // that share a scale: 128; 0: it is given
  float eps = 0, bound = 0;  // of the largest magnitude of 128 columns; bound 0: none
  bool ue8m0 = false;        // the scale is a power of two

  SINTER_FIELDS(QuantizeRule, columns, eps, bound, ue8m0);
};

std::string ToString(const QuantizeRule& rule);  // "given", "128:eps=1e-10"

// A program of element-wise ops, and the policies before and after it, in the order in which
// kernels apply them. A norm applies to both halves of a gate-up pair.
struct ProductEpilogue {
  std::optional<float> norm;  // eps: times 1 / sqrt(mean of the squares of the product's row + eps)
  EpilogueProgram program;
  std::optional<QuantizeRule> quantize;  // to codes: divided by a scale, and rounded by the store

  // The activations of the program's form: identity if it has none.
  Activation activation() const { return form().activation; }
  Activation sum_activation() const { return form().sum_activation; }
  EpilogueForm form() const { return program.form.value_or(EpilogueForm{}); }
  // The constant of the program's affine part, and the element types of its factor (a number of
  // each row) and bias (a vector of columns).
  float scale() const { return program.affine.scale; }
  std::optional<DType> factor() const { return program.TypeAt(program.affine.factor); }
  std::optional<DType> bias() const { return program.TypeAt(program.affine.bias); }
  // Whether the kernel reads a matrix of the result's extents.
  bool has_residual() const { return program.Reads(LeafKind::kMatrix); }
  // Whether the kernel computes scales of 128 columns.
  bool has_groups() const { return quantize.has_value() && quantize->columns > 0; }
  // Whether accumulators are multiplied by a constant or by a number of their row.
  bool scaled() const { return norm.has_value() || scale() != 1 || factor().has_value(); }

  SINTER_FIELDS(ProductEpilogue, norm, program, quantize);
};

// How the residual of a form is added: "added", or "rounded" where the result is rounded first.
inline const char* ResidualName(const EpilogueForm& form) {
  return form.rounds ? "rounded" : "added";
}

// OK, or the first part that no kernel can apply. `rows`, `result`: elements of the product's
// operands and of its result; `pair`: whether the product is a gate-up pair.
absl::Status CheckEpilogue(const ProductEpilogue& epilogue, DType rows, DType result, bool pair);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_EPILOGUE_H_
