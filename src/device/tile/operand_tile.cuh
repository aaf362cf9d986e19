// OperandTile: how an operand of mma.sync lies in shared memory. All constexpr, the same text on
// host and device.
#pragma once
#include "tile/layout.cuh"

namespace sinter {

// kCount rows, or columns of weights, and kSlices * 128 bytes of K. kAlongK: in memory K is
// contiguous; else the columns are, and a line is one K of all columns. A slice, one after another,
// has boxes of lines of kSpan bytes, whose chunks of 16 bytes are turned: eight lines from a
// multiple of 8 have a chunk of one number in all banks.
template <class Element, int kCount, int kSlices, bool kAlongK>
struct OperandTile {
  static constexpr int kSliceK = Element::kSwizzleSpan, kColumnBytes = kCount * Element::kBytes;
  static constexpr int kSpan = kAlongK || kColumnBytes > kRowBytes ? kRowBytes : kColumnBytes;
  static constexpr int kBoxLines = kAlongK ? kCount : kSliceK, kBoxChunks = kSpan / kVectorBytes;
  static constexpr int kBoxBytes = kBoxLines * kSpan;
  static constexpr int kSliceBytes = kCount * kRowBytes;
  // As memory has them.
  static constexpr int kLines = kAlongK ? kCount : kSlices * kSliceK;
  static constexpr int kChunks = (kAlongK ? kSlices * kRowBytes : kColumnBytes) / kVectorBytes;

  // The byte of a chunk of a box.
  static SINTER_SHARED_CONSTEXPR int in_box(int line, int chunk) {
    return line * kSpan + (chunk ^ turn(line)) * kVectorBytes;
  }
  static SINTER_SHARED_CONSTEXPR int turn(int line) {
    return line * kSpan / kRowBytes % kBoxChunks;
  }
  // The byte of chunk `chunk` of line `line` of memory, in the operand's part of a stage.
  static SINTER_SHARED_CONSTEXPR int place(int line, int chunk) {
    const int box = chunk / kBoxChunks, in = chunk % kBoxChunks;
    return kAlongK ? box * kSliceBytes + in_box(line, in)
                   : line / kSliceK * kSliceBytes + box * kBoxBytes + in_box(line % kSliceK, in);
  }

  // Where a lane reads fragments (load_matrices): two matrices of eight rows or columns from
  // `first`, a multiple of 16, each of both halves of 32 bytes of K.
  struct Lane {
    int base, chunk;

    // Of 16 further rows or columns `pair` times, and 32 bytes of K `step` times in the slice.
    SINTER_SHARED_CONSTEXPR int at(int pair, int step) const {
      return kAlongK ? base + pair * 16 * kSpan + (chunk ^ step * 32)
                     : base + step * 16 * kSpan + (chunk ^ pair * 32);
    }
  };
  // kRows: matrices are rows 0 to 7 and 8 to 15 of the first half of K, then of the second half;
  // else both halves of columns 0 to 7, then of 8 to 15.
  template <bool kRows>
  static SINTER_SHARED_CONSTEXPR Lane lane_of(int slice, int first, int lane) {
    const int low = lane % 16, high = lane / 16;
    if constexpr (kAlongK) {
      const int line = kRows ? low : high * 8 + lane % 8, half = kRows ? high : low / 8;
      return {slice * kSliceBytes + (first + line) * kSpan, (half ^ turn(line)) * kVectorBytes};
    } else {
      const int chunk = first * Element::kBytes / kVectorBytes;
      return {slice * kSliceBytes + chunk / kBoxChunks * kBoxBytes + low * kSpan,
              ((chunk % kBoxChunks + high) ^ turn(low)) * kVectorBytes};
    }
  }
};

}  // namespace sinter
