// The address maps of tile/layout.cuh against the hardware's rules, over a sweep of tiles.
#include "src/device/ptx/element_sizes.cuh"
#include "src/device/tile/layout.cuh"
#include "tests/support/test.h"
#include "tests/unit/device/hardware.h"

namespace sinter {
namespace {

using Half = ElementSizes<uint16_t>;
using Byte = ElementSizes<uint8_t>;

constexpr uint32_t kBases[] = {0, 1024, 7 * 1024, 64 * 1024};

struct TileShape {
  int block_m, warpgroups_m, warpgroups_n, block_k;
};

// Stages of one and two subtiles of `span` elements.
std::vector<TileShape> TileShapes(int span) {
  std::vector<TileShape> shapes;
  for (int block_k : {span, 2 * span}) {
    for (int block_m = 8; block_m <= 64; block_m += 8) {
      shapes.push_back({block_m, 1, 1, block_k});
      shapes.push_back({block_m, 1, 2, block_k});
    }
    for (int block_m = 72; block_m <= 128; block_m += 8) shapes.push_back({block_m, 2, 1, block_k});
    for (int block_m = 136; block_m <= 192; block_m += 8)
      shapes.push_back({block_m, 3, 1, block_k});
  }
  return shapes;
}

// An element of a global matrix: what shared memory holds after TMA, by address.
struct Element {
  int row, column;  // of the tile: M or N, and K (K-major); K and N (N-major)
  bool operator==(const Element& o) const { return row == o.row && column == o.column; }
};

template <class E>
class SharedMemory {
 public:
  // One box of `rows` x 128 bytes whose first element is (row, column) of the tile.
  void Load(uint32_t destination, int rows, int row, int column) {
    ASSERT_EQ(destination % 1024, 0u) << "a swizzle pattern begins on 1024 bytes";
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < hardware::kBoxBytes / E::kBytes; ++c) {
        const uint32_t at = hardware::TmaAddress(destination, r, c, E::kBytes);
        if (at >= bytes_.size()) bytes_.resize(at + 4096, {-1, -1});
        ASSERT_EQ(bytes_[at].row, -1) << "two elements at " << at;
        bytes_[at] = {row + r, column + c};
      }
    }
  }
  Element At(uint32_t address) const {
    return address < bytes_.size() ? bytes_[address] : Element{-1, -1};
  }

 private:
  std::vector<Element> bytes_;  // by the address of an element's first byte
};

// Rows of one stage: subtiles of 128 bytes of K, block_m rows each.
template <class E>
SharedMemory<E> LoadKMajor(uint32_t base, int rows, int block_k) {
  SharedMemory<E> memory;
  for (int s = 0; s < block_k / E::kSwizzleSpan; ++s) {
    memory.Load(base + static_cast<uint32_t>(s * rows * kRowBytes), rows, 0, s * E::kSwizzleSpan);
  }
  return memory;
}

// Maps of elements of one and of two bytes.
template <class E>
class ElementMap : public ::testing::Test {};
using Elements = ::testing::Types<Half, Byte>;
TYPED_TEST_SUITE(ElementMap, Elements);

TYPED_TEST(ElementMap, SwizzledOffsetIsWhereTmaPutsTheElement) {
  for (uint32_t base : kBases) {
    for (int rows = 8; rows <= 256; rows += 8) {
      const auto memory = LoadKMajor<TypeParam>(base, rows, 2 * TypeParam::kSwizzleSpan);
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < 2 * TypeParam::kSwizzleSpan; ++column) {
          const Element e = memory.At(
              base + static_cast<uint32_t>(swizzled_offset<TypeParam>(rows, row, column)));
          ASSERT_TRUE((e == Element{row, column})) << rows << ": " << row << ", " << column;
        }
      }
    }
  }
}

TYPED_TEST(ElementMap, SwizzledOffsetKeepsVectorsTogether) {
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 256; column += TypeParam::kVector) {
      const int at = swizzled_offset<TypeParam>(64, row, column);
      EXPECT_EQ(at % kVectorBytes, 0);
      for (int i = 1; i < TypeParam::kVector; ++i) {
        EXPECT_EQ(swizzled_offset<TypeParam>(64, row, column + i), at + TypeParam::kBytes * i);
      }
    }
  }
}

TEST(Descriptor, HoldsItsFieldsForEveryAddressOfTheWindow) {
  for (uint32_t address = 0; address < hardware::kWindow; address += 16) {
    const auto d = hardware::Decode(descriptor(address, 32768, 1024));
    ASSERT_EQ(d.start, address);
    ASSERT_EQ(d.leading, 32768u);
    ASSERT_EQ(d.stride, 1024u);
    ASSERT_TRUE(hardware::Is128ByteSwizzle(d));
  }
}

// Steps are added to descriptors as integers: that may not carry into the next field.
TEST(Descriptor, TakesStepsByAddition) {
  const uint32_t last = hardware::kWindow - 16;
  const auto d =
      hardware::Decode(descriptor(last - 98304, kKMajorLeading, kKMajorStride) + (98304 >> 4));
  EXPECT_EQ(d.start, last);
  EXPECT_EQ(d.leading, kKMajorLeading);
}

TYPED_TEST(ElementMap, WgmmaFetchesTheRowsThatTmaWrote) {
  using E = TypeParam;
  for (const TileShape& t : TileShapes(E::kSwizzleSpan)) {
    for (uint32_t base : kBases) {
      const SharedMemory<E> memory = LoadKMajor<E>(base, t.block_m, t.block_k);
      for (int g = 0; g < t.warpgroups_m; ++g) {
        const int first = g * kWarpgroupRows;
        const uint64_t start =
            descriptor(base + static_cast<uint32_t>(k_major_step(t.block_m, first, 0)),
                       kKMajorLeading, kKMajorStride);
        for (int step = 0; step < t.block_k / E::kWgmmaK; ++step) {
          const auto d = hardware::Decode(
              start + static_cast<uint64_t>(k_major_step(t.block_m, 0, step) >> 4));
          ASSERT_TRUE(hardware::Is128ByteSwizzle(d));
          for (int row = 0; row < kWarpgroupRows && first + row < t.block_m; ++row) {
            for (int k = 0; k < E::kWgmmaK; ++k) {
              const Element e = memory.At(hardware::FetchAddress(d, true, row, k, E::kBytes));
              ASSERT_TRUE((e == Element{first + row, step * E::kWgmmaK + k}))
                  << "bm" << t.block_m << " bk" << t.block_k << " warpgroup " << g << " step "
                  << step << " row " << row << " k " << k;
            }
          }
        }
      }
    }
  }
}

struct WeightShape {
  int width, block_n, warpgroups_n, block_k;
  int Columns() const { return width * block_n; }
  int Half() const { return block_n / warpgroups_n; }
  int WarpN() const { return Columns() / warpgroups_n; }
};

// Every legal tile of weights: at most 256 columns a warpgroup.
std::vector<WeightShape> WeightShapes(int unit, int span) {
  std::vector<WeightShape> shapes;
  for (int block_k : {span, 2 * span}) {
    for (int width : {1, 2}) {
      for (int warpgroups_n : {1, 2}) {
        const int step = unit * warpgroups_n;
        for (int block_n = step; width * block_n / warpgroups_n <= 256; block_n += step) {
          shapes.push_back({width, block_n, warpgroups_n, block_k});
        }
      }
    }
  }
  return shapes;
}

// Columns of a tile stand [warpgroup][matrix][column]: the tile row of column 0 of each box.
template <class F>
void ForEachPart(const WeightShape& w, F&& f) {
  for (int g = 0; g < w.warpgroups_n; ++g) {
    for (int matrix = 0; matrix < w.width; ++matrix) f(g * w.WarpN() + matrix * w.Half());
  }
}

// Every warpgroup fetches its WarpN columns from `first` on, for each K step.
template <class E, class Step, class Start>
void ExpectFetched(const SharedMemory<E>& memory, const WeightShape& w, bool k_major,
                   Step&& step_of, Start&& start_of) {
  for (int g = 0; g < w.warpgroups_n; ++g) {
    for (int step = 0; step < w.block_k / E::kWgmmaK; ++step) {
      const auto d = hardware::Decode(start_of(g) + static_cast<uint64_t>(step_of(step) >> 4));
      ASSERT_TRUE(hardware::Is128ByteSwizzle(d));
      for (int n = 0; n < w.WarpN(); ++n) {
        for (int k = 0; k < E::kWgmmaK; ++k) {
          const int column = g * w.WarpN() + n, depth = step * E::kWgmmaK + k;
          const Element want = k_major ? Element{column, depth} : Element{depth, column};
          ASSERT_TRUE((memory.At(hardware::FetchAddress(d, k_major, n, k, E::kBytes)) == want))
              << w.width << "x" << w.block_n << " wn" << w.warpgroups_n << " bk" << w.block_k
              << ": warpgroup " << g << " step " << step << " n " << n << " k " << k;
        }
      }
    }
  }
}

TYPED_TEST(ElementMap, WgmmaFetchesTheWeightsThatTmaWrote) {
  using E = TypeParam;
  const uint32_t base = 16 * 1024;
  for (const WeightShape& w : WeightShapes(8, E::kSwizzleSpan)) {
    SharedMemory<E> memory;
    for (int s = 0; s < w.block_k / E::kSwizzleSpan; ++s) {
      ForEachPart(w, [&](int row) {
        memory.Load(base + static_cast<uint32_t>((s * w.Columns() + row) * kRowBytes), w.Half(),
                    row, s * E::kSwizzleSpan);
      });
    }
    ExpectFetched(
        memory, w, true, [&](int step) { return k_major_step(w.Columns(), 0, step); },
        [&](int g) {
          return descriptor(
              base + static_cast<uint32_t>(k_major_step(w.Columns(), g * w.WarpN(), 0)),
              kKMajorLeading, kKMajorStride);
        });
  }
}

TEST(NMajor, WgmmaFetchesTheWeightsThatTmaWrote) {
  const uint32_t base = 16 * 1024;
  for (const WeightShape& w : WeightShapes(64, Half::kSwizzleSpan)) {
    SharedMemory<Half> memory;
    ForEachPart(w, [&](int column) {
      for (int s = 0; s < w.Half() / Half::kSwizzleSpan; ++s) {
        const int subtile = column / Half::kSwizzleSpan + s;
        memory.Load(base + static_cast<uint32_t>(subtile * w.block_k * kRowBytes), w.block_k, 0,
                    subtile * Half::kSwizzleSpan);
      }
    });
    ExpectFetched(
        memory, w, false, [&](int step) { return n_major_step<Half>(w.block_k, 0, step); },
        [&](int g) {
          return descriptor(
              base + static_cast<uint32_t>(n_major_step<Half>(w.block_k, g * w.WarpN(), 0)),
              n_major_leading(w.block_k), kNMajorStride);
        });
  }
}

TEST(Accumulator, MapsAgreeWithTheHardware) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int index = 0; index < 128; ++index) {
      const auto place = hardware::AccumulatorPlace(thread, index);
      EXPECT_EQ(place.row, accumulator_row(thread) + (index % 4 >= 2 ? 8 : 0));
      EXPECT_EQ(place.column, accumulator_column(thread, index / 4) + index % 2);
    }
  }
}

TEST(Accumulator, HoldsEveryElementExactlyOnce) {
  for (int n = 8; n <= 256; n += 8) {
    std::set<std::pair<int, int>> held;
    for (int thread = 0; thread < 128; ++thread) {
      for (int index = 0; index < n / 2; ++index) {
        const auto place = hardware::AccumulatorPlace(thread, index);
        EXPECT_TRUE(place.row >= 0 && place.row < 64 && place.column >= 0 && place.column < n);
        held.insert({place.row, place.column});
      }
    }
    EXPECT_EQ(held.size(), static_cast<size_t>(64 * n));
  }
}

TEST(PartOffset, GivesEveryPartAPlaceOfItsOwnInsideTheBuffer) {
  for (int sources : {2, 4, 8, 16}) {
    for (int block_m : {8, 24, 64, 104, 128}) {
      for (int groups : {1, 2, 3, 9, 13, 32}) {
        const int owner_rows = ceil_div(block_m, sources);
        const int bytes = sources * owner_rows * groups * 8 * 4;
        std::vector<bool> taken(static_cast<size_t>(bytes));
        for (int source = 0; source < sources; ++source) {
          for (int group = 0; group < groups; ++group) {
            for (int row = 0; row < owner_rows; ++row) {
              for (int column = 0; column < 8; ++column) {
                const int at = part_offset(source, groups, group, owner_rows, row, column);
                ASSERT_TRUE(at >= 0 && at + 4 <= bytes && at % 4 == 0);
                ASSERT_FALSE(taken[static_cast<size_t>(at)]);
                taken[static_cast<size_t>(at)] = true;
              }
              // The reader takes a group as two 16-byte loads, the writer pairs of columns.
              ASSERT_EQ(part_offset(source, groups, group, owner_rows, row, 0) % 32, 0);
            }
          }
        }
      }
    }
  }
}

// The map's box has rows r = 2 i', q', g', sets as its dimensions say; wgmma's column is the row of
// the box; a thread's pairs of four groups are then eight neighbouring rows of the matrix.
TEST(PermutedColumn, IsTheRowThatTheBoxHasThere) {
  for (int thread = 0; thread < 128; ++thread) {
    for (int group = 0; group < 32; ++group) {
      const int box_row = accumulator_column(thread, group);
      const int set = box_row / 32, g = box_row % 32 / 8, q = box_row % 8 / 2;
      EXPECT_EQ(permuted_column(thread, group), 32 * set + 8 * q + 2 * g);
      if (group % 4 != 0)
        EXPECT_EQ(permuted_column(thread, group), permuted_column(thread, group - 1) + 2);
      else
        EXPECT_EQ(permuted_column(thread, group) % 8, 0) << "16 bytes of 16-bit elements";
    }
  }
}

}  // namespace
}  // namespace sinter
