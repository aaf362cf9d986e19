// The end of a tile whose program is one function of the accumulators and of a matrix of any
// element, and may have several results, each of an element of its own. Each value of the matrix is
// loaded by the thread that has its accumulator.
#pragma once
#include "kernels/tile_ends.cuh"
#include "tile/program.cuh"

namespace sinter {

// A row-major matrix of the result's extents. kAligned: rows and columns allow 16-byte loads; else
// elements are loaded one by one. Outside the matrix nothing is read, and zeros are given. The
// matrix may be a result: its elements are read by threads that then compute what is stored there.
template <class Element_, int kColumns, bool kAligned>
struct BesideMatrix {
  using Element = Element_;
  using Stored = typename Element::Stored;
  using Pair = typename Element::Pair;
  static constexpr bool kPresent = true;
  const Stored* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  SINTER_DEVICE float one(int row, int column) const {
    return row < rows && column < kColumns ? Element::unpack(data[row * stride + column]) : 0.0f;
  }
  // Two columns from `column`, an even number.
  SINTER_DEVICE Pair pair(int row, int column) const {
    if (row >= rows || column >= kColumns) return {};
    const Stored* p = data + row * stride + column;
    if constexpr (kAligned) return *reinterpret_cast<const Pair*>(p);
    return Element::join(p[0], column + 1 < kColumns ? p[1] : Stored{});
  }
  // Eight columns from `column`, a multiple of 8.
  SINTER_DEVICE void eight(int row, int column, Pair (&pairs)[4]) const {
    constexpr int kLoaded = 16 / int{sizeof(Pair)};  // pairs of 16 bytes
#pragma unroll
    for (int i = 0; i < 4; i += kLoaded) {
      if constexpr (kAligned) {
        union {
          Word4 words;
          Pair pairs[kLoaded];
        } loaded = {};
        if (row < rows && column + 2 * i < kColumns)
          loaded.words = *reinterpret_cast<const Word4*>(data + row * stride + column + 2 * i);
#pragma unroll
        for (int j = 0; j < kLoaded; ++j) pairs[i + j] = loaded.pairs[j];
      } else {
#pragma unroll
        for (int j = 0; j < kLoaded; ++j) pairs[i + j] = pair(row, column + 2 * (i + j));
      }
    }
  }
  // Prefetches into L2 what is loaded later.
  SINTER_DEVICE void fetch(int row, int column) const {
    if (row < rows && column < kColumns) prefetch_l2(data + row * stride + column);
  }
};

// In a kernel without a matrix.
struct NoMatrix {
  using Element = Float32;
  using Pair = FloatPair;
  static constexpr bool kPresent = false;
  const void* data;
  long long stride;
  int rows;
  SINTER_DEVICE float one(int, int) const { return 0.0f; }
  SINTER_DEVICE Pair pair(int, int) const { return {}; }
  SINTER_DEVICE void eight(int, int, Pair (&)[4]) const {}
  SINTER_DEVICE void fetch(int, int) const {}
};

// The matrix of such a program, as a kernel's residual.
template <class Matrix_>
struct Beside : Matrix_ {
  using Matrix = Matrix_;
  static SINTER_DEVICE Beside of(const void* data, long long stride, int rows) {
    return {{static_cast<decltype(Matrix::data)>(data), stride, rows}};
  }
};

// An auxiliary result of `Element`, and all of a kernel's.
template <class Element_, bool kAligned_>
struct BesideResult {
  using Element = Element_;
  static constexpr bool kAligned = kAligned_;
};
template <class... Results>
struct BesideResults {};

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
template <int kNumber = 0, class Element, int kColumns, bool kAligned, class Act>
SINTER_DEVICE void each_result(const GlobalWriter<Element, kColumns, kAligned>& writer,
                               const Act& act) {
  act(writer, Element{}, ResultNumber<kNumber>{});
}
template <int kNumber = 0, class Element, int kColumns, bool kAligned, class Next, class Act>
SINTER_DEVICE void each_result(
    const ThenWriter<GlobalWriter<Element, kColumns, kAligned>, Next>& writer, const Act& act) {
  act(static_cast<const GlobalWriter<Element, kColumns, kAligned>&>(writer), Element{},
      ResultNumber<kNumber>{});
  each_result<kNumber + 1>(writer.next, act);
}

// The writers of a kernel's result, or of an auxiliary one, and of auxiliary results from the
// kNumber-th on.
template <class Config, class P, int kNumber = 0, class Writer, class First, class... Rest>
SINTER_DEVICE auto with_aux(const Writer& writer, const Arguments& args,
                            BesideResults<First, Rest...>) {
  static_assert(kNumber + sizeof...(Rest) <= 1, "Arguments have two");
  using Element = typename First::Element;
  const GlobalWriter<Element, P::kN, First::kAligned> next{
      static_cast<typename Element::Stored*>(kNumber == 0 ? args.aux1 : args.aux2),
      kNumber == 0 ? args.aux1_stride : args.aux2_stride, args.m};
  if constexpr (sizeof...(Rest) == 0) {
    return ThenWriter(writer, next);
  } else {
    return ThenWriter(writer,
                      with_aux<Config, P, kNumber + 1>(next, args, BesideResults<Rest...>{}));
  }
}

// The matrix beside a thread's accumulators. A step is four column groups of one of its two rows:
// the upper one, then the lower, then the next four groups. As many steps are in registers as
// TermWindow leaves for a residual; what comes later is in L2 when it is loaded.
template <class Config, class P, class Matrix>
class HeldMatrix {
 public:
  using Element = typename Matrix::Element;
  using Pair = typename Matrix::Pair;
  // Called before the product.
  SINTER_DEVICE HeldMatrix(const Matrix& matrix, int row, int column, WarpgroupPlace place)
      : matrix_(matrix), row_(row), column_(column + place.n * P::kHalf), place_(place) {
    if constexpr (Matrix::kPresent) {
#pragma unroll
      for (int step = 0; step < kHeld; ++step) load(step);
      asm volatile("" ::: "memory");  // not to be loaded where they are used
#pragma unroll
      for (int g = kHeld / 2 * 4; g < P::kGroups; ++g)
        if (place.thread % 4 == g % 4)
#pragma unroll
          for (int half = 0; half < 2; ++half) matrix_.fetch(row_of(half), column_ + 8 * g);
    }
  }
  // Two columns of the i-th group of `step`.
  SINTER_DEVICE Pair of(int step, int i) const { return held_[step % kHeld][i]; }
  // `step` is not used any more: a later one takes its place.
  SINTER_DEVICE void release(int step) {
    if (Matrix::kPresent && step + kHeld < kSteps) load(step + kHeld);
  }

 private:
  static constexpr int kSteps = 2 * ceil_div(P::kGroups, 4);
  static constexpr int kStepWords = 4 * int{sizeof(Pair)} / 4;
  static constexpr int kFit = P::kGroups * (P::kGroups > 16 ? 1 : 2) / kStepWords;
  static constexpr int kHeld = kFit < 1 ? 1 : kFit < kSteps ? kFit : kSteps;

  // The row of the matrix; one behind its last where the tile has no such row.
  SINTER_DEVICE int row_of(int half) const {
    const int tile_row = place_.m * kWarpgroupRows + accumulator_row(place_.thread) + 8 * half;
    return tile_row < Config::kBlockM ? row_ + tile_row : matrix_.rows;
  }
  SINTER_DEVICE void load(int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int g = step / 2 * 4 + i;
      if (g < P::kGroups)
        held_[step % kHeld][i] =
            matrix_.pair(row_of(step % 2), column_ + P::pair_column(place_.thread, g));
    }
  }

  const Matrix& matrix_;
  const int row_, column_;
  const WarpgroupPlace place_;
  Pair held_[kHeld][4];
};

// All results of a warpgroup's accumulators. The tile begins at `row` and `column`.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Held>
SINTER_DEVICE void write_results(const float (&d)[P::kAccumulators], const EpilogueType& epilogue,
                                 Terms& terms,
                                 const HeldScaling<typename EpilogueType::Scaling>& scaling,
                                 const Writer& writer, int row, int column, WarpgroupPlace place,
                                 Held& held) {
  using Of = typename Held::Element;
  constexpr int kResults = kResultsOf<Writer>, kUp = P::kWidth == 2 ? 4 * P::kGroups : 0;
  jitter();
  terms.complete();
  const int first_row = place.m * kWarpgroupRows + accumulator_row(place.thread);
  column += place.n * P::kHalf;
#pragma unroll
  for (int begin = 0; begin < P::kGroups; begin += 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile_row = first_row + 8 * half, step = begin / 2 + half;
      const bool exists = tile_row < Config::kBlockM;
      const float scale = scaling.of_half(half);
      u32 words[kResults][4];  // of results of 16 bits, where there are four groups
#pragma unroll
      for (int g = begin; g < begin + 4 && g < P::kGroups; ++g) {
        const int i = 4 * g + 2 * half;
        const auto& two = terms.of(g);
        const auto r = held.of(step, g - begin);
        float low[kResults], high[kResults];
        epilogue.results(d[i], d[i + kUp], scale, two.of(0), Of::low(r), low);
        epilogue.results(d[i + 1], d[i + 1 + kUp], scale, two.of(1), Of::high(r), high);
        each_result(writer, [&](const auto& to, auto element, auto number) {
          constexpr int kNumber = decltype(number)::kValue;
          const auto both = decltype(element)::pack(low[kNumber], high[kNumber]);
          if constexpr (sizeof(both) == 4)
            if (begin + 4 <= P::kGroups) {
              words[kNumber][g - begin] = both;
              return;
            }
          if (exists) to.pair(row + tile_row, column + P::pair_column(place.thread, g), both);
        });
      }
      if (begin + 4 <= P::kGroups)
        each_result(writer, [&](const auto& to, auto element, auto number) {
          if constexpr (decltype(element)::kBytes == 2) {
            const Word4 v = as_stored<P>(words[decltype(number)::kValue]);
            if (exists) to.group(row + tile_row, column + 8 * (begin + place.thread % 4), v);
          }
        });
      held.release(step);
    }
    terms.release(begin);
  }
}

// The same with swapped operands, in the layout of SwappedWriter without a residual.
template <class Config, class P, class EpilogueType, class Writer, class Matrix>
class SwappedWriter<Config, P, EpilogueType, Writer, Beside<Matrix>> {
 public:
  // `none` outlives it.
  SINTER_DEVICE SwappedWriter(const EpilogueType& epilogue, const Writer& writer,
                              const Beside<Matrix>& matrix, const NoResidual& none, int row,
                              int column, WarpgroupPlace place)
      : at_(epilogue, writer, none, row, column, place), matrix_(matrix) {}

  // Prefetches the matrix into L2. Called before the product.
  SINTER_DEVICE void fetch() const {
    if constexpr (Matrix::kPresent) {
      if (threadIdx.x % 32 >= 4) return;  // lanes with other rows, of equal first columns
#pragma unroll
      for (int set = 0; set < kSets; ++set)
#pragma unroll
        for (int i = 0; i < 4 * kGroups; ++i)
          matrix_.fetch(row_of(i / 4) + i % 2, at_.result_column(set, i / 2 % 2));
    }
  }

  SINTER_DEVICE void write(const float (&d)[P::kAccumulators]) const {
    jitter();
    Step held[kAhead];
#pragma unroll
    for (int step = 0; step < kAhead && step < kSteps; ++step) held[step] = load(step);
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      u32 words[kResults][4];
#pragma unroll
      for (int of = step; of < step + 2 && of < kSteps && of / kPadded == step / kPadded; ++of) {
        if (of % kPadded < kGroups) write_step(d, of, held[of % kAhead], words);
        if (of + kAhead < kSteps) held[of % kAhead] = load(of + kAhead);
      }
      write_words(step / kPadded, step % kPadded, words);
    }
  }

 private:
  static constexpr int kGroups = Config::kBlockM / 8, kPadded = round_up(kGroups, 2);
  static constexpr int kSets = P::kHalf / kWarpgroupRows;
  static constexpr int kUp = P::kWidth == 2 ? kSets * Config::kBlockM / 2 : 0;
  static constexpr int kSteps = kSets * kPadded;  // of 8 rows; those behind kGroups are empty
  static constexpr int kAhead = P::kAccumulators > 96 ? 2 : 4;
  static constexpr int kResults = kResultsOf<Writer>;
  using Bare = SwappedWriter<Config, P, EpilogueType, Writer, NoResidual>;

  // Two columns of two rows: (row, column), (row + 1, column), and the same 8 columns further.
  struct Step {
    float r[4];
  };
  SINTER_DEVICE int row_of(int g) const { return at_.row_ + 8 * g + at_.place_.row; }
  SINTER_DEVICE Step load(int step) const {
    Step loaded = {};
    const int set = step / kPadded, row = row_of(step % kPadded);
    if (step % kPadded < kGroups)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        loaded.r[i] = matrix_.one(row + i % 2, at_.result_column(set, i / 2));
    return loaded;
  }

  SINTER_DEVICE void write_step(const float (&d)[P::kAccumulators], int step, const Step& matrix,
                                u32 (&words)[kResults][4]) const {
    const int set = step / kPadded, g = step % kPadded, row = row_of(g);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = set * (Config::kBlockM / 2) + 4 * g + 2 * half;
      const int column = at_.result_column(set, half);
      const ColumnTerms& terms = at_.terms_[set][half];
      const EpilogueType& epilogue = at_.epilogue_;
      float low[kResults], high[kResults];
      epilogue.results(d[i], d[i + kUp], epilogue.scaling.at(row), terms, matrix.r[2 * half], low);
      epilogue.results(d[i + 1], d[i + 1 + kUp], epilogue.scaling.at(row + 1), terms,
                       matrix.r[2 * half + 1], high);
      each_result(at_.writer_, [&](const auto& to, auto element, auto number) {
        constexpr int kNumber = decltype(number)::kValue;
        if constexpr (decltype(element)::kBytes == 4) {
          to.element(row, column, low[kNumber]);
          to.element(row + 1, column, high[kNumber]);
        } else {
          words[kNumber][g % 2 * 2 + half] =
              transpose_8x8(decltype(element)::pack(low[kNumber], high[kNumber]));
        }
      });
    }
  }

  // Results of 16 bits of 16 rows from group `g`, or of the last 8.
  SINTER_DEVICE void write_words(int set, int g, const u32 (&words)[kResults][4]) const {
    each_result(at_.writer_, [&](const auto& to, auto element, auto number) {
      constexpr int kNumber = decltype(number)::kValue;
      if constexpr (decltype(element)::kBytes == 2) {
        if (g + 1 < kGroups) {
          to.group(at_.stored_row(g), at_.stored_column(set), quad_transpose(words[kNumber]));
          return;
        }
        const int row = at_.row_ + 8 * g + at_.place_.stored;
        const int column = at_.column_ + at_.place_.first + kWarpgroupRows * set + 2 * at_.quad_;
        to.pair(row, column, words[kNumber][0]);
        to.pair(row, column + 8, words[kNumber][1]);
      }
    });
  }

  const Bare at_;
  const Beside<Matrix>& matrix_;
};

// Where ranks share K: the sums of the rows that this block owns, of units as in DsmReduceScatter.
// `r`: the matrix beside this thread's first unit.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Matrix>
SINTER_DEVICE void sum_results(const DsmReduceScatter<Config, P>& reduce,
                               const EpilogueType& epilogue, float next_scale, Terms next_terms,
                               const Writer& writer, int row, int column, const Matrix& matrix) {
  using Reduce = DsmReduceScatter<Config, P>;
  using Of = typename Matrix::Element;
  constexpr int kUnits = P::kOwnerRows * P::kTileGroups, kResults = kResultsOf<Writer>;
  const auto row_of = [&](int unit) { return reduce.rank * P::kOwnerRows + unit % P::kOwnerRows; };
  typename Matrix::Pair ahead[4] = {};
  const auto load = [&](int unit) {
    if (unit < kUnits && row_of(unit) < Config::kBlockM)
      matrix.eight(row + row_of(unit), column + 8 * (unit / P::kOwnerRows), ahead);
  };
  load(reduce.first_unit());
  mbarrier_wait(reduce.full, reduce.parity);
  jitter();
  for (int unit = reduce.first_unit(); unit < kUnits; unit += Reduce::kThreads) {
    typename Matrix::Pair r[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = ahead[i];
    const float scale = next_scale;
    const Terms terms = next_terms;
    load(unit + Reduce::kThreads);
    next_scale = reduce.scale_of(unit + Reduce::kThreads, epilogue, row);
    next_terms = reduce.terms_of(unit + Reduce::kThreads, epilogue, column);
    const int group = unit / P::kOwnerRows, owner_row = unit % P::kOwnerRows;
    if (row_of(unit) >= Config::kBlockM) continue;
    float x[8] = {}, up[8] = {};
#pragma unroll(Reduce::kUnroll)
    for (int source = 0; source < P::kSplitK; ++source) {
      reduce.add_group(x, source, group, owner_row);
      if (P::kWidth == 2) reduce.add_group(up, source, group + P::kTileGroups, owner_row);
    }
    float results[8][kResults];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      epilogue.results(x[i], up[i], scale, terms.of(i),
                       i % 2 == 0 ? Of::low(r[i / 2]) : Of::high(r[i / 2]), results[i]);
    const int to_row = row + row_of(unit), c = column + 8 * group;
    each_result(writer, [&](const auto& to, auto element, auto number) {
      constexpr int kNumber = decltype(number)::kValue;
      using E = decltype(element);
      const auto pair = [&](int i) {
        return E::pack(results[i][kNumber], results[i + 1][kNumber]);
      };
      if constexpr (E::kBytes == 2)
        to.group(to_row, c, Word4{pair(0), pair(2), pair(4), pair(6)});
      else
#pragma unroll
        for (int i = 0; i < 8; i += 2) to.pair(to_row, c + i, pair(i));
    });
  }
}

// The same with swapped operands, of units as in SwappedParts.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Matrix>
SINTER_DEVICE void sum_swapped_results(const DsmReduceScatter<Config, P>& reduce,
                                       const EpilogueType& epilogue, Terms next_terms,
                                       const Writer& writer, int row, int column,
                                       const Matrix& matrix) {
  using Parts = SwappedParts<Config, P>;
  using Of = typename Matrix::Element;
  constexpr int kResults = kResultsOf<Writer>;
  typename Matrix::Pair upper_ahead = {}, lower_ahead = {};
  const auto load = [&](int unit) {
    if (!Parts::exists(reduce, unit)) return;
    const int r = row + Parts::row_of(reduce, unit), c = column + Parts::column_of(unit);
    upper_ahead = matrix.pair(r, c);
    lower_ahead = matrix.pair(r + 1, c);
  };
  load(reduce.first_unit());
  mbarrier_wait(reduce.full, reduce.parity);
  jitter();
  for (int unit = reduce.first_unit(); Parts::exists(reduce, unit); unit += Parts::kThreads) {
    const auto upper = upper_ahead, lower = lower_ahead;
    const ColumnTerms left = next_terms.of(0), right = next_terms.of(1);
    load(unit + Parts::kThreads);
    if (Parts::kThreads % Parts::kColumnPairs != 0)
      next_terms = reduce.terms_of(unit + Parts::kThreads, epilogue, column);
    Float4 x = {}, up = {};
    for (int source = 0; source < P::kSplitK; ++source) {
      Parts::add(&x, reduce.parts, source, unit, 0);
      if (P::kWidth == 2) Parts::add(&up, reduce.parts, source, unit, P::kBlockN);
    }
    const int r = row + Parts::row_of(reduce, unit), c = column + Parts::column_of(unit);
    const float of_upper = epilogue.scaling.at(r), of_lower = epilogue.scaling.at(r + 1);
    float y[4][kResults];
    epilogue.results(x.x, up.x, of_upper, left, Of::low(upper), y[0]);
    epilogue.results(x.y, up.y, of_lower, left, Of::low(lower), y[1]);
    epilogue.results(x.z, up.z, of_upper, right, Of::high(upper), y[2]);
    epilogue.results(x.w, up.w, of_lower, right, Of::high(lower), y[3]);
    each_result(writer, [&](const auto& to, auto element, auto number) {
      constexpr int kNumber = decltype(number)::kValue;
      using E = decltype(element);
      to.pair(r, c, E::pack(y[0][kNumber], y[2][kNumber]));
      to.pair(r + 1, c, E::pack(y[1][kNumber], y[3][kNumber]));
    });
  }
}

// As DsmReduceScatter::run.
template <class Config, class P, class EpilogueType, class Terms, class Writer, class Matrix>
SINTER_DEVICE void reduce_results(DsmReduceScatter<Config, P>& reduce,
                                  const float (&d)[P::kAccumulators], WarpgroupPlace place,
                                  const EpilogueType& epilogue, float scale, const Terms& terms,
                                  const Writer& writer, int row, int column, bool again,
                                  const Matrix& matrix) {
  if (ConsumerGroup<Config>::is_first())
    mbarrier_arrive_expect(reduce.full, reduce.expected_bytes());
  mbarrier_wait(reduce.empty, reduce.primed ? reduce.parity ^ 1 : reduce.parity);
  if constexpr (Config::kSwapped) {
    SwappedParts<Config, P>::send(reduce, d, place);
    sum_swapped_results(reduce, epilogue, terms, writer, row, column, matrix);
  } else {
    reduce.send(d, place);
    sum_results(reduce, epilogue, scale, terms, writer, row, column, matrix);
  }
  if (again) reduce.release();
  reduce.parity ^= 1;
}

// Overloads that of kernels/block.cuh.
template <class Config, class P, class Multiply, class Reduce, class EpilogueType, class Writer,
          class Matrix>
SINTER_DEVICE void multiply_and_write(const Multiply& multiply, WarpgroupPlace place,
                                      Reduce& reduce, const EpilogueType& epilogue,
                                      const Writer& writer, int row, int column, bool again,
                                      const Beside<Matrix>& matrix) {
  float accumulators[P::kAccumulators];
  if constexpr (P::kSplitK > 1) {
    if constexpr (Matrix::kPresent) reduce.fetch(matrix, row, column);
    const float scale = reduce.scale_of(reduce.first_unit(), epilogue, row);
    const auto terms = reduce.terms_of(reduce.first_unit(), epilogue, column);
    multiply(accumulators);
    reduce_results<Config, P>(reduce, accumulators, place, epilogue, scale, terms, writer, row,
                              column, again, matrix);
  } else if constexpr (Config::kSwapped) {
    const NoResidual none = {};
    const SwappedWriter<Config, P, EpilogueType, Writer, Beside<Matrix>> swapped(
        epilogue, writer, matrix, none, row, column, place);
    swapped.fetch();
    multiply(accumulators);
    swapped.write(accumulators);
  } else {
    const HeldScaling<typename EpilogueType::Scaling> scaling(epilogue.scaling, row, place);
    HeldTerms<EpilogueType, TermWindow<Config, P, EpilogueType, Matrix::kPresent>, 1> terms(
        epilogue, column + place.n * P::kHalf, place.thread);
    HeldMatrix<Config, P, Matrix> held(matrix, row, column, place);
    multiply(accumulators);
    write_results<Config, P>(accumulators, epilogue, terms, scaling, writer, row, column, place,
                             held);
  }
}

}  // namespace sinter
