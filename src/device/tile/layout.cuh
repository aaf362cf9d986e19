// Address maps of tiles: where TMA writes an element, where wgmma reads it, which thread holds it
// in its accumulators. All are constexpr, the same text on host and device, and a host test shows
// that writers and readers agree.
//
// A subtile is 128 bytes of the contiguous dimension of a tile, Element::kSwizzleSpan elements. Its
// rows are 128 bytes apart and swizzled: the index of a 16-byte chunk is XORed with the row index
// modulo 8 (the 128-byte swizzle of TMA and wgmma).
#pragma once
#include "ptx/element_sizes.cuh"

#ifdef __CUDACC__
#define SINTER_SHARED_CONSTEXPR __host__ __device__ constexpr
#else
#define SINTER_SHARED_CONSTEXPR constexpr
#endif

namespace sinter {

constexpr int kWarpgroupRows = 64;  // rows of one wgmma

SINTER_SHARED_CONSTEXPR int ceil_div(int a, int b) { return (a + b - 1) / b; }
SINTER_SHARED_CONSTEXPR int round_up(int a, int b) { return ceil_div(a, b) * b; }

// Byte of element (row, column) in a tile of `rows` rows whose subtiles follow one another.
template <class Element>
SINTER_SHARED_CONSTEXPR int swizzled_offset(int rows, int row, int column) {
  const int chunk = (column % Element::kSwizzleSpan) / Element::kVector;
  const int within = (column % Element::kVector) * Element::kBytes;
  return (column / Element::kSwizzleSpan) * rows * kRowBytes + row * kRowBytes +
         (chunk ^ (row % 8)) * kVectorBytes + within;
}

// wgmma shared-memory descriptor: bits 0-13 address, 16-29 leading offset, 32-45 stride offset (all
// / 16), 62-63 swizzle.
SINTER_SHARED_CONSTEXPR unsigned long long descriptor(unsigned address, unsigned leading_bytes,
                                                      unsigned stride_bytes) {
  return static_cast<unsigned long long>((address & 0x3FFFF) >> 4) |
         (static_cast<unsigned long long>(leading_bytes >> 4) << 16) |
         (static_cast<unsigned long long>(stride_bytes >> 4) << 32) | (1ull << 62);
}

// K-major operand (A, and weights of layout oi): tile rows are M or N, the contiguous dimension is
// K. Byte offset of K step `step` for the rows that begin at `row` (a multiple of 8) of a tile of
// `rows` rows.
SINTER_SHARED_CONSTEXPR int k_major_step(int rows, int row, int step) {
  return (step * kStepBytes / kRowBytes) * rows * kRowBytes + row * kRowBytes +
         step * kStepBytes % kRowBytes;
}
constexpr unsigned kKMajorLeading = kVectorBytes, kKMajorStride = 8 * kRowBytes;

// N-major weights (layout io), and rows that are transposed: the contiguous dimension is N or M,
// tile rows are K, `block_k` of them to a subtile. wgmma takes such operands of 16-bit types only.
template <class Element>
SINTER_SHARED_CONSTEXPR int n_major_step(int block_k, int column, int step) {
  return (column / Element::kSwizzleSpan) * block_k * kRowBytes +
         step * Element::kWgmmaK * kRowBytes;
}
SINTER_SHARED_CONSTEXPR unsigned n_major_leading(int block_k) {
  return static_cast<unsigned>(block_k * kRowBytes);
}
constexpr unsigned kNMajorStride = 8 * kRowBytes;

// Accumulator of m64nN: thread t (0..127) holds, for column group g (8 columns), d[4g], d[4g+1] at
// (row, column), (row, column + 1) and d[4g+2], d[4g+3] eight rows below.
SINTER_SHARED_CONSTEXPR int accumulator_row(int thread) {
  return 16 * (thread / 32) + (thread % 32) / 4;
}
SINTER_SHARED_CONSTEXPR int accumulator_column(int thread, int group) {
  return 8 * group + 2 * (thread % 4);
}

// The column of the pair that a thread has of column group `group`, where weights lie permuted in
// shared memory: of each 32 rows of K-major weights, row 8 g + 2 q + i is row 8 q + 2 g + i of the
// matrix. So what a thread has of four groups is eight neighbouring columns, which it loads and
// stores without an exchange among lanes.
constexpr int kPermutedSet = 32;
SINTER_SHARED_CONSTEXPR int permuted_column(int thread, int group) {
  return group / 4 * kPermutedSet + 8 * (thread % 4) + 2 * (group % 4);
}

// f32 parts that `sources` ranks send to the owner of a row: [source][column group][row of owner][8
// columns].
SINTER_SHARED_CONSTEXPR int part_offset(int source, int groups, int group, int owner_rows, int row,
                                        int column) {
  return (((source * groups + group) * owner_rows + row) * 8 + column) * 4;
}

// The same with swapped operands, where a thread's accumulators are pairs of rows of one column:
// [source][pair of rows][column][2 rows].
SINTER_SHARED_CONSTEXPR int pair_part_offset(int source, int pairs, int pair, int columns,
                                             int column) {
  return ((source * pairs + pair) * columns + column) * 8;
}

}  // namespace sinter
