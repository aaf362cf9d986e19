// ValueClasses: which values of chains are equal. Values of a chain and of kernels' bodies get one
// class where equal ops make them from equal values.
#ifndef SINTER_SRC_FUSION_FIT_VALUE_CLASSES_H_
#define SINTER_SRC_FUSION_FIT_VALUE_CLASSES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/chain/chain.h"

namespace sinter {

// Exactly the rewrites of planning keep the class:
// - a value that is rounded for memory and widened again is that value;
// - a reduction may read its operand through a transpose that keeps the order of the axes left;
// - consecutive reshapes and transposes are one; those that change nothing are dropped.
class ValueClasses {
 public:
  using Class = int32_t;

  explicit ValueClasses(const Chain& chain);

  // Class of a value of the chain.
  Class Of(ValueId value) const { return of_chain_[static_cast<size_t>(value)]; }
  // Class of that value as stored in memory.
  Class Stored(Class value, DType dtype);
  // Classes of the ops of `body`, whose i-th input is inputs[i].
  std::vector<Class> OfBody(const Chain& body, const std::vector<Class>& inputs);
  // Class of a value of `type` that is no op of a chain, known by `description`.
  Class OfOther(absl::string_view description, const TensorType& type);
  const TensorType& TypeOf(Class value) const { return nodes_[At(value)].type; }

 private:
  // How a class is made, as far as the rewrites need it.
  struct Node {
    OpKind kind = OpKind::kInput;
    Class operand = -1;
    std::vector<int32_t> axes;  // of a transpose
    TensorType type;
  };

  static size_t At(Class value) { return static_cast<size_t>(value); }
  std::vector<Class> OfOps(const Chain& chain, const std::vector<Class>* inputs);
  Class OfOp(const Op& op, const std::vector<Class>& operands);
  Class Cast(Class value, const TensorType& type);
  Class Transposed(Class value, std::vector<int32_t> axes, const TensorType& type);
  Class Reshaped(Class value, const TensorType& type);
  Class Reduced(const Op& op, Class operand);
  Class Intern(std::string key, Node node);

  std::unordered_map<std::string, Class> known_;
  std::vector<Node> nodes_;
  std::vector<Class> of_chain_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_VALUE_CLASSES_H_
