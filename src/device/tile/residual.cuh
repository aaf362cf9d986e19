// The residual: a row-major matrix in global memory that is added to a product's result after bias,
// activation and gate. The sum may have an activation of its own. The residual may be the output: a
// thread reads only elements that it will write itself, and reads them first.
#pragma once
#include "ptx/memory.cuh"
#include "tile/activation.cuh"
#include "tile/product.cuh"
#include "tile/quad.cuh"

namespace sinter {

// For a kernel without a residual.
struct NoResidual {
  static constexpr bool kPresent = false;
  static SINTER_DEVICE NoResidual of(const void*, long long, int) { return {}; }
};

// kRounds: the result is also rounded before the addition, because the chain casts it. kAligned:
// rows and columns allow 16-byte loads; else elements are loaded one by one. SumActivation: of the
// sum.
template <class Element, int kColumns, bool kRounds, bool kAligned, class SumActivation = Identity>
struct ResidualRows {
  using Stored = typename Element::Stored;
  static_assert(Element::kBytes == 2, "two columns are a word");
  static constexpr bool kPresent = true;
  const Stored* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  static SINTER_DEVICE ResidualRows of(const void* data, long long stride, int rows) {
    return {static_cast<const Stored*>(data), stride, rows};
  }

  // Eight columns from `column`, a multiple of 8; zero, and not read, outside the matrix.
  SINTER_DEVICE Word4 group(int row, int column) const {
    if (kAligned) {
      if (row >= rows || column >= kColumns) return Word4{0, 0, 0, 0};
      return *reinterpret_cast<const Word4*>(data + row * stride + column);
    }
    return Word4{pair(row, column), pair(row, column + 2), pair(row, column + 4),
                 pair(row, column + 6)};
  }
  SINTER_DEVICE u32 pair(int row, int column) const {
    if (row >= rows || column >= kColumns) return 0;
    const Stored* p = data + row * stride + column;
    if (kAligned) return *reinterpret_cast<const u32*>(p);
    const u32 high = column + 1 < kColumns ? p[1] : 0;
    return p[0] | high << 16;
  }
  // Prefetches into L2 what is loaded later.
  SINTER_DEVICE void fetch(int row, int column) const {
    if (row < rows && column < kColumns) prefetch_l2(data + row * stride + column);
  }

  // Two columns of the result and the same two of the residual: their sums, activated and rounded.
  static SINTER_DEVICE u32 add(float low, float high, u32 r) {
    if (kRounds) {
      const u32 w = Element::pack(low, high);
      low = Element::unpack(static_cast<Stored>(w));
      high = Element::unpack(static_cast<Stored>(w >> 16));
    }
    low += Element::unpack(static_cast<Stored>(r));
    high += Element::unpack(static_cast<Stored>(r >> 16));
    return Element::pack(SumActivation::apply(low), SumActivation::apply(high));
  }
};

// The interface of HeldResidual without a residual in registers: there is none, or ranks share K
// and the owner of a row loads what it adds (handover/dsm_reduce_scatter.cuh).
template <class Element>
struct NothingHeld {
  static constexpr bool kPresent = false, kByHalves = false;
  template <class Added>
  SINTER_DEVICE NothingHeld(const Added&, int, int, WarpgroupPlace) {}
  SINTER_DEVICE void turn_to(int) {}
  SINTER_DEVICE Word4 quad(int) const { return Word4{0, 0, 0, 0}; }
  SINTER_DEVICE u32 pair(int) const { return 0; }
  static SINTER_DEVICE typename Element::Pair round(float low, float high, u32) {
    return Element::pack(low, high);
  }
};

// The residual of a thread's accumulators. It is loaded before the product and arrives while that
// runs. In wide tiles this is only the upper of a thread's two rows: the lower one would take
// registers that accumulators need, so it is prefetched into L2.
template <class Config, class P, class Added>
class HeldResidual {
 public:
  static constexpr bool kPresent = true, kByHalves = P::kGroups > 16;
  SINTER_DEVICE HeldResidual(const Added& added, int row, int column, WarpgroupPlace place)
      : added_(added), row_(row), column_(column + place.n * P::kHalf), place_(place) {
    load(0);
    if (kByHalves)
      fetch(1);
    else
      load(1);
  }

  // Called before words of a half are asked for. With kByHalves half 0 comes first, and does not
  // come back.
  SINTER_DEVICE void turn_to(int half) {
    if (kByHalves && half != half_) load(half);
    half_ = half;
    at_ = kByHalves ? 0 : half;
  }
  // Words of groups 4 q to 4 q + 3, as accumulators.
  SINTER_DEVICE Word4 quad(int q) const {
    const Word4& v = quads_[at_][q];
    const u32 w[4] = {v.x, v.y, v.z, v.w};
    return as_stored<P>(w);
  }
  // The word of the g-th of the groups behind the last four.
  SINTER_DEVICE u32 pair(int g) const { return rest_[at_][g]; }
  static SINTER_DEVICE u32 round(float low, float high, u32 r) { return Added::add(low, high, r); }

 private:
  static constexpr int kQuads = P::kGroups / 4, kRest = P::kGroups % 4;

  // The row of the matrix; one behind its last where the tile has no such row.
  SINTER_DEVICE int row_of(int half) const {
    const int tile_row = place_.m * kWarpgroupRows + accumulator_row(place_.thread) + 8 * half;
    return tile_row < Config::kBlockM ? row_ + tile_row : added_.rows;
  }
  SINTER_DEVICE int column_of(int q) const { return column_ + 8 * (4 * q + place_.thread % 4); }

  SINTER_DEVICE void load(int half) {
    const int into = kByHalves ? 0 : half, row = row_of(half);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) quads_[into][q] = added_.group(row, column_of(q));
#pragma unroll
    for (int g = 0; g < kRest; ++g)
      rest_[into][g] = added_.pair(row, column_ + P::pair_column(place_.thread, 4 * kQuads + g));
  }
  SINTER_DEVICE void fetch(int half) const {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) added_.fetch(row_of(half), column_of(q));
  }

  const Added& added_;
  const int row_, column_;
  const WarpgroupPlace place_;
  int half_ = 0, at_ = 0;                    // the half that is used, and where it is
  Word4 quads_[2][kQuads > 0 ? kQuads : 1];  // as memory has them: lane q holds group q's columns
  u32 rest_[2][kRest > 0 ? kRest : 1];       // as accumulators
};

// What holds `Added`.
template <class Config, class P, class Added, bool kPresent = Added::kPresent>
struct HeldOf {
  using Type = HeldResidual<Config, P, Added>;
};
template <class Config, class P, class Added>
struct HeldOf<Config, P, Added, false> {
  using Type = NothingHeld<typename Config::Result>;
};

}  // namespace sinter
