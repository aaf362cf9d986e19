#include "src/product/role.h"

#include <tuple>

namespace sinter {

absl::string_view NameOf(Role role) {
  constexpr absl::string_view kNames[] = {
      "a",           "w1",      "w_up",     "bias1",    "bias_up",   "w2",
      "bias2",       "out",     "c",        "residual", "factor1",   "factor2",
      "partial_out", "scale_a", "scale_w1", "scale_up", "scale_out", "given_scale",
      "scale_w2",    "leaf1",   "leaf2",    "leaf3",    "leaf4"};
  const auto index = static_cast<size_t>(role);
  return index < static_cast<size_t>(Role::kCount) ? kNames[index] : "invalid";
}

bool OperandBinding::operator==(const OperandBinding& o) const {
  return std::tie(role, buffer, offset_bytes, row_stride) ==
         std::tie(o.role, o.buffer, o.offset_bytes, o.row_stride);
}

const OperandBinding* FindOperand(const std::vector<OperandBinding>& operands, Role role) {
  for (const OperandBinding& operand : operands) {
    if (operand.role == role) return &operand;
  }
  return nullptr;
}

}  // namespace sinter
