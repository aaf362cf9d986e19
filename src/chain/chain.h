// Chain: an immutable operator DAG in canonical form.
#ifndef SINTER_SRC_CHAIN_CHAIN_H_
#define SINTER_SRC_CHAIN_CHAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/chain/op.h"

namespace sinter {

struct ChainOutput {
  ValueId value = -1;
  std::vector<Stride> strides;  // per axis, always filled
  int32_t alias_input = -1;     // canonical index of the input whose buffer this output may share
  bool operator==(const ChainOutput& o) const {
    return value == o.value && strides == o.strides && alias_input == o.alias_input;
  }
};

// Filled by ChainBuilder::Finish only, so every Chain that has ops is valid.
// Invariants: ops are numbered depth-first (post-order) from the outputs in declared order, so
// operands precede users; every op is reachable from an output; canonical input i is the i-th
// kInput op in that order. Immutable: any thread may read it.
class Chain {
 public:
  Chain() = default;  // no ops; only to be assigned to
  const std::vector<Op>& ops() const { return ops_; }
  const Op& op(ValueId id) const { return ops_[id]; }
  const std::vector<ChainOutput>& outputs() const { return outputs_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // The op of canonical input i.
  ValueId input(int i) const { return inputs_[i]; }
  const Op& input_op(int i) const { return ops_[inputs_[i]]; }
  const TensorType& output_type(int i) const { return ops_[outputs_[i].value].type; }

  // Canonical input i is the caller's input InputOrder()[i], counted in the order of
  // ChainBuilder::Input calls.
  const std::vector<int32_t>& InputOrder() const { return input_order_; }
  // The inverse: the caller's input j is canonical input CallerOrder()[j].
  std::vector<int32_t> CallerOrder() const;
  // The name given to the caller's input; "" without one. Not part of the canonical form.
  const std::string& InputName(int caller_index) const { return input_names_[caller_index]; }

  // Same bytes = same plan. No names, no caller's order; M stays symbolic.
  const std::string& CanonicalBytes() const { return canonical_; }
  const Digest& CanonicalDigest() const { return digest_; }
  // Whether M occurs at all.
  bool UsesM() const { return uses_m_; }
  // Whether any op is of this kind.
  bool Has(OpKind kind) const;
  // Over how many GPUs it is split: the ranks of its collective ops; 1 without one.
  int ranks() const { return ranks_; }
  // How often each op is used: operand slots of other ops plus outputs.
  std::vector<int> UseCounts() const;
  // What an element of a product or convolution sums: k, or channels times taps.
  Dim FactorsOf(const Op& op) const;
  // 2*m*n*k summed over the products and convolutions, at M = m.
  double MatmulFlops(int64_t m) const;
  // One line per op, for logs and errors: "7 binary add 3 6 : f32[M,512]".
  std::string ToString() const;

  bool operator==(const Chain& o) const { return canonical_ == o.canonical_; }

 private:
  friend class ChainBuilder;
  std::vector<Op> ops_;
  std::vector<ValueId> inputs_;
  std::vector<ChainOutput> outputs_;
  std::vector<int32_t> input_order_;
  std::vector<std::string> input_names_;
  std::string canonical_;
  Digest digest_;
  bool uses_m_ = false;
  int ranks_ = 1;
};

// Rebuilds a chain from CanonicalBytes(). Input is untrusted: every op goes through ChainBuilder.
// The caller's order of the result is the canonical order. DATA_LOSS on damage, or the builder's
// error.
absl::StatusOr<Chain> ChainFromCanonicalBytes(absl::string_view bytes);

// "'hidden'" where the caller named an input, else "input 2"; "op 3 (matmul)".
std::string NameOfValue(const Chain& chain, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CHAIN_H_
