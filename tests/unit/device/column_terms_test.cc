// Column terms: how two neighbours of a vector are read, and which terms a thread holds when.
#include "tests/unit/device/tile_runs.h"

namespace sinter {
namespace {

constexpr float kBehind = 99;  // stored past a vector's end

TEST(ColumnTerms, PairsAreReadWhereTheyLie) {
  alignas(8) const float vector[] = {1, 2, 3, 4, 5, kBehind};
  const auto expect = [](FloatPair pair, float low, float high) {
    EXPECT_EQ(pair.low, low);
    EXPECT_EQ(pair.high, high);
  };
  expect(load_pair<Float32, 4, 1>(vector, 2), 3, 4);
  expect(load_pair<Float32, 3, 2>(vector, 0), 1, 3);
  expect(load_pair<Float32, 6, 0>(vector, 4), 1, 1);  // one for all
  alignas(4) const u16 shorts[] = {7, 8, 9};
  EXPECT_EQ((load_pair<Integer16, 2, 1>(shorts, 0)), 8u << 16 | 7u);
}

TEST(ColumnTerms, NothingIsReadBehindTheEnd) {
  alignas(8) const float vector[] = {1, 2, kBehind, kBehind};
  EXPECT_EQ((load_pair<Float32, 3, 1>(vector, 2).low), kBehind);
  EXPECT_EQ((load_pair<Float32, 1, 1>(vector, 0).high), 1);  // not the element past the end
  EXPECT_EQ((load_pair<Float32, 2, 1>(nullptr, 2).low), 0);
}

struct PairTerms {
  FloatPair floats;
  u32 shorts;
};

TEST(ColumnTerms, EightColumnsAreReadTogether) {
  alignas(16) float vector[24];
  alignas(16) u16 shorts[24];
  for (int i = 0; i < 24; ++i) vector[i] = static_cast<float>(shorts[i] = static_cast<u16>(i + 1));
  const auto expect = [](const PairTerms(&four)[4], int first, int step) {
    for (int i = 0; i < 8; ++i) {
      const FloatPair floats = four[i / 2].floats;
      EXPECT_EQ(i % 2 == 0 ? floats.low : floats.high, static_cast<float>(first + step * i)) << i;
      EXPECT_EQ(four[i / 2].shorts >> 16 * (i % 2) & 0xffff, static_cast<u32>(first + step * i));
    }
  };
  PairTerms four[4];
  load_pairs<Float32, 24, 1>(vector, 16, four, &PairTerms::floats);
  load_pairs<Integer16, 24, 1>(shorts, 16, four, &PairTerms::shorts);
  expect(four, 17, 1);
  load_pairs<Float32, 12, 2>(vector, 0, four, &PairTerms::floats);  // one by one
  load_pairs<Integer16, 12, 2>(shorts, 0, four, &PairTerms::shorts);
  expect(four, 1, 2);
  load_pairs<Float32, 8, 1>(nullptr, 8, four, &PairTerms::floats);  // nothing past the end
  EXPECT_EQ(four[3].floats.high, 0);
}

// An epilogue whose terms of a column are the column, and how often they were asked for.
struct CountingEpilogue {
  static constexpr int kTermWords = 1;
  using TermPair = int;
  std::vector<int>* loads;
  int terms(int column) const {
    loads->push_back(column);
    return column;
  }
  void terms(int column, int* four) const {
    for (int i = 0; i < 4; ++i) four[i] = terms(column + 2 * i);
  }
};
template <int kAll_, int kGroups_, int kBefore_, bool kPermuted_ = false>
struct TestWindow {
  struct Columns {
    static constexpr bool kPermuted = kPermuted_;
    static constexpr int pair_column(int thread, int group) {
      return kPermuted ? permuted_column(thread, group) : accumulator_column(thread, group);
    }
  };
  static constexpr int kAll = kAll_, kGroups = kGroups_, kBefore = kBefore_;
};

// Uses all groups as write_accumulators does.
template <class Window>
void ExpectEveryGroup() {
  std::vector<int> loads;
  const CountingEpilogue epilogue{&loads};
  constexpr int kFirst = 64, kThread = 3;
  HeldTerms<CountingEpilogue, Window> terms(epilogue, kFirst, kThread);
  EXPECT_EQ(loads.size(), static_cast<size_t>(Window::kBefore)) << "before the product";
  terms.complete();
  for (int begin = 0; begin < Window::kAll; begin += 4) {
    for (int g = begin; g < begin + 4; ++g) {
      EXPECT_EQ(terms.of(g), kFirst + Window::Columns::pair_column(kThread, g)) << g;
    }
    terms.release(begin);
  }
  EXPECT_EQ(loads.size(), static_cast<size_t>(Window::kAll)) << "each is asked for once";
}

TEST(ColumnTerms, AThreadHoldsWhatItUsesNext) {
  ExpectEveryGroup<TestWindow<8, 8, 8>>();
  ExpectEveryGroup<TestWindow<16, 4, 4>>();
  ExpectEveryGroup<TestWindow<16, 12, 4>>();
  ExpectEveryGroup<TestWindow<32, 20, 0>>();
  ExpectEveryGroup<TestWindow<24, 16, 8>>();
  ExpectEveryGroup<TestWindow<16, 12, 4, true>>();
  ExpectEveryGroup<TestWindow<24, 0, 0>>();  // loaded where they are used
}

}  // namespace
}  // namespace sinter
