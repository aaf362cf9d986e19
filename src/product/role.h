// Role: what a kernel argument is, and its one name in texts, JSON, drawings and source.
// OperandBinding: where it lies.
#ifndef SINTER_SRC_PRODUCT_ROLE_H_
#define SINTER_SRC_PRODUCT_ROLE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace sinter {

// What a kernel argument is to the device library.
enum class Role : uint8_t {
  kA = 0,
  kW1 = 1,
  kWUp = 2,
  kBias1 = 3,
  kBiasUp = 4,
  kW2 = 5,
  kBias2 = 6,
  kOut = 7,
  kC = 8,
  kResidual = 9,
  kFactor1 = 10,
  kFactor2 = 11,
  kPartialOut = 12,  // f32 partial sums of out, where several clusters share a row tile
  kScaleA = 13,
  kScaleW1 = 14,
  kScaleUp = 15,
  kScaleOut = 16,    // of 128 columns of a row of out, which is codes
  kGivenScale = 17,  // the same of all of out
  kScaleW2 = 18,
  kLeaf1 = 19,  // vectors of columns that a program reads
  kLeaf2 = 20,
  kLeaf3 = 21,
  kLeaf4 = 22,
  kCount
};
absl::string_view NameOf(Role role);
inline constexpr Role kLeafRoles[] = {Role::kLeaf1, Role::kLeaf2, Role::kLeaf3, Role::kLeaf4};

// Where a kernel finds an argument: a plan buffer (inputs then outputs in canonical order,
// kWorkspaceBuffer for c and partial_out) and an offset.
struct OperandBinding {
  Role role = Role::kA;
  int buffer = 0;
  uint64_t offset_bytes = 0;
  int64_t row_stride = 0;  // elements between rows (dimension 0); 0 for vectors of columns
  bool operator==(const OperandBinding& o) const;
};

// The operand with this role; null: none.
const OperandBinding* FindOperand(const std::vector<OperandBinding>& operands, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ROLE_H_
