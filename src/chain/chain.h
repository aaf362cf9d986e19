// Chain: an immutable operator DAG in canonical form.
#ifndef SINTER_SRC_CHAIN_CHAIN_H_
#define SINTER_SRC_CHAIN_CHAIN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/once_list.h"
#include "src/chain/op.h"

namespace sinter {

struct ChainOutput {
  ValueId value = -1;
  std::vector<Stride> strides;  // per axis, always filled
  int32_t alias_input = -1;     // canonical index of the input whose buffer this output may share
  SINTER_FIELDS(ChainOutput, value, strides, alias_input);
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

  // A T(*this), made at the first call: a fact that the ops determine, such as how exactly kernels
  // compute each of them. Copies of the chain share the object while one of them lives.
  // Precondition: the chain has ops.
  template <typename T>
  const T& Once() const {
    const std::shared_ptr<const void>* known = once_->Find(&kTypeKey<T>);
    if (known == nullptr) known = &once_->Keep(&kTypeKey<T>, std::make_shared<const T>(*this));
    return *static_cast<const T*>(known->get());
  }

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
  std::shared_ptr<const OnceList<const void*, std::shared_ptr<const void>>> once_;
};

// Rebuilds a chain from CanonicalBytes(). Input is untrusted: every op goes through ChainBuilder.
// The caller's order of the result is the canonical order. DATA_LOSS on damage, or the builder's
// error.
absl::StatusOr<Chain> ChainFromCanonicalBytes(absl::string_view bytes);

// "'hidden'" where the caller named an input, else "input 2"; "op 3 (matmul)".
std::string NameOfValue(const Chain& chain, ValueId id);

// M: the buckets that plans of a chain are made for, and whether its rows are apart.

// Rows that products of one pass work on, where each index of M has many: 32 images of 56 x 56
// pixels and more. A pass is never cut inside an index of M.
constexpr int64_t kMostRowsOfPass = int64_t{1} << 17;

// The largest bucket of plans of the chain, which take any number of rows. kLargestBucket, or
// less where products have many rows for each index of M.
int64_t LargestBucketOf(const Chain& chain);
// The smallest bucket that holds m, the largest of the chain where none does.
int64_t BucketOf(const Chain& chain, int64_t m);

// OK where every op keeps the dimension M of its operands: index i of it in the result is made of
// index i of it in each operand that has it. Else FAILED_PRECONDITION naming the first op that does
// not: one that reduces over M, contracts it, or has M twice.
absl::Status CheckRowsApart(const Chain& chain);

// Whether `op` takes rows by ids from all M of them, or writes M rows or among them.
bool MixesRowsByIds(const Chain& chain, const Op& op);

// How many leading dims of a `random` have seeds or offsets of their own; 0 where all share one.
int LeadingRankOf(const Chain& chain, const Op& random);

// JSON of any chain, both ways. Schema: docs/chains.md.

constexpr int kChainJsonSchema = 1;

// Two-space indented, one op per line, keys in fixed order, newline at the end. Keeps the caller's
// input order and names.
std::string ChainToJson(const Chain& chain);
// INVALID_ARGUMENT naming the JSON path ("ops[3].transpose_a: must be true or false") or the
// builder's error. Unknown keys are errors. Input is untrusted: nesting is limited, sizes are
// bounded.
absl::StatusOr<Chain> ChainFromJson(absl::string_view json);

class Users {
 public:
  Users() = default;  // of no value
  explicit Users(const Chain& chain) : users_(chain.ops().size()), is_output_(users_.size()) {
    for (ValueId user = 0; user < static_cast<ValueId>(users_.size()); ++user) {
      for (const ValueId operand : chain.op(user).operands) {
        std::vector<ValueId>& of = users_[static_cast<size_t>(operand)];
        if (of.empty() || of.back() != user) of.push_back(user);
      }
    }
    for (const ChainOutput& out : chain.outputs())
      is_output_[static_cast<size_t>(out.value)] = true;
  }

  // Distinct, ascending.
  const std::vector<ValueId>& Of(ValueId value) const { return users_[static_cast<size_t>(value)]; }
  bool IsOutput(ValueId value) const { return is_output_[static_cast<size_t>(value)]; }

  // The one op that reads a value; -1 where there are others or none, or the value is an output.
  ValueId Only(ValueId value) const {
    return Of(value).size() == 1 && !IsOutput(value) ? Of(value)[0] : -1;
  }

  // Whether a value is not an output and only `ops` read it.
  bool AreAmong(const std::set<ValueId>& ops, ValueId value) const {
    return !IsOutput(value) && std::all_of(Of(value).begin(), Of(value).end(),
                                           [&](ValueId user) { return ops.count(user) > 0; });
  }

 private:
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> is_output_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CHAIN_H_
