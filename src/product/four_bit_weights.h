// FourBitWeights: how weights of four bits lie in memory, and how they become elements of 16 bits.
#ifndef SINTER_SRC_PRODUCT_FOUR_BIT_WEIGHTS_H_
#define SINTER_SRC_PRODUCT_FOUR_BIT_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"

namespace sinter {

// The number that is subtracted from a code of u4. Numbers are part of a kernel's key.
enum class FourBitZero : uint8_t {
  kConstant = 0,  // a number that the chain says; 0 for codes of e2m1, which have none
  kNumber = 1,    // one number in memory
  kGroups = 2,    // a number of each group
};

// How the weights lie: bytes [n, k / 2], each with two neighbours of K, and scales [n, k / group].
// Packed ones lie as lanes of mma.sync read them (AddDequantizeU4Packed): bytes [k / 16, 8 n],
// scales [k / group, n].
struct FourBitWeights {
  bool e2m1 = false;  // else u4
  bool packed = false;
  int64_t group = 0;  // neighbours of K that share a scale; 0: weights are elements
  DType scale = DType::kBF16, zero_type = DType::kBF16;
  FourBitZero zero = FourBitZero::kConstant;
  double zero_value = 0;  // of kConstant
  // Elements between columns; of packed weights between rows, of 16 of K and of a group.
  int64_t byte_stride = 0, scale_stride = 0, zero_stride = 0;
  // Elements between the matrices of experts.
  int64_t byte_expert = 0, scale_expert = 0, zero_expert = 0;
  bool constant = false;  // the caller promises that they do not change between launches
  SINTER_FIELDS(FourBitWeights, e2m1, packed, group, scale, zero_type, zero, zero_value,
                byte_stride, scale_stride, zero_stride, byte_expert, scale_expert, zero_expert,
                constant);

  bool HasZeros() const { return zero != FourBitZero::kConstant; }
  // Neighbours of K that share a zero; all `k` of one number.
  int64_t ZeroGroup(int64_t k) const { return zero == FourBitZero::kGroups ? group : k; }
  // Bytes of the codes, scales and zeros of a column of `k`.
  int64_t ColumnBytes(int64_t k) const;
  // " codes=u4 group=128 scale=bf16 zero=8", " packed" first if they are
  std::string ToString() const;
};

// How codes become `element`: FourBitForm of src/device/tile/four_bits.cuh.
int FormOf(const FourBitWeights& w, DType element);

// Whether they become elements in f32, because scales or zeros have another dtype than elements.
bool IsWide(const FourBitWeights& w, DType element);

// Instructions of a thread that unpack eight codes.
int UnpackInstructions(const FourBitWeights& w, DType element);

// OK, or why no kernel unpacks `n` columns of `k`, naming field, value and bound.
absl::Status CheckFourBitWeights(const FourBitWeights& w, int64_t n, int64_t k);

// The members of a kernel's Config that say how weights are unpacked (tile/four_bits.cuh).
std::string ConfigText(const FourBitWeights& w, DType element, int64_t k);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_FOUR_BIT_WEIGHTS_H_
