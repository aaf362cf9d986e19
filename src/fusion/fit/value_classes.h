// ValueClasses: which values of chains are the same. The values of a chain and of the bodies of
// kernels get equal numbers where equal ops make them from equal values.
#ifndef SINTER_SRC_FUSION_FIT_VALUE_CLASSES_H_
#define SINTER_SRC_FUSION_FIT_VALUE_CLASSES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/chain/chain.h"

namespace sinter {

// What planning may rewrite, and nothing else, leaves the number as it is:
// - a value that is rounded for its way through memory and widened again is that value;
// - a reduction may read its operand through a transpose that keeps the order of the axes left;
// - reshapes and transposes in a row are one, those that change nothing are none.
class ValueClasses {
 public:
  using Class = int32_t;

  explicit ValueClasses(const Chain& chain);

  // Of a value of the chain.
  Class Of(ValueId value) const { return of_chain_[static_cast<size_t>(value)]; }
  // Of that value as it lies in memory.
  Class Stored(Class value, DType dtype);
  // Of the ops of `body`, whose i-th input is inputs[i].
  std::vector<Class> OfBody(const Chain& body, const std::vector<Class>& inputs);
  // Of what `description` says about a value of `type` that is no op of a chain.
  Class OfOther(absl::string_view description, const TensorType& type);
  const TensorType& TypeOf(Class value) const { return nodes_[At(value)].type; }

 private:
  // What a class is known to be made by, as far as rewriting asks.
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
