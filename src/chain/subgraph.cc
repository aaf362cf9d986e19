#include "src/chain/subgraph.h"

#include <utility>

namespace sinter {

Subgraph::Subgraph(const Chain& chain)
    : Subgraph(chain, chain.outputs()[0].value, chain.output_type(0), chain.outputs()[0].strides) {
  for (int i = 0; i < chain.num_inputs(); ++i) operands_.push_back(chain.input(i));
}

Subgraph::Subgraph(const Chain& chain, ValueId result, const TensorType& type,
                   std::vector<Stride> strides)
    : chain_(chain), result_(result), type_(type), strides_(std::move(strides)) {}

void Subgraph::AddOperand(ValueId value, DType dtype, std::vector<Stride> strides) {
  const Op& of = chain_.op(value);
  Op input;
  input.type = {dtype, of.type.dims};
  input.constant = of.kind == OpKind::kInput && of.constant;
  input.input = static_cast<int32_t>(operands_.size());
  input.strides = std::move(strides);
  operands_.push_back(value);
  own_.emplace(value, std::move(input));
}

}  // namespace sinter
