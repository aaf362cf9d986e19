// Matcher: recognises a chain, or a part of one, as a sequence of products.
#ifndef SINTER_SRC_PRODUCT_MATCHER_H_
#define SINTER_SRC_PRODUCT_MATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/dtype.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/linear_finder.h"
#include "src/product/epilogue.h"
#include "src/product/sequence.h"

namespace sinter {

// The operands of one product: their numbers (in a whole chain those of its canonical inputs), -1
// when absent, and their row strides in elements as stored, 0 when absent. In a pair `weights` are
// gate's.
struct ProductInputs {
  int weights = -1, weights_up = -1;
  int scale_rows = -1, scale_weights = -1, scale_up = -1;  // of rows only where they have 8 bits
  int given_scale = -1;                                    // one number: of a result in codes
  std::vector<int> leaves;  // by input of the epilogue's program; -1 of accumulators
  int64_t weights_stride = 0, weights_up_stride = 0, residual_stride = 0;
  bool rounds = false;  // the chain rounds the result explicitly; otherwise kernels may round it
                        // once. Always true for the last product, whose result is the output
};

// A value that products read from memory, and its type there.
struct ProductOperand {
  ValueId value = -1;  // of the chain
  TensorType type;
};

// Invariants: all weights have one layout; the output and all operands but factors have one element
// type, unless rows and weights have 8 bits: the output, biases and a residual then have others. Of
// 16 bits the output may be f32.
struct MatchedSequence {
  ProductSequence sequence;              // its m is set by SetBucket
  Dim m;                                 // of the chain: the first dim of the rows
  std::vector<ProductOperand> operands;  // by number
  std::vector<ProductInputs> inputs;     // by product
  ValueId limits = -1;  // of a result in codes with scales of groups: what they follow from
  int rows = -1;        // number of the first product's rows
  int output = 0;       // index among the chain's outputs
  int64_t rows_stride = 0, output_stride = 0;  // in elements; the innermost stride is always 1
  std::vector<int64_t> aux_strides;            // of the graph's auxiliary results
  bool contiguous = true;                      // every row stride equals the row length
  bool weights_constant = true;                // all weights and biases are marked constant

  // Sets what of the sequence depends on the bucket: m, and a k that is M.
  void SetBucket(int64_t bucket);
  int size() const { return sequence.size(); }
  const ProductInputs& InputsOf(int product) const { return inputs[static_cast<size_t>(product)]; }
  int NumberOf(int product, const Leaf& leaf) const {
    return InputsOf(product).leaves[static_cast<size_t>(leaf.input)];
  }
  // The number of the product's leaf of that kind, -1 when absent.
  int NumberOf(int product, Role::Kind kind) const;
  const ProductOperand& OperandAt(int number) const {
    return operands[static_cast<size_t>(number)];
  }
  ValueId ValueOf(int number) const { return OperandAt(number).value; }
};

// Reads primitives, never names. INVALID_ARGUMENT says why the graph is not a sequence of products.
absl::StatusOr<MatchedSequence> MatchProducts(const Subgraph& graph);
// Matches a whole chain. `m`: the sequence's m. `norms`: products may compute their rows' norm.
absl::StatusOr<MatchedSequence> MatchProducts(const Chain& chain, int64_t m = 0,
                                              bool norms = false);

// Checks the types and strides of the operands of found products, and fills in the fields that
// follow from them.
absl::Status DescribeOperands(const Subgraph& graph, MatchedSequence* matched);

// A chain that is one sequence whose products kernels take, with its rows from the launch, M or
// not; else why it is not. Norms of rows are taken only with M: without it the number of rows is
// unknown. Transposed rows are not taken: no launch passes their number. FP8/INT8 values with
// scales by groups are not taken: their scales are another output. FixedRowsOf of the engine
// follows it.
absl::StatusOr<MatchedSequence> MatchWhole(const Chain& chain, int64_t bucket, bool norms = false);

// The result's dtype for rows and weights of `element`: that dtype, or f32 if the chain has f32.
// For FP8/INT8 operands it is the chain's dtype.
inline DType ResultType(DType element, DType of_chain) {
  return IsCode(element) || of_chain == DType::kF32 ? of_chain : element;
}

// ProgramMaker: the body of a program, from the ops of a graph on one element of the result.

class ProgramMaker {
 public:
  // What a value is that the program reads: its kind, the caller's number of it, and its element in
  // memory.
  struct Leaf {
    LeafKind kind = LeafKind::kValue;
    int number = -1;
    DType dtype = DType::kF32;
  };
  // An op by its value, which the caller numbers: one that spreads its operand is that operand.
  using OpAt = std::function<Op(ValueId)>;
  using LeafAt = std::function<std::optional<Leaf>(ValueId)>;

  ProgramMaker(OpAt op_at, LeafAt leaf_at)
      : op_at_(std::move(op_at)), leaf_at_(std::move(leaf_at)) {}

  ChainBuilder& builder() { return builder_; }
  // `id` is `made` of the builder.
  void Set(ValueId id, ValueId made) { made_[id] = made; }
  // `id` in the builder, in the dtype of the graph: vectors and matrices are widened as their
  // readers are.
  absl::StatusOr<ValueId> Make(ValueId id);
  // A leaf in `dtype`. The same one again, unless it is `apart`.
  absl::StatusOr<ValueId> MakeLeaf(const Leaf& leaf, DType dtype, bool apart = false);

  // Finishes the builder.
  struct Made {
    std::shared_ptr<const Chain> body;
    std::vector<LeafKind> kinds;  // by input of the body
    std::vector<int> numbers;     // of the leaves, by input of the body
  };
  absl::StatusOr<Made> Finish();

 private:
  absl::StatusOr<ValueId> MakeNew(ValueId id);

  struct Known {
    Leaf leaf;
    ValueId value = -1;  // of the builder
    bool apart = false;
  };
  const OpAt op_at_;
  const LeafAt leaf_at_;
  ChainBuilder builder_;
  std::vector<Known> leaves_;
  std::map<ValueId, ValueId> made_;
};

// ProgramFinder: which values of a graph are element-wise ops on a product or on a gate-up pair.

// `main`: of a pair gate, and `up` its other half.
struct FoundProgram {
  bool pair = false;
  Linear main, up;
  EpilogueProgram program;
  std::vector<int> leaves;  // numbers of the operands that are its inputs; -1 of main and up
};

// `value` as a program that is stored as `result`; none where it is the product itself, normed and
// with scales of columns or not. `aux`: the graph's auxiliary results are the program's.
// INVALID_ARGUMENT names the op that is not part of one.
absl::StatusOr<FoundProgram> FindProgram(const Subgraph& graph, const LinearFinder& finder,
                                         ValueId value, DType result, bool aux);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_MATCHER_H_
