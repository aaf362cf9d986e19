// EpilogueProgram: element-wise ops on a product's accumulators, behind its scales and biases.
// Of some of them, as an activation of a gate-up pair, the device library has a form by hand.
#ifndef SINTER_SRC_PRODUCT_EPILOGUE_PROGRAM_H_
#define SINTER_SRC_PRODUCT_EPILOGUE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/chain/activation.h"
#include "src/chain/chain.h"

namespace sinter {

// What a program reads. Values are part of plan records: never reused.
enum class LeafKind : uint8_t {
  kValue = 0,   // the product, scaled and biased; of a gate-up pair gate, in f32
  kUp = 1,      // the same of up
  kColumn = 2,  // a vector with an element of each column
  kMatrix = 3,  // a matrix of the result's extents
  kRow = 4,     // a vector with an element of each row
  kNumber = 5,  // one number in memory
};

constexpr int kMostColumnLeaves = 4;  // vectors of columns and numbers
constexpr int kMostProgramOps = 128;
constexpr int kMostAuxResults = 2;  // both halves of a gate-up pair
// Branches of functions with slow paths (BranchesOf), which a kernel has for each accumulator.
constexpr int64_t kMostProgramBranches = 6;

// What the device library has forms of: sum_activation(round(activation(y) * up) + r), or less.
struct EpilogueForm {
  Activation activation = Activation::kIdentity;
  bool gate = false;      // times up, of a gate-up pair
  bool rounds = false;    // to the result's element, before the matrix is added
  bool residual = false;  // plus the matrix
  Activation sum_activation = Activation::kIdentity;  // with a residual

  bool operator==(const EpilogueForm& o) const { return Key() == o.Key(); }
  bool operator<(const EpilogueForm& o) const { return Key() < o.Key(); }
  std::tuple<Activation, bool, bool, bool, Activation> Key() const {
    return {activation, gate, rounds, residual, sum_activation};
  }
};

// Immutable and cheap to copy; any thread may read it. ProgramOf makes it.
struct EpilogueProgram {
  // One element of the result: inputs and ops have the dims [2] or none. Outputs are casts to what
  // is stored, which the store rounds to: the result, and behind it auxiliary results of any float,
  // which are stored beside it, such as what was activated. Null: there is no program.
  std::shared_ptr<const Chain> body;
  std::vector<LeafKind> leaves;      // by input of the body
  std::optional<EpilogueForm> form;  // that follows from the body; none: code generation writes it

  bool present() const { return body != nullptr; }
  bool written() const { return present() && !form.has_value(); }
  int aux_results() const { return present() ? body->num_outputs() - 1 : 0; }
  // Whether a kernel computes all results in one function of the accumulators and the matrix.
  bool whole() const { return written() && (Reads(LeafKind::kMatrix) || aux_results() > 0); }
  bool Reads(LeafKind kind) const;
  // The inputs of a kind, in the body's order.
  std::vector<int> InputsOf(LeafKind kind) const;
  // Vectors of columns and numbers, which a thread holds for its columns: leaf i of a kernel is the
  // i-th.
  std::vector<int> ColumnLeaves() const;
  DType TypeOf(int input) const { return body->input_op(input).type.dtype; }
  // That of the matrix, which it reads.
  DType MatrixType() const { return TypeOf(InputsOf(LeafKind::kMatrix)[0]); }
  DType AuxType(int i) const { return body->output_type(i + 1).dtype; }
  bool operator==(const EpilogueProgram& o) const;
};

// The form that follows from a body: none where it has no such ops and leaves alone.
std::optional<EpilogueForm> FormOfBody(const Chain& body, const std::vector<LeafKind>& leaves);
// By op: the SiLU or GELU that it is the result of, and of which value. Kernels compute it as forms
// do, so that it has the same bits beside other ops.
struct FoundActivation {
  Activation activation = Activation::kIdentity;  // none
  ValueId of = -1;
};
std::vector<FoundActivation> ActivationsIn(const Chain& body);
// The program with this body. Where it has a form, whatever its spelling, the form's own program:
// equal epilogues have equal bytes.
EpilogueProgram ProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves);
// The program of a form whose result is stored as `result`, a floating type, with a residual one of
// 16 bits; none where the form leaves accumulators as they are.
EpilogueProgram ProgramOf(const EpilogueForm& form, DType result);

// "tanh(y)", "t1=to_bf16(y);mul(t1,sigmoid(t1))": y is the value, `up` that of up, c1, c2, .. the
// columns, n1, n2, .. the numbers, r the matrix, s the rows. Without the last rounding. Auxiliary
// results stand behind it: "tanh(y);aux=y".
std::string ToString(const EpilogueProgram& program);

// Where the program of a gate-up pair is a function of gate times up, that function: a program of
// its value. Else none.
EpilogueProgram OfGateAlone(const EpilogueProgram& program);

// OK, or why no kernel can apply it to store `result`; `pair`: to a gate-up pair.
absl::Status CheckProgram(const EpilogueProgram& program, DType result, bool pair);

void WriteProgram(const EpilogueProgram& program, ByteWriter& w);
// Trusts nothing. DATA_LOSS on damage.
absl::StatusOr<EpilogueProgram> ReadProgram(ByteReader& r);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_EPILOGUE_PROGRAM_H_
