// What ptx/mma.cuh promises, by lanes that read one another's words.
#pragma once
#include "ptx/element.cuh"

namespace sinter {

struct Word4 {
  u32 x, y, z, w;
};
inline void store_shared(u32 address, float x, float y) {
  std::memcpy(host_block.At(address, 8), &x, 4);
  std::memcpy(host_block.At(address + 4, 4), &y, 4);
}
inline Word4 load_shared_words(u32 address) {
  Word4 words;
  std::memcpy(&words, host_block.At(address, 16), sizeof words);
  return words;
}

inline void copy_async(u32 to, const void* from, u32 bytes) {
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0 && bytes > 0) throw std::out_of_range("16 bytes");
  Block::Copy copy = {to, {}};
  std::memcpy(copy.bytes, from, bytes);
  host_block.Add(copy);
}
inline void commit_copies() { host_block.Commit(); }
template <int kPending>
void wait_copies() {
  host_block.Await(kPending);
}

inline int bank_conflicts = 0;

template <bool kTransposed>
void load_matrices(u32 (&to)[4], u32 address) {
  const size_t lane = threadIdx.x % 32;
  const Block::Given* const warp = &host_block.given[threadIdx.x - lane];
  host_block.given[threadIdx.x].address = address;
  host_block.JoinWarp();
  u32 banks = 0;  // of 16 bytes
  for (size_t row = lane / 8 * 8; row < lane / 8 * 8 + 8; ++row) {
    banks |= 1u << warp[row].address / 16 % 8;
  }
  bank_conflicts += banks != 0xFF;
  for (size_t i = 0; i < 4; ++i) {
    const auto row = [&](size_t r) { return host_block.At(warp[8 * i + r].address, 16); };
    if (kTransposed) {
      for (size_t half = 0; half < 2; ++half) {
        std::memcpy(reinterpret_cast<char*>(&to[i]) + 2 * half,
                    row(lane % 4 * 2 + half) + lane / 4 * 2, 2);
      }
    } else {
      std::memcpy(&to[i], row(lane / 4) + lane % 4 * 4, 4);
    }
  }
  host_block.JoinWarp();
}

template <class Element, class Sum>
void multiply_add(Sum (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  using Stored = typename Element::Stored;
  constexpr size_t kElements = 4 / sizeof(Stored);
  const size_t lane = threadIdx.x % 32;
  Block::Given& mine = host_block.given[threadIdx.x];
  std::copy(a, a + 4, mine.a);
  mine.b[0] = b0;
  mine.b[1] = b1;
  host_block.JoinWarp();
  const Block::Given* const warp = &host_block.given[threadIdx.x - lane];
  for (size_t i = 0; i < 4; ++i) {
    const size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (size_t word = 0; word < 8; ++word) {
      const u32 x = warp[row % 8 * 4 + word % 4].a[word / 4 * 2 + row / 8];
      const u32 y = warp[column * 4 + word % 4].b[word / 4];
      Stored xs[kElements], ys[kElements];
      std::memcpy(xs, &x, 4);
      std::memcpy(ys, &y, 4);
      for (size_t e = 0; e < kElements; ++e) d[i] += static_cast<Sum>(xs[e] * ys[e]);
    }
  }
  host_block.JoinWarp();
}

}  // namespace sinter
