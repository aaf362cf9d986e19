#include "src/product/role.h"

#include <tuple>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

const char* BareName(Role::Kind kind) {
  constexpr const char* kNames[] = {
      "w",         "w_up",        "bias", "bias_up",     "factor",   "scale_w",
      "scale_up",  "leaf",        "a",    "scale_a",     "residual", "out",
      "scale_out", "given_scale", "c",    "partial_out", "aux"};
  return kNames[kind];
}

// Of a gate-up pair a kernel has one.
bool IsNumbered(Role::Kind kind) {
  return kind < Role::kA && kind != Role::kWUp && kind != Role::kBiasUp && kind != Role::kScaleUp;
}

}  // namespace

std::string NameOf(Role role, int products) {
  std::string name = BareName(role.kind);
  if (role.kind == Role::kAux) absl::StrAppend(&name, role.leaf + 1);
  if (role.kind == Role::kLeaf) absl::StrAppend(&name, role.leaf + 1, products > 1 ? "_" : "");
  if (products > 1 && IsNumbered(role.kind)) absl::StrAppend(&name, role.product + 1);
  return name;
}

std::string FieldOf(Role role) {
  return NameOf(role, role.kind == Role::kLeaf && role.product == 0 ? 1 : 2);
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
