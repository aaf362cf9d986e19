// Scales of 128 elements of K: of each row, and of each 128 columns of the weights. Sums over as
// many elements are multiplied by both when they are promoted.
#pragma once
#include "tile/product.cuh"

namespace sinter {

// For a product whose scales, if any, are applied to its whole sums.
struct NoBlockScales {
  static constexpr bool kPresent = false;
  template <class Config, class P>
  SINTER_DEVICE NoBlockScales held(int, int, WarpgroupPlace) const {
    return {};
  }
  SINTER_DEVICE void next() {}
  SINTER_DEVICE float add(float sum, float fresh, int, int) const { return sum + fresh; }
};

// Where scales lie in memory: elements between those of two rows (of the operand, or of 128 of it),
// and between those of two groups of K. Row-major without gaps.
struct Contiguous {
  static constexpr bool kOfM = false;
  template <class P>
  static SINTER_DEVICE constexpr int row() {
    return P::kK / 128;
  }
  static SINTER_DEVICE constexpr int group(int) { return 1; }
};
// With these strides; where kOfM, groups are kGroup for each of the launch's `m` rows apart.
template <long long kRow, long long kGroup, bool kOfM_ = false>
struct Strided {
  static constexpr bool kOfM = kOfM_;
  template <class P>
  static SINTER_DEVICE constexpr long long row() {
    return kRow;
  }
  static SINTER_DEVICE constexpr long long group(int m) { return kOfM ? kGroup * m : kGroup; }
};

// The launch's rows, where strides depend on them.
template <bool kOfM>
struct StridesOfM {
  SINTER_DEVICE StridesOfM(int) {}
  SINTER_DEVICE int m() const { return 0; }
};
template <>
struct StridesOfM<true> {
  SINTER_DEVICE StridesOfM(int m) : m_(m) {}
  SINTER_DEVICE int m() const { return m_; }

 private:
  int m_;
};

// A thread holds the scales of its rows and columns for one group of K at a time.
template <class Config, class P, bool kOfRows, bool kOfWeights, class RowsAt, class WeightsAt>
class HeldBlockScales : StridesOfM<RowsAt::kOfM> {
 public:
  // `rows`, `gate` and `up`: the first values that this thread reads. `beside`: elements to the
  // scale of the 128 columns beside the first ones. `existing`: rows from there on, of `m`;
  // `groups`: of K.
  SINTER_DEVICE HeldBlockScales(const float* rows, const float* gate, const float* up, int beside,
                                int existing, int groups, int m)
      : StridesOfM<RowsAt::kOfM>(m),
        rows_(rows),
        matrices_{gate, up},
        beside_(beside),
        existing_(existing),
        groups_(groups) {
    if (kAhead) load(&ahead_);
  }

  // Takes those of the next group, and asks for the ones behind it. Called before its products are
  // issued. A stage may have a group behind the last one, whose elements are zero: so are its
  // scales, which are not read.
  SINTER_DEVICE void next() {
    if (kAhead) now_ = ahead_;
    load(kAhead ? &ahead_ : &now_);
  }

  // The i-th fresh sum of a part, scaled and added.
  SINTER_DEVICE float add(float sum, float fresh, int part, int i) const {
    float scale =
        kOfRows ? now_.row[Config::kSwapped ? i % kSet / 4 * 2 + i % 2 : i % 4 / 2] : 1.0f;
    const int at = part * (P::kAccumulators / P::kParts) + i;
    if (kOfWeights) scale *= now_.columns[at / (P::kAccumulators / kColumnScales)];
    return fresh * scale + sum;
  }

 private:
  static constexpr int kSet = Config::kBlockM / 2;  // sums of a set, with swapped operands
  static constexpr int kRows = Config::kSwapped ? Config::kBlockM / 4 : 2;
  static constexpr bool kAhead = !Config::kSwapped;  // else they would take too many registers
  // Blocks of columns of one matrix; where there are two, a part has those of one.
  static constexpr int kBlocks = P::kHalf > 128 ? P::kHalf / 128 : 1;
  static constexpr int kColumnScales = P::kWidth * kBlocks;
  static_assert(!kOfWeights || 128 % P::kHalf == 0 || (P::kHalf == 256 && !Config::kSwapped),
                "a warpgroup has columns of one block, or two whole blocks");

  struct Values {
    float row[kRows], columns[kColumnScales];
  };
  SINTER_DEVICE void load(Values* to) {
    const bool exists = groups_-- > 0;
    if constexpr (kOfRows) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int row = row_of(i);
        to->row[i] = row < existing_ && exists ? rows_[row * RowsAt::template row<P>()] : 0.0f;
      }
      rows_ += RowsAt::group(this->m());
    }
    if constexpr (kOfWeights) {
#pragma unroll
      for (int matrix = 0; matrix < P::kWidth; ++matrix) {
        const float* const at = step(&matrices_[matrix]);
#pragma unroll
        for (int block = 0; block < kBlocks; ++block)
          to->columns[matrix * kBlocks + block] = exists ? at[block * beside_] : 0.0f;
      }
    }
  }
  // The place, which then moves on by a group.
  static SINTER_DEVICE const float* step(const float** at) {
    const float* place = *at;
    *at += WeightsAt::group(0);
    return place;
  }
  static SINTER_DEVICE int row_of(int i) { return Config::kSwapped ? i / 2 * 8 + i % 2 : 8 * i; }

  const float* rows_;
  const float* matrices_[2];
  int beside_, existing_, groups_;
  Values now_, ahead_;
};

// In global memory.
template <bool kOfRows, bool kOfWeights, class RowsAt = Contiguous, class WeightsAt = Contiguous>
struct BlockScales {
  static constexpr bool kPresent = true;
  const float *rows, *gate, *up;
  int existing;  // rows that exist
  int group;     // the first group of K that this block multiplies

  template <class Config, class P>
  SINTER_DEVICE auto held(int row, int column, WarpgroupPlace place) const {
    constexpr int kGroups = P::kK / 128;
    row += Config::kSwapped ? place.thread % 4 * 2
                            : place.m * kWarpgroupRows + accumulator_row(place.thread);
    // Columns behind the last are not stored: any scale will do.
    const int last = (P::kN - 1) / 128, block = (column + place.n * P::kHalf) / 128;
    const auto at = (block < last ? block : last) * WeightsAt::template row<P>() +
                    group * WeightsAt::group(existing);
    const int beside = block < last ? static_cast<int>(WeightsAt::template row<P>()) : 0;
    return HeldBlockScales<Config, P, kOfRows, kOfWeights, RowsAt, WeightsAt>(
        rows + row * RowsAt::template row<P>() + group * RowsAt::group(existing), gate + at,
        up + at, beside, existing - row, kGroups - group, existing);
  }
};

}  // namespace sinter
