// A cluster's shared memory and the asynchronous instructions, on the host: enough to run the
// device library's own text, one thread after the other. Barriers do not block; they count bytes,
// so that a test can compare what was expected with what arrived.
#pragma once

#include "tests/unit/device/hardware.h"
#include "tests/unit/device/races.h"

namespace sinter {
namespace hardware {

// A row-major matrix in global memory, and the box that a tensor map takes. Elements have 16 bits,
// or 8 in shared memory.
struct Matrix {
  int rows = 0, columns = 0, box_rows = 0;
  int bytes = 2;  // of an element
  std::vector<uint16_t> data;
  uint16_t At(int row, int column) const {
    if (row < 0 || row >= rows || column < 0 || column >= columns) return 0;  // TMA fills with zero
    return data[static_cast<size_t>(row) * static_cast<size_t>(columns) +
                static_cast<size_t>(column)];
  }
};

// A row-major array of 16-bit elements in global memory, and the box that its map takes. Pairs and
// triples begin with the contiguous dimension. A box has 64 elements along it.
struct Taps {
  int extents[3] = {0, 0, 0}, box[3] = {kBoxColumns, 1, 1};
  std::vector<uint16_t> data;
  uint16_t At(int x, int y, int z) const {
    const int at[3] = {x, y, z};
    for (int i = 0; i < 3; ++i)
      if (at[i] < 0 || at[i] >= extents[i]) return 0;
    return data[static_cast<size_t>((z * extents[1] + y) * extents[0] + x)];
  }
};

// Images of 16-bit elements in global memory, [image][y][x][channel], and the im2col map that takes
// `box_pixels` of them at a load. Pairs are width, height, as the encoder takes them.
struct Images {
  int count = 0, height = 0, width = 0, channels = 0;
  int lower[2] = {0, 0}, upper[2] = {0, 0}, strides[2] = {1, 1};
  int box_pixels = 0;
  std::vector<uint16_t> data;
  int First(int axis) const { return lower[axis]; }  // first and last place of a first tap
  int Last(int axis) const { return (axis == 0 ? width : height) - 1 + upper[axis]; }
  uint16_t At(int image, int y, int x, int channel) const {
    const bool outside = image < 0 || image >= count || y < 0 || y >= height || x < 0 ||
                         x >= width || channel < 0 || channel >= channels;
    if (outside) return 0;
    return data[static_cast<size_t>(((image * height + y) * width + x) * channels + channel)];
  }
};

struct Bytes {
  int64_t expected = 0, arrived = 0;
};

// Addresses: bits 0-17 are the shared window of a block, bits 24 and up its rank plus one; an
// address without a rank is of the current block.
class Machine {
 public:
  static constexpr int kRankShift = 24;

  void Reset(int ranks) {
    memory_.assign(static_cast<size_t>(ranks), std::vector<uint8_t>(kWindow, 0x7F));
    barriers_.clear();
    rank = 0;
    count_bytes = true;
  }
  int rank = 0;
  bool count_bytes = true;  // false while a warp is run again for its shuffles
  Races* races = nullptr;   // looks for them in words and named barriers; null: nobody does

  uint8_t* At(uint32_t address, uint32_t bytes) {
    const uint32_t block = address >> kRankShift, offset = address & (kWindow - 1);
    if ((address & ((1u << kRankShift) - 1)) + bytes > kWindow || offset % bytes != 0)
      Fail("bad shared address", address);
    return memory_.at(block == 0 ? static_cast<size_t>(rank) : block - 1).data() + offset;
  }
  template <class T>
  T Load(uint32_t address) {
    T value;
    std::memcpy(&value, At(address, sizeof(T)), sizeof(T));
    return value;
  }
  template <class T>
  void Store(uint32_t address, T value) {
    std::memcpy(At(address, sizeof(T)), &value, sizeof(T));
  }
  uint32_t Map(uint32_t address, uint32_t peer) const {
    return (address & (kWindow - 1)) | (peer + 1) << kRankShift;
  }

  void Expect(uint32_t barrier, int64_t bytes) { Barrier(barrier).expected += bytes; }
  void Arrive(uint32_t barrier, int64_t bytes) {
    if (count_bytes) Barrier(barrier).arrived += bytes;
  }
  Bytes& Barrier(uint32_t address) {
    if (address >> kRankShift == 0) address = Map(address, static_cast<uint32_t>(rank));
    return barriers_[address];
  }
  const std::map<uint32_t, Bytes>& barriers() const { return barriers_; }

  // kPermuted: the map has dimensions of 2, 4 and 4 rows, 1, 8 and 2 rows apart, and sets of 32.
  template <bool kPermuted = false>
  void LoadBox(uint32_t destination, const Matrix& matrix, int x, int first, uint32_t barrier) {
    if (destination % 1024 != 0) Fail("a swizzled box begins on 1024 bytes", destination);
    for (int r = 0; r < matrix.box_rows; ++r) {
      const int set = r / 32 * 32, of_set = r % 2 + 8 * (r / 2 % 4) + 2 * (r / 8 % 4);
      const int y = first - r + (kPermuted ? set + of_set : r);
      for (int c = 0; c < kBoxBytes / matrix.bytes; ++c) {
        const uint32_t at = TmaAddress(destination, r, c, matrix.bytes);
        const uint16_t element = matrix.At(y + r, x + c);
        if (matrix.bytes == 2)
          Store<uint16_t>(at, element);
        else
          Store<uint8_t>(at, static_cast<uint8_t>(element));
      }
    }
    Arrive(barrier, int64_t{kBoxBytes} * matrix.box_rows);
  }

  void LoadTaps(uint32_t destination, const Taps& taps, int x, int y, int z, uint32_t barrier) {
    if (destination % 1024 != 0) Fail("a swizzled box begins on 1024 bytes", destination);
    for (int r = 0; r < taps.box[1] * taps.box[2]; ++r) {
      for (int c = 0; c < kBoxColumns; ++c)
        Store<uint16_t>(TmaAddress(destination, r, c),
                        taps.At(x + c, y + r % taps.box[1], z + r / taps.box[1]));
    }
    Arrive(barrier, int64_t{2} * kBoxColumns * taps.box[1] * taps.box[2]);
  }

  // A load in im2col mode, as docs/lab/im2col.md saw it on the device. It loads the pixels at
  // distance `tap` from those of a walk over first taps, along x, then y, then images.
  void LoadPixels(uint32_t destination, const Images& map, int channel, int x, int y, int image,
                  const int (&tap)[2], uint32_t barrier) {
    if (destination % 1024 != 0) Fail("a swizzled box begins on 1024 bytes", destination);
    if (x < map.First(0) || x > map.Last(0) || y < map.First(1) || y > map.Last(1))
      Fail("illegal instruction: the first pixel lies outside the box", destination);
    if (tap[0] > kMostTap || tap[1] > kMostTap) Fail("offsets have 8 bits", destination);
    for (int r = 0; r < map.box_pixels; ++r) {
      for (int c = 0; c < kBoxColumns; ++c)
        Store<uint16_t>(TmaAddress(destination, r, c),
                        map.At(image, y + tap[1], x + tap[0], channel + c));
      if ((x += map.strides[0]) <= map.Last(0)) continue;
      x = map.First(0);
      if ((y += map.strides[1]) <= map.Last(1)) continue;
      y = map.First(1), ++image;
    }
    Arrive(barrier, int64_t{2} * kBoxColumns * map.box_pixels);
  }

  // Thread `thread`'s part of d (+)= A B, of elements of kBytes.
  template <int kBytes, class Sum, int kRegisters>
  void Multiply(Sum (&d)[kRegisters], uint64_t a_bits, uint64_t b_bits, bool a_k_major,
                bool b_k_major, bool accumulate, int thread) {
    const Descriptor a = Decode(a_bits), b = Decode(b_bits);
    if (!Is128ByteSwizzle(a) || !Is128ByteSwizzle(b)) Fail("bad descriptor", a.start);
    for (int i = 0; i < kRegisters; ++i) {
      const Place place = AccumulatorPlace(thread, i);
      Sum sum = accumulate ? d[i] : 0;
      for (int k = 0; k < 32 / kBytes; ++k) {
        sum +=
            static_cast<Sum>(Number<kBytes>(FetchAddress(a, a_k_major, place.row, k, kBytes)) *
                             Number<kBytes>(FetchAddress(b, b_k_major, place.column, k, kBytes)));
      }
      d[i] = sum;
    }
  }

  // The same where A lies in registers: `a` has four words of each of the four threads of a quad.
  template <int kRegisters>
  void Multiply(float (&d)[kRegisters], const uint32_t (&a)[4][4], uint64_t b_bits, bool b_k_major,
                bool accumulate, int thread) {
    const Descriptor b = Decode(b_bits);
    if (!Is128ByteSwizzle(b)) Fail("bad descriptor", b.start);
    for (int i = 0; i < kRegisters; ++i) {
      float sum = accumulate ? d[i] : 0;
      for (int k = 0; k < 16; ++k) {
        const uint32_t word = a[k % 8 / 2][k / 8 * 2 + (i % 4 >= 2 ? 1 : 0)];
        const auto element = static_cast<int16_t>(word >> (k % 2 * 16));
        sum += static_cast<float>(element) *
               Number<2>(FetchAddress(b, b_k_major, AccumulatorPlace(thread, i).column, k));
      }
      d[i] = sum;
    }
  }

  // A word's exchange within a warp. Lanes run one after the other, so a warp is run until no lane
  // reads anything new: one run for each shuffle that depends on another, and the first.
  uint32_t Shuffle(int lane, uint32_t value, int from) {
    const auto index = next_[lane]++;
    Words &mine = words_[lane], &other = words_[from];
    if (mine.size() <= index) mine.resize(index + 1);
    if (mine[index] != value) changed_ = true;
    mine[index] = value;
    return index < other.size() ? other[index] : 0;
  }
  template <class F>
  void RunWarp(F&& lane) {
    for (Words& words : words_) words.clear();
    count_bytes = false;
    do {
      RunLanes(lane);
    } while (changed_);
    count_bytes = true;
    RunLanes(lane);
  }

  [[noreturn]] static void Fail(const char* what, uint32_t address) {
    throw std::runtime_error(std::string(what) + ": " + std::to_string(address));
  }

 private:
  using Words = std::vector<uint32_t>;

  // Elements are small integers, so that sums are exact in any order.
  template <int kBytes>
  float Number(uint32_t address) {
    return kBytes == 2 ? Load<int16_t>(address) : Load<int8_t>(address);
  }

  template <class F>
  void RunLanes(F&& lane) {
    changed_ = false;
    for (int i = 0; i < 32; ++i) {
      next_[i] = 0;
      lane(i);
    }
  }

  std::vector<std::vector<uint8_t>> memory_;  // of each rank
  std::map<uint32_t, Bytes> barriers_;
  Words words_[32];
  size_t next_[32] = {};
  bool changed_ = false;
};

inline thread_local Machine machine;

}  // namespace hardware
}  // namespace sinter
