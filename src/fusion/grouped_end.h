// GroupedEndFinder: which element-wise ops after a grouped product its kernel computes, as the
// product's program.
#ifndef SINTER_SRC_FUSION_GROUPED_END_H_
#define SINTER_SRC_FUSION_GROUPED_END_H_

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/grouped/grouped.h"
#include "src/product/matcher.h"

namespace sinter {

// Ops from a product on that lead to one value, and that nothing else reads.
struct GroupedEnd {
  ValueId end = -1;
  GroupedPair pair = GroupedPair::kNone;
  std::set<ValueId> values;         // without the product, inputs and numbers
  EpilogueProgram program;          // none: nothing happens to the sums
  std::vector<GroupedLeaf> leaves;  // by input of the program
  std::vector<ValueId> operands;    // that the leaves read, by number
};

// Finds ends of the grouped_matmul `product`. The chain and `users` must outlive the finder.
class GroupedEndFinder {
 public:
  // The strides of a value in memory, in elements, or why a kernel cannot read it.
  using Lies = std::function<absl::StatusOr<std::vector<int64_t>>(ValueId)>;
  GroupedEndFinder(const Chain& chain, const Users& users, ValueId product, Lies lies);

  // The values at which a program may end, the last one first, none of which is `claimed`: floats,
  // or codes that are cast from them.
  std::vector<ValueId> Ends(const std::vector<bool>& claimed) const;
  // The ops that lead to `end`. INVALID_ARGUMENT where a kernel does not compute them. `p`: all of
  // the product but its pair and program; `result`: as which its kernel stores them.
  absl::StatusOr<GroupedEnd> At(ValueId end, DType result, const std::vector<bool>& claimed,
                                GroupedProduct p) const;

 private:
  // An operand of the program: a value in memory, and where its elements lie.
  struct Operand {
    ValueId base = -1;
    LeafKind kind = LeafKind::kNumber;
    GroupedLeaf at;  // without its operand
  };
  // What a walk down from a value has met: views move each axis of the result to one of it.
  struct Place;

  bool IsMade(ValueId id) const { return made_[static_cast<size_t>(id)]; }
  bool HasHalf(ValueId id) const;
  int HalfAt(ValueId id, bool in_turns) const;
  absl::Status Collect(ValueId id, const std::vector<bool>& claimed, GroupedEnd* found,
                       std::set<int>* halves) const;
  void AddOthers(const std::vector<bool>& claimed, GroupedEnd* found) const;
  bool Descend(Place* place) const;
  std::optional<Operand> OperandAt(ValueId id) const;

  const Chain& chain_;
  const Users& users_;
  const ValueId product_, ids_;
  const bool by_ends_;
  const int64_t columns_;
  const Lies lies_;
  std::vector<bool> made_;  // by value: whether it is made of the product
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_GROUPED_END_H_
