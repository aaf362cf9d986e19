// NormalGraph: the ops of a chain while rules change them.
#ifndef SINTER_SRC_NORMAL_GRAPH_H_
#define SINTER_SRC_NORMAL_GRAPH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/chain/op.h"
#include "src/normal/normal_form.h"

namespace sinter {

// An op without the attributes of its kind.
Op OpOf(OpKind kind, std::vector<ValueId> operands, TensorType type);

// A result that the caller gets.
struct NormalResult {
  ValueId value = -1;
  std::vector<Stride> strides;
  int alias = -1;  // source whose buffer it may share; -1: none
};

// Values keep their numbers; an op's operands may have larger ones than it has itself. A value that
// no result needs any more is left where it is, and no order lists it. Copyable; not thread-safe.
class NormalGraph {
 public:
  explicit NormalGraph(std::shared_ptr<const Chain> chain);

  const Op& op(ValueId id) const { return ops_[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return op(id).type; }
  int size() const { return static_cast<int>(ops_.size()); }

  // Values that results need, operands before their users. Computed when a rule has changed
  // something since the last call.
  const std::vector<ValueId>& Order();
  // By value: the operand slots that live ops read it in, without results.
  std::vector<std::vector<ValueId>> Users();
  // By value: whether it is a result.
  std::vector<bool> IsResult() const;

  const std::vector<NormalResult>& results() const { return results_; }
  // Changes a result's value and layout.
  void SetResult(size_t i, ValueId value, std::vector<Stride> strides);

  // Where an input op reads.
  const BufferView& source(ValueId input) const {
    return sources_[static_cast<size_t>(op(input).input)].view;
  }
  // Whether a result may be stored over the buffer of `input`: then nobody may read it through
  // another view, because the order of kernels is made by inputs.
  bool IsWritten(ValueId input) const;

  // Values added from now on are made of `id`: messages name the caller's op that it comes from.
  void WorkOn(ValueId id) { origin_ = origins_[static_cast<size_t>(id)]; }
  // The adds give the new value's number. Types are the caller's to know: Finish checks them.
  ValueId Add(Op op);
  // Results that may share the buffer of input `from` may share that of `to`, a view of the same.
  void MoveAlias(ValueId from, ValueId to);
  // Another view of the buffer that `of` reads, `offset_bytes` after its beginning.
  ValueId AddInput(ValueId of, TensorType type, std::vector<Stride> strides, int64_t offset_bytes);
  // An op of one operand and no attributes but its type.
  ValueId AddView(OpKind kind, ValueId operand, std::vector<Dim> dims);  // reshape, broadcast
  ValueId AddTranspose(ValueId operand, std::vector<int32_t> axes);
  ValueId AddSlice(ValueId operand, std::vector<int64_t> starts, std::vector<Dim> extents);
  ValueId AddConcat(std::vector<ValueId> operands, int axis);
  ValueId AddIota(std::vector<Dim> dims, int axis);  // of s32
  ValueId AddScalar(double value, DType dtype);
  ValueId AddUnary(UnaryKind kind, ValueId operand);
  ValueId AddBinary(BinaryKind kind, ValueId a, ValueId b);
  ValueId AddCast(ValueId operand, DType dtype);

  // Walks the order. `change(value)` gives what takes the value's place, or the value itself. The
  // operands of what it sees are replaced already, new values are not walked. True if anything was
  // replaced. Works on each value while it is changed.
  bool Rewrite(const std::function<ValueId(ValueId)>& change);

  void Note(std::string note) { notes_.push_back(std::move(note)); }

  // INVALID_ARGUMENT where a rule made an op that the builder refuses.
  absl::StatusOr<std::shared_ptr<const NormalForm>> Finish();

 private:
  struct Source {
    BufferView view;
    std::string name;
  };

  std::shared_ptr<const Chain> callers_;
  std::deque<Op> ops_;            // references stay good while ops are added
  std::vector<ValueId> origins_;  // by value: the caller's op
  ValueId origin_ = 0;            // of the next added value
  std::vector<Source> sources_;   // by Op::input
  std::vector<NormalResult> results_;
  std::vector<std::string> notes_;
  std::vector<ValueId> order_;
  bool ordered_ = false;
};

// A product with one matrix for all rows. Batched ones have other kernels.
bool IsRowProduct(const NormalGraph& graph, const Op& op);
// One of these, a convolution or a product of codes.
bool IsProduct(const NormalGraph& graph, const Op& op);
// By value: whether it is made of a product element by element, so that its kernel may compute it.
std::vector<bool> BehindProducts(NormalGraph& graph);

}  // namespace sinter

#endif  // SINTER_SRC_NORMAL_GRAPH_H_
