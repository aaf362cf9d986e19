// Role: what a kernel argument is, and its one name in texts, JSON, drawings and source.
// OperandBinding: where it lies.
#ifndef SINTER_SRC_PRODUCT_ROLE_H_
#define SINTER_SRC_PRODUCT_ROLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sinter {

// An operand or a leaf of one of a kernel's products, or a result.
struct Role {
  enum Kind : uint8_t {
    // Each product has its own.
    kW,
    kWUp,  // of a gate-up pair
    kBias,
    kBiasUp,
    kFactor,  // a number of each row
    kScaleW,  // of the weights
    kScaleUp,
    kLeaf,  // a vector of columns or a number that its program reads
    // The kernel has one.
    kA,
    kScaleA,
    kResidual,  // a matrix of the result's extents
    kOut,
    kScaleOut,    // of 128 columns of a row of out, which is codes
    kGivenScale,  // the same of all of out
    kC,
    kPartialOut,  // f32 partial sums of out, where several clusters share a row tile
    kAux,         // an auxiliary result of the last product's program
  };

  constexpr Role() = default;
  constexpr Role(Kind kind, int product = 0, int leaf = 0)  // NOLINT: a kind is a role
      : kind(kind), product(static_cast<uint8_t>(product)), leaf(static_cast<uint8_t>(leaf)) {}

  Kind kind = kA;
  uint8_t product = 0;  // of the kernel; 0 for what the kernel has one of
  uint8_t leaf = 0;     // of kLeaf and kAux: its number among the program's

  constexpr bool operator==(const Role& o) const {
    return kind == o.kind && product == o.product && leaf == o.leaf;
  }
  constexpr bool operator!=(const Role& o) const { return !(*this == o); }
  // One number for each role, for keys in memory and digests of plans: a new kind goes last.
  uint32_t Number() const { return kind | uint32_t{product} << 8 | uint32_t{leaf} << 16; }
};

// "a", "c", "w2", "leaf1": what each of `products` has is numbered where they are several.
std::string NameOf(Role role, int products);
// As generated source and the device library's Arguments name it: numbered in every kernel, but
// what up has and the first product's leaves.
std::string FieldOf(Role role);

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
