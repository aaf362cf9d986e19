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
//   Rows, Weights, Result             element types
//   Program                           what becomes of a sum, or of both sums of a pair
//   kExperts, kSlots, kN, kK          kN: columns of the result; kSlots: ids of a row
//   kPair                             0: none; of a pair W has 2 kN columns: 1 the first half and
//                                     then the second, 2 columns of both in turns
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
//   kExpertStride, kWeightStride (of W's second dim), kOutStride, kOutSlotStride
//
// A Program has
//   Leaves                            the addresses of what it reads
//   Terms, terms<Config>(leaves, group, column)   what it reads of a column of the result
//   Row, Matrix                       LeafAt of a number of each slot, and of an element of each
//                                     result, or NoLeaf; row_of(leaves), element_of(leaves)
//   apply(y, up, terms, row, element)
template <class Config>
struct GroupedOperands {
  const typename Config::Rows::Stored* rows;
  const typename Config::Weights::Stored* weights;  // null where they are mapped
  const int* ids;
  typename Config::Program::Leaves leaves;
  typename Config::Result::Stored* out;
  const TensorMap* map;  // of the weights where they are mapped
  int first_row = 0;     // by ends: of this launch, among the rows that they count
  const float *row_scales = nullptr, *weight_scales = nullptr;
  float* code_scales = nullptr;  // [slot, kN / 128]
};

// Where W has the columns of both halves of a pair: the columns of y, and the columns of up.
template <class Config>
struct GroupedColumns {
  static constexpr bool kPair = Config::kPair != 0;
  static constexpr bool kHalves = Config::kPair == 1, kInTurns = Config::kPair == 2;
  static constexpr int kAll = kPair ? 2 * Config::kN : Config::kN;
  static constexpr int kStep = kInTurns ? 2 : 1;  // of W's columns, from one of the result on
  static constexpr int kUpAt = kHalves ? Config::kN : kInTurns ? 1 : 0;
};

// A sum of the result's column `column` with its scales of all of K. `row`: the scale of its row.
// A column that is not `inside` the matrix is not stored.
template <class Config>
SINTER_DEVICE float whole_sum(const GroupedOperands<Config>& o, float sum, float row, int group,
                              int column, int of_pair, bool inside = true) {
  if constexpr (Config::kRowScales == 1 || Config::kWeightScales == 1) {
    if (group == Config::kExperts) return 0;  // zeros, also where a row's scale is NaN
    const int at = inside ? column * GroupedColumns<Config>::kStep + of_pair : 0;
    sum *= row * column_scale<Config>(o.weight_scales, group, at);
  }
  return sum;
}

// Element offset of a slot where rows are `row_stride` and slots of a row `slot_stride` apart.
template <class Config>
SINTER_DEVICE long long slot_offset(int slot, long long row_stride, long long slot_stride) {
  if (row_stride == Config::kSlots * slot_stride) return slot * slot_stride;
  return slot / Config::kSlots * row_stride + slot % Config::kSlots * slot_stride;
}

// An operand of a program, of which it has no number.
struct NoLeaf {
  static constexpr bool kPresent = false;
};

// What a program reads of an operand, at an element that is the sum of the strides times the row,
// its slot, its expert and the result's column, and of kOffset.
template <class Element, long long kRow, long long kSlot, long long kExpert, long long kColumn,
          long long kOffset>
struct LeafAt {
  using Stored = typename Element::Stored;
  static constexpr bool kPresent = true;

  // Zero of a column of an expert where the group has no expert.
  template <class Config>
  static SINTER_DEVICE float of_column(const Stored* from, int group, int column) {
    if (kExpert != 0 && group == Config::kExperts) return 0;
    return Element::unpack(from[group * kExpert + column * kColumn + kOffset]);
  }
  template <class Config>
  static SINTER_DEVICE float of_slot(const Stored* from, int slot) {
    return Element::unpack(from[slot_offset<Config>(slot, kRow, kSlot)]);
  }
  // Reads kCount neighbouring columns from a multiple of kCount on. It gives zeros past the last
  // column, where it reads nothing.
  template <class Config, int kCount>
  static SINTER_DEVICE void of_columns(const Stored* from, int slot, int column,
                                       float (&x)[kCount]) {
    constexpr int kBytes = kCount * Element::kBytes;
    constexpr bool kVectors = kColumn == 1 && kCount % 2 == 0 && Config::kN % kCount == 0 &&
                              kRow % kCount == 0 && kSlot % kCount == 0 && kOffset % kCount == 0;
    const Stored* const at =
        from + slot_offset<Config>(slot, kRow, kSlot) + column * kColumn + kOffset;
#pragma unroll
    for (float& value : x) value = 0;
    if constexpr (kVectors) {
      if (column >= Config::kN) return;
      using Pair = typename Element::Pair;
      union {
        Word4 words[kBytes < 16 ? 1 : kBytes / 16];
        u64 two;
        Pair pairs[kBytes < 16 ? 16 / sizeof(Pair) : kCount / 2];
      } loaded;
      if constexpr (kBytes >= 16) {
#pragma unroll
        for (int i = 0; i < kBytes / 16; ++i) {
          loaded.words[i] = reinterpret_cast<const Word4*>(at)[i];
        }
      } else if constexpr (kBytes == 8) {
        loaded.two = *reinterpret_cast<const u64*>(at);
      } else {
        loaded.pairs[0] = *reinterpret_cast<const Pair*>(at);
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[i] = i % 2 == 0 ? Element::low(loaded.pairs[i / 2]) : Element::high(loaded.pairs[i / 2]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (column + i < Config::kN) x[i] = Element::unpack(at[i * kColumn]);
      }
    }
  }
};

// From sums to stored results.
template <class Config>
struct GroupedEnd {
  using Result = typename Config::Result;
  using Program = typename Config::Program;
  using Terms = typename Program::Terms;
  const GroupedOperands<Config>& operands;
  int slot;
  float row;  // the program's number of the slot
  long long at;

  SINTER_DEVICE GroupedEnd(const GroupedOperands<Config>& o, int s)
      : GroupedEnd(o, s, row_of(o, s)) {}
  SINTER_DEVICE GroupedEnd(const GroupedOperands<Config>& o, int s, float r)
      : operands(o), slot(s), row(r) {
    at = slot_offset<Config>(slot, Config::kOutStride, Config::kOutSlotStride);
  }

  static SINTER_DEVICE float row_of(const GroupedOperands<Config>& o, int slot) {
    if constexpr (!Program::Row::kPresent)
      return 1;
    else
      return Program::Row::template of_slot<Config>(Program::row_of(o.leaves), slot);
  }
  static SINTER_DEVICE Terms terms(const GroupedOperands<Config>& o, int group, int column) {
    return Program::template terms<Config>(o.leaves, group, column);
  }
  // Reads the program's matrix at neighbouring columns, from a multiple of their number on.
  template <int kCount>
  SINTER_DEVICE void elements(int column, float (&x)[kCount]) const {
    if constexpr (Program::Matrix::kPresent) {
      Program::Matrix::template of_columns<Config>(Program::element_of(operands.leaves), slot,
                                                   column, x);
    } else {
#pragma unroll
      for (float& value : x) value = 0;
    }
  }
  // The same for a thread that has one column.
  SINTER_DEVICE float result_of(float y, float up, int group, int column) const {
    float element[1];
    elements(column, element);
    return result(y, up, terms(operands, group, column), element[0]);
  }
  SINTER_DEVICE float result(float y, float up, const Terms& terms, float element) const {
    return Program::apply(y, up, terms, row, element);
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
