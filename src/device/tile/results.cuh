// From accumulators to results: what becomes of two of them, where results are stored, and the end
// of a tile.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/epilogue.cuh"
#include "tile/matrix_leaf.cuh"

namespace sinter {

// A row-major matrix in global memory; nothing outside of it is written. kAligned: rows and columns
// allow 16-byte groups; else elements are stored one by one.
template <class Element_, int kColumns, bool kAligned>
struct GlobalWriter {
  using Element = Element_;
  using Stored = typename Element::Stored;
  using Pair = typename Element::Pair;
  Stored* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  // Eight columns of 16 bits from `column`.
  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    static_assert(Element::kBytes == 2, "two columns are a word");
    if (row >= rows || column >= kColumns) return;
    Stored* p = data + row * stride + column;
    if (kAligned) {
      *reinterpret_cast<Word4*>(p) = v;
    } else {
      pair(row, column, v.x);
      pair(row, column + 2, v.y);
      pair(row, column + 4, v.z);
      pair(row, column + 6, v.w);
    }
  }
  SINTER_DEVICE void pair(int row, int column, Pair v) const {
    if (row >= rows || column >= kColumns) return;
    Stored* p = data + row * stride + column;
    if constexpr (kAligned) {
      *reinterpret_cast<Pair*>(p) = v;
    } else if constexpr (Element::kBytes == 2) {
      p[0] = static_cast<Stored>(v);
      if (column + 1 < kColumns) p[1] = static_cast<Stored>(v >> 16);
    } else {
      p[0] = v.low;
      if (column + 1 < kColumns) p[1] = v.high;
    }
  }
  SINTER_DEVICE void element(int row, int column, Stored v) const {
    if (row < rows && column < kColumns) data[row * stride + column] = v;
  }
};

// The writer of a kernel's result, and `Next`, that of the next one.
template <class Writer, class Next>
struct ThenWriter : Writer {
  Next next;
  SINTER_DEVICE ThenWriter(const Writer& writer, const Next& next) : Writer(writer), next(next) {}
};
template <class Writer>
constexpr int kResultsOf = 1;
template <class Writer, class Next>
constexpr int kResultsOf<ThenWriter<Writer, Next>> = 1 + kResultsOf<Next>;

template <int kNumber>
struct ResultNumber {
  static constexpr int kValue = kNumber;
};
// Calls act(writer, its element, ResultNumber<i>) for result i = 0, 1, ..
template <int kNumber = 0, class Writer, class Act>
SINTER_DEVICE void each_result(const Writer& writer, const Act& act) {
  act(writer, typename Writer::Element{}, ResultNumber<kNumber>{});
}
template <int kNumber = 0, class Writer, class Next, class Act>
SINTER_DEVICE void each_result(const ThenWriter<Writer, Next>& writer, const Act& act) {
  each_result<kNumber>(static_cast<const Writer&>(writer), act);
  each_result<kNumber + 1>(writer.next, act);
}

// An accumulator, that of up, and what both are multiplied by because of their row.
struct Accumulated {
  float x, up, scale;
};

// All results of two accumulators, which have `terms` of columns and elements of the matrix.
template <class EpilogueType, class Matrix, class Writer>
class ResultPairs {
 public:
  SINTER_DEVICE ResultPairs(const EpilogueType& epilogue, Accumulated low,
                            const ColumnTerms& low_terms, float low_element, Accumulated high,
                            const ColumnTerms& high_terms, float high_element) {
    if constexpr (EpilogueType::kWhole) {
      epilogue.results(low.x, low.up, low.scale, low_terms, low_element, low_);
      epilogue.results(high.x, high.up, high.scale, high_terms, high_element, high_);
    } else if constexpr (kRelu) {
      low_[0] = epilogue.linear(low.x, low.scale, low_terms);
      high_[0] = epilogue.linear(high.x, high.scale, high_terms);
    } else {
      low_[0] = epilogue.apply(low.x, low.up, low.scale, low_terms);
      high_[0] = epilogue.apply(high.x, high.up, high.scale, high_terms);
      if constexpr (Matrix::kPresent)
        Matrix::Added::template add<Result>(low_[0], high_[0], low_element, high_element);
    }
  }
  // Result `number`, rounded.
  template <class Element, class Number>
  SINTER_DEVICE typename Element::Pair of(Element, Number) const {
    constexpr int kNumber = Number::kValue;
    if constexpr (kRelu)
      return Element::pack_relu(low_[kNumber], high_[kNumber]);
    else
      return Element::pack(low_[kNumber], high_[kNumber]);
  }

 private:
  using Result = typename Writer::Element;
  static constexpr bool kRelu =
      EpilogueType::kEndsInRelu && !Matrix::kPresent && Result::kBytes == 2;
  float low_[kResultsOf<Writer>], high_[kResultsOf<Writer>];
};

// Stores the results of a warpgroup's accumulators. The tile begins at `row` and `column`.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Held>
SINTER_DEVICE void write_accumulators(const float (&d)[P::kAccumulators],
                                      const EpilogueType& epilogue, Terms& terms,
                                      const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                      const Writer& writer, int row, int column,
                                      WarpgroupPlace place, Held& held) {
  using Of = typename Held::Matrix::Element;
  constexpr int kUp = P::kWidth == 2 ? 4 * P::kGroups : 0;
  constexpr bool kAllRows = Config::kBlockM == kWarpgroupRows * Config::kWarpgroupsM;
  jitter();
  terms.complete();
  const int first_row = place.m * kWarpgroupRows + accumulator_row(place.thread);
  column += place.n * P::kHalf;
#pragma unroll
  for (int begin = 0; begin < P::kGroups; begin += 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile_row = first_row + 8 * half, step = begin / 2 + half;
      const bool exists = kAllRows || tile_row < Config::kBlockM;
      const float scale = scaling.of_half(half);
      typename Of::Pair elements[4] = {};
      held.take(step, elements);
      // Four lanes have 32 bytes of f32 side by side; of 16 bits each stores 16 bytes.
      u32 words[kResultsOf<Writer>][4];
#pragma unroll
      for (int g = begin; g < begin + 4 && g < P::kGroups; ++g) {
        const int i = 4 * g + 2 * half;
        const auto& two = terms.of(g);
        const auto of = elements[g - begin];
        const ResultPairs<EpilogueType, typename Held::Matrix, Writer> results(
            epilogue, {d[i], d[i + kUp], scale}, two.of(0), Of::low(of),
            {d[i + 1], d[i + 1 + kUp], scale}, two.of(1), Of::high(of));
        each_result(writer, [&](const auto& to, auto element, auto number) {
          const auto both = results.of(element, number);
          if constexpr (decltype(element)::kBytes == 2)
            words[decltype(number)::kValue][g - begin] = both;
          else if (exists)
            to.pair(row + tile_row, column + P::pair_column(place.thread, g), both);
        });
      }
      each_result(writer, [&](const auto& to, auto element, auto number) {
        if constexpr (decltype(element)::kBytes == 2) {
          const auto& word = words[decltype(number)::kValue];
          if (begin + 4 <= P::kGroups) {
            const Word4 v = as_stored<P>(word);
            if (exists) to.group(row + tile_row, column + 8 * (begin + place.thread % 4), v);
            return;
          }
          if constexpr (P::kGroups % 4 != 0)
#pragma unroll
            for (int g = begin; g < P::kGroups; ++g)
              if (exists)
                to.pair(row + tile_row, column + P::pair_column(place.thread, g), word[g - begin]);
        }
      });
      held.release(step);
    }
    terms.release(begin);
  }
}

}  // namespace sinter
