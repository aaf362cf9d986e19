// Operands of products of rows with the matrices that ids name, and the way from their sums to
// stored results, which all forms of these products share.
#pragma once
#include "kernels/grouped_routing.cuh"
#include "kernels/grouped_scales.cuh"
#include "ptx/element.cuh"
#include "ptx/sync.cuh"
#include "tile/activation.cuh"
#include "tile/code_scale.cuh"
#include "tile/layout.cuh"

namespace sinter {

// What codegen writes of a kernel as Config:
//   Rows, Weights, Result, Factor, Bias   element types
//   Activation                        of the gate; Identity
//   kProgram, Program                 whether its apply(gate, up) stands for both
//   kExperts, kSlots, kN, kK          kN: columns of the result; kSlots: ids of a row
//   kGate                             0: no pair; of a pair W has 2 kN columns: halves, 1 gate
//                                     first, 2 up; or in turns, 3 gate first, 4 up
//   kBias                             whether each column of each expert has a bias
//   kFactor                           whether results are multiplied by a number of each slot,
//   kFactorOnSums                     of a pair: before gate and up meet
//   kByEnds                           whether ids are where groups end; kSlots is 1
//   kInputMajor                       W is [experts, k, n]
//   kMapped                           W's columns come by a tensor map that permutes each 32
//   kEarly                            W and ids were complete before the kernel before this one
//                                     let it begin: they are read at once
//   kCodes                            whether results are quantised, with a scale of each 128
//                                     columns: 1, or 2 a power of two; kCodeEps, kCodeBound
//   kBlockM, kBlockN, kStages
//   what grouped_scales.cuh says of scales
//   and, in elements: kRowStride, kRowSlotStride (0: slots share a row), kIdStride, kIdSlotStride,
//   kExpertStride, kWeightStride (of W's second dim), kBiasStride (of experts), kFactorStride,
//   kFactorSlotStride, kOutStride, kOutSlotStride
template <class Config>
struct GroupedOperands {
  const typename Config::Rows::Stored* rows;
  const typename Config::Weights::Stored* weights;  // null where they are mapped
  const int* ids;
  const typename Config::Bias::Stored* biases;
  const typename Config::Factor::Stored* factors;
  typename Config::Result::Stored* out;
  const TensorMap* map;  // of the weights where they are mapped
  int first_row = 0;     // by ends: of this launch, among the rows that they count
  const float *row_scales = nullptr, *weight_scales = nullptr;
  float* code_scales = nullptr;  // [slot, kN / 128]
};

// Where gate and up lie among W's columns.
template <class Config>
struct GroupedColumns {
  static constexpr bool kPair = Config::kGate != 0;
  static constexpr bool kHalves = Config::kGate == 1 || Config::kGate == 2;
  static constexpr bool kInTurns = Config::kGate > 2;
  static constexpr int kAll = kPair ? 2 * Config::kN : Config::kN;
  static constexpr int kStep = kInTurns ? 2 : 1;  // of W's columns, from one of the result on
  static constexpr int kGateAt = Config::kGate == 2 ? Config::kN : Config::kGate == 4 ? 1 : 0;
  static constexpr int kUpAt = Config::kGate == 1 ? Config::kN : Config::kGate == 3 ? 1 : 0;
};

// The bias of the result's column `column`; 0 where the group has no expert.
template <class Config>
SINTER_DEVICE float bias_at(const GroupedOperands<Config>& o, int group, int column, int of_pair) {
  if constexpr (!Config::kBias) return 0;
  if (group == Config::kExperts) return 0;
  return Config::Bias::unpack(
      o.biases[group * Config::kBiasStride + column * GroupedColumns<Config>::kStep + of_pair]);
}

// A sum of the result's column `column` with its scales of all of K and its bias. `row`: the scale
// of its row. What is not `inside` of the matrix is not stored.
template <class Config>
SINTER_DEVICE float whole_sum(const GroupedOperands<Config>& o, float sum, float row, int group,
                              int column, int of_pair, bool inside = true) {
  if constexpr (Config::kRowScales == 1 || Config::kWeightScales == 1) {
    if (group == Config::kExperts) return 0;  // zeros, also where a row's scale is NaN
    const int at = inside ? column * GroupedColumns<Config>::kStep + of_pair : 0;
    sum *= row * column_scale<Config>(o.weight_scales, group, at);
  }
  return sum + (inside ? bias_at(o, group, column, of_pair) : 0);
}

// Element offset of a slot where rows are `row_stride` and slots of a row `slot_stride` apart.
template <class Config>
SINTER_DEVICE long long slot_offset(int slot, long long row_stride, long long slot_stride) {
  if (row_stride == Config::kSlots * slot_stride) return slot * slot_stride;
  return slot / Config::kSlots * row_stride + slot % Config::kSlots * slot_stride;
}

// From sums to stored results.
template <class Config>
struct GroupedEnd {
  using Result = typename Config::Result;
  const GroupedOperands<Config>& operands;
  int slot;
  float factor;
  long long at;

  SINTER_DEVICE GroupedEnd(const GroupedOperands<Config>& o, int s)
      : GroupedEnd(o, s, factor_of(o, s)) {}
  SINTER_DEVICE GroupedEnd(const GroupedOperands<Config>& o, int s, float f)
      : operands(o), slot(s), factor(f) {
    at = slot_offset<Config>(slot, Config::kOutStride, Config::kOutSlotStride);
  }

  static SINTER_DEVICE float factor_of(const GroupedOperands<Config>& o, int slot) {
    if constexpr (!Config::kFactor) return 1;
    return Config::Factor::unpack(
        o.factors[slot_offset<Config>(slot, Config::kFactorStride, Config::kFactorSlotStride)]);
  }

  SINTER_DEVICE float result(float sum, float up) const {
    float x;
    if constexpr (Config::kFactorOnSums) {
      sum *= factor;
      up *= factor;
    }
    if constexpr (Config::kProgram) {
      x = Config::Program::apply(sum, up);
    } else {
      x = Config::Activation::apply(sum);
      if constexpr (Config::kGate != 0) x *= up;
    }
    if constexpr (Config::kFactor && !Config::kFactorOnSums) x *= factor;
    return x;
  }

  SINTER_DEVICE void store_one(int column, float x) const {
    if constexpr (Result::kBytes == 4) {
      operands.out[at + column] = x;
    } else {
      operands.out[at + column] = static_cast<typename Result::Stored>(Result::pack(x, 0.0f));
    }
  }

  // Two neighbouring columns from an even one on, of which there are both or none.
  SINTER_DEVICE void store(int column, float x, float next) const {
    if constexpr (Config::kOutStride % 2 != 0 || Config::kOutSlotStride % 2 != 0) {
      store_one(column, x);
      store_one(column + 1, next);
    } else {
      *reinterpret_cast<typename Result::Pair*>(operands.out + at + column) = Result::pack(x, next);
    }
  }

  // As vectors, of 16 bits or 8 an element.
  template <int kColumns>
  SINTER_DEVICE void store_pairs(int column, const float (&x)[kColumns]) const {
    u32 words[kColumns * Result::kBytes / 4];
    if constexpr (Result::kBytes == 2) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) words[i] = Result::pack(x[2 * i], x[2 * i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < kColumns / 4; ++i) {
        words[i] = Result::pack(x[4 * i], x[4 * i + 1]) |
                   static_cast<u32>(Result::pack(x[4 * i + 2], x[4 * i + 3])) << 16;
      }
    }
    u32* const to = reinterpret_cast<u32*>(operands.out + at + column);
    if constexpr (sizeof(words) == 16) {
      *reinterpret_cast<Word4*>(to) = {words[0], words[1], words[2], words[3]};
    } else if constexpr (sizeof(words) == 8) {
      *reinterpret_cast<u64*>(to) = static_cast<u64>(words[1]) << 32 | words[0];
    } else {
      *to = words[0];
    }
  }

  // Four neighbouring columns from a multiple of 4 on.
  SINTER_DEVICE void store(int column, const float (&x)[4]) const {
    constexpr bool kVectors = Result::kBytes == 1 && Config::kN % 4 == 0 &&
                              Config::kOutStride % 4 == 0 && Config::kOutSlotStride % 4 == 0;
    if constexpr (kVectors) {
      if (column < Config::kN) store_pairs<4>(column, x);
    } else if constexpr (Config::kN % 2 == 0) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        if (column + i < Config::kN) store(column + i, x[i], x[i + 1]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (column + i < Config::kN) store_one(column + i, x[i]);
      }
    }
  }

  // The scale of the group of 128 columns with `column`, which one thread stores, and the codes'.
  static SINTER_DEVICE CodeScale scale_of(u32 largest) {
    return code_scale<Config::kCodes == 2>(largest, Config::kCodeEps, Config::kCodeBound);
  }
  SINTER_DEVICE void store_scale(int column, float scale) const {
    operands.code_scales[static_cast<long long>(slot) * (Config::kN / 128) + column / 128] = scale;
  }

  // Eight neighbouring columns from a multiple of 8 on.
  SINTER_DEVICE void store(int column, const float (&x)[8]) const {
    constexpr bool kVectors =
        Config::kN % 8 == 0 && Config::kOutStride % 8 == 0 && Config::kOutSlotStride % 8 == 0;
    if constexpr (!kVectors) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (column + i < Config::kN) store_one(column + i, x[i]);
      }
    } else {
      if (column >= Config::kN) return;
      if constexpr (Result::kBytes == 4) {
        Float4* to = reinterpret_cast<Float4*>(operands.out + at + column);
        to[0] = {x[0], x[1], x[2], x[3]};
        to[1] = {x[4], x[5], x[6], x[7]};
      } else {
        store_pairs<8>(column, x);
      }
    }
  }
};

}  // namespace sinter
