// One product (or gate-up pair) a launch, whose extents and epilogue are arguments. Compiled when
// the library is built, for a few tiles; stands in until a kernel of dataflow "product" is
// compiled. Operands are swapped. Sums always pass through the parts of dsm_reduce_scatter, also
// where one block has all of K: its loop over them is short code, which an epilogue that decides at
// run time needs.
#pragma once
#include "kernels/tile_ends.cuh"

namespace sinter {

constexpr int kAnyProducerRegisters = 40;

// What the epilogue does: bits of AnyArguments::flags, with the activation, and that of the sum
// with the residual, three bits each, before the last.
enum AnyFlag : u32 {
  kAnyBias = 1,
  kAnyResidual = 2,
  kAnyFactor = 4,         // a number a row, of the element
  kAnyFactor32 = 8,       // the same in f32
  kAnyRounds = 16,        // before the residual is added
  kAnyOutAligned = 32,    // 16-byte groups of columns
  kAnyAddedAligned = 64,  // the same of the residual
  kAnyConstantWeights = 128,
  kAnyWide = 1 << 14  // the result is f32; nothing is added to it
};
constexpr int kAnyActivationAt = 8, kAnySumActivationAt = 11;

struct AnyArguments {
  const TensorMap *a, *w1, *w_up;
  const void *bias1, *bias_up, *residual, *factor;
  void* out;
  int n, k;
  float scale;
  u32 flags;
  int residual_stride, out_stride, m;
};

// An activation by its number in the host's enum: 0 none, 1 relu, 2 gelu by tanh, 3 gelu by erf,
// 4 silu. The same for all threads, so that branches are uniform.
struct AnyActivation {
  u32 kind;
  SINTER_DEVICE float apply(float x) const {
    if (kind == 0) return x;
    if (kind == 1) return Relu::apply(x);
    if (kind == 3) return GeluErf::apply(x);
    return kind == 4 ? Silu::apply(x) : GeluTanh::apply(x);
  }
};

// A constant times, where there are some, a factor of the row.
template <class Element>
struct AnyScaling {
  static constexpr bool kPresent = true, kColumns = false;
  const void* factors;
  float constant;
  int rows;
  u32 flags;
  SINTER_DEVICE float at(int row) const {
    if ((flags & (kAnyFactor | kAnyFactor32)) == 0) return constant;
    if (row >= rows) return 0.0f;
    return constant *
           ((flags & kAnyFactor32)
                ? static_cast<const float*>(factors)[row]
                : Element::unpack(static_cast<const typename Element::Stored*>(factors)[row]));
  }
};

template <class P, class Element>
struct AnyEpilogue {
  using Scaling = AnyScaling<Element>;
  using Stored = typename Element::Stored;
  const Stored *bias, *bias_up;
  Scaling scaling;
  AnyActivation activation;
  int columns;

  SINTER_DEVICE float apply(float x, float up, int column, float scale) const {
    x *= scale;
    if (P::kWidth == 2) up *= scale;
    if ((scaling.flags & kAnyBias) && column < columns) {
      x += Element::unpack(bias[column]);
      if (P::kWidth == 2) up += Element::unpack(bias_up[column]);
    }
    const float y = activation.apply(x);
    return P::kWidth == 2 ? y * up : y;
  }
};

// A row-major matrix; nothing outside of it is read or written.
template <class Element>
struct AnyRows {
  using Stored = typename Element::Stored;
  Stored* data;
  long long stride;  // elements between rows
  int rows, columns;
  bool aligned;

  SINTER_DEVICE bool has(int row, int column) const { return row < rows && column < columns; }
  SINTER_DEVICE Stored* at(int row, int column) const { return data + row * stride + column; }

  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    if (!has(row, column)) return;
    Stored* p = at(row, column);
    if (aligned) {
      *reinterpret_cast<u32*>(p) = v;
    } else {
      p[0] = static_cast<Stored>(v);
      if (column + 1 < columns) p[1] = static_cast<Stored>(v >> 16);
    }
  }
  // Of a matrix of f32.
  SINTER_DEVICE void floats(int row, int column, float low, float high) const {
    float* p = reinterpret_cast<float*>(data) + row * stride + column;
    if (has(row, column)) p[0] = low;
    if (has(row, column + 1)) p[1] = high;
  }
  SINTER_DEVICE u32 word(int row, int column) const {
    if (!has(row, column)) return 0;
    const Stored* p = at(row, column);
    if (aligned) return *reinterpret_cast<const u32*>(p);
    const u32 high = column + 1 < columns ? p[1] : 0;
    return p[0] | high << 16;
  }
};

// The residual where there is one. Its rows are 0 where there is none, so that nothing is read.
template <class Element>
struct AnyAdded {
  static constexpr bool kPresent = true;
  using Pair = u32;
  using Stored = typename Element::Stored;
  AnyRows<Element> from;
  u32 flags;
  AnyActivation activation;

  SINTER_DEVICE u32 pair(int row, int column) const { return from.word(row, column); }
  SINTER_DEVICE void fetch(int row, int column) const {
    if (from.has(row, column)) prefetch_l2(from.at(row, column));
  }
  SINTER_DEVICE u32 add(float low, float high, u32 r) const {
    if ((flags & kAnyResidual) == 0) return Element::pack(low, high);
    if (flags & kAnyRounds) {
      const u32 w = Element::pack(low, high);
      low = Element::low(w);
      high = Element::high(w);
    }
    return Element::pack(activation.apply(low + Element::low(r)),
                         activation.apply(high + Element::high(r)));
  }
};

// UnitWalk with extents known at run time.
template <class Config>
struct AnyWalk {
  using P = typename Config::First;
  static constexpr int kBand = 16;
  int step, first, m_units, column_units, begin, end;
  SINTER_DEVICE AnyWalk(int rank, const AnyArguments& args)
      : step(gridDim.x / Config::kCluster),
        first(blockIdx.x / Config::kCluster),
        m_units(ceil_div(args.m, Config::kBlockM)),
        column_units(ceil_div(args.n, P::kBlockN)) {
    const int blocks = ceil_div(args.k, Config::kBlockK);
    begin = blocks * rank / P::kSplitK;
    end = blocks * (rank + 1) / P::kSplitK;
  }
  SINTER_DEVICE int units() const { return m_units * column_units; }
  SINTER_DEVICE int row(int unit) const {
    return (band(unit) * kBand + within(unit) % height(unit)) * Config::kBlockM;
  }
  SINTER_DEVICE int column(int unit) const { return within(unit) / height(unit) * P::kBlockN; }

 private:
  SINTER_DEVICE int band(int unit) const { return unit / (kBand * column_units); }
  SINTER_DEVICE int within(int unit) const { return unit % (kBand * column_units); }
  SINTER_DEVICE int height(int unit) const {
    const int left = m_units - band(unit) * kBand;
    return left < kBand ? left : kBand;
  }
};

template <class Config>
struct AnyProductTypes {
  using P = typename Config::First;
  static constexpr int kPartBytes = P::kSplitK * P::kOwnerRows * P::kColumns * 4;
  using Layout = SharedLayout<Config, P::kRowsBytes + P::kWeightBytes, 0, kPartBytes>;
  using BlockType = Block<Config, Layout>;
};

// The end of a tile: as dsm_reduce_scatter's sum of swapped parts, with what is decided at run
// time.
template <class Config, class P>
struct AnyEnd {
  using Element = typename Config::Element;
  using Parts = SwappedParts<Config, P>;
  using Beside = typename Parts::template Elements<AnyAdded<Element>>;
  DsmReduceScatter<Config, P> reduce;
  AnyEpilogue<P, Element> epilogue;
  AnyRows<Element> writer;
  AnyAdded<Element> added;

  // `ahead`: what is added to this thread's first unit, on its way.
  SINTER_DEVICE void sum(int row, int column, Beside ahead) const {
    for (int unit = reduce.first_unit(); Parts::exists(reduce, unit); unit += Parts::kThreads) {
      const Beside beside = ahead;
      ahead = Parts::beside(reduce, unit + Parts::kThreads, added, row, column);
      Float4 x = {}, up = {};
      for (int source = 0; source < P::kSplitK; ++source) {
        Parts::add(&x, reduce.parts, source, unit, 0);
        if (P::kWidth == 2) Parts::add(&up, reduce.parts, source, unit, P::kBlockN);
      }
      const int r = row + Parts::row_of(reduce, unit), c = column + Parts::column_of(unit);
      const float upper = epilogue.scaling.at(r), lower = epilogue.scaling.at(r + 1);
      store(r, c, epilogue.apply(x.x, up.x, c, upper), epilogue.apply(x.z, up.z, c + 1, upper),
            beside.upper);
      store(r + 1, c, epilogue.apply(x.y, up.y, c, lower), epilogue.apply(x.w, up.w, c + 1, lower),
            beside.lower);
    }
  }
  // Two results side by side, with what lies at their place of the residual.
  SINTER_DEVICE void store(int row, int column, float low, float high, u32 r) const {
    if (added.flags & kAnyWide)
      writer.floats(row, column, low, high);
    else
      writer.pair(row, column, added.add(low, high, r));
  }

  // As SwappedParts::send where one block has all of K: without a cluster there is no remote store.
  SINTER_DEVICE void keep(const float (&d)[P::kAccumulators], WarpgroupPlace place) const {
    constexpr int kSets = P::kHalf / kWarpgroupRows;
    const SwappedPlace<P> at(place);
#pragma unroll
    for (int g = 0; g < Config::kBlockM / 8; ++g) {
#pragma unroll
      for (int set = 0; set < P::kSets; ++set) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = set * (Config::kBlockM / 2) + 4 * g + 2 * half;
          const int column =
              set / kSets * P::kBlockN + at.column + set % kSets * kWarpgroupRows + 8 * half;
          const u32 to = reduce.parts + pair_part_offset(0, Parts::kPairs, (8 * g + at.row) / 2,
                                                         P::kColumns, column);
          store_shared(to, __float_as_uint(d[i]));
          store_shared(to + 4, __float_as_uint(d[i + 1]));
        }
      }
    }
  }
  SINTER_DEVICE void run_alone(const float (&d)[P::kAccumulators], WarpgroupPlace place, int row,
                               int column) const {
    named_barrier(1, Parts::kThreads);  // the last tile's parts have been read
    keep(d, place);
    const auto ahead = Parts::beside(reduce, reduce.first_unit(), added, row, column);
    named_barrier(1, Parts::kThreads);
    sum(row, column, ahead);
  }

  // As DsmReduceScatter::run.
  SINTER_DEVICE void run(const float (&d)[P::kAccumulators], WarpgroupPlace place, int row,
                         int column, bool again) {
    if (threadIdx.x == 128) mbarrier_arrive_expect(reduce.full, reduce.expected_bytes());
    mbarrier_wait(reduce.empty, reduce.parity ^ 1);
    Parts::send(reduce, d, place);
    const auto ahead = Parts::beside(reduce, reduce.first_unit(), added, row, column);
    mbarrier_wait(reduce.full, reduce.parity);
    sum(row, column, ahead);
    if (again) reduce.release();
    reduce.parity ^= 1;
  }
};

template <class Config, class BlockType>
SINTER_DEVICE void any_product_consume(const AnyArguments& args, const BlockType& block, u32 parts,
                                       const AnyWalk<Config>& walk) {
  using P = typename Config::First;
  using Element = typename Config::Element;
  using Stored = typename Element::Stored;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const int rows = args.flags & kAnyResidual ? args.m : 0;
  AnyEnd<Config, P> end{{parts, block.own_barrier(0), block.own_barrier(1), 0, block.rank, true},
                        {static_cast<const Stored*>(args.bias1),
                         static_cast<const Stored*>(args.bias_up),
                         {args.factor, args.scale, args.m, args.flags},
                         {args.flags >> kAnyActivationAt & 7},
                         args.n},
                        {static_cast<Stored*>(args.out), args.out_stride, args.m, args.n,
                         (args.flags & kAnyOutAligned) != 0},
                        {{static_cast<Stored*>(const_cast<void*>(args.residual)),
                          args.residual_stride, rows, args.n, (args.flags & kAnyAddedAligned) != 0},
                         args.flags,
                         {args.flags >> kAnySumActivationAt & 7}}};
  for (int unit = walk.first; unit < walk.units(); unit += walk.step) {
    float accumulators[P::kAccumulators];
    end.reduce.fetch(end.added, walk.row(unit), walk.column(unit));
    accumulate<Config, P, true>(accumulators, block.ring, cursor, 0, walk.end - walk.begin, place);
    if constexpr (P::kSplitK == 1)
      end.run_alone(accumulators, place, walk.row(unit), walk.column(unit));
    else
      end.run(accumulators, place, walk.row(unit), walk.column(unit),
              unit + walk.step < walk.units());
  }
}

template <class Config, class BlockType>
SINTER_DEVICE void any_product_produce(const AnyArguments& args, const BlockType& block,
                                       const AnyWalk<Config>& walk) {
  using P = typename Config::First;
  typename BlockType::CursorType cursor;
  const ProductMaps maps{args.a, args.w1, args.w_up};
  if ((args.flags & kAnyConstantWeights) == 0) wait_for_predecessors();
  if (threadIdx.x == 32 * kWeightsWarp)
    for (int unit = walk.first; unit < walk.units(); unit += walk.step)
      produce_weights<Config, P, true>(block.ring, cursor, maps, walk.column(unit), walk.begin,
                                       walk.end);
  wait_for_predecessors();
  if (threadIdx.x == 32 * kRowsWarp)
    for (int unit = walk.first; unit < walk.units(); unit += walk.step)
      produce_rows<Config, P>(block.ring, cursor, maps, walk.row(unit), walk.begin, walk.end);
  block.join();
}

template <class Config>
SINTER_DEVICE void any_product(const AnyArguments& args) {
  using T = AnyProductTypes<Config>;
  using P = typename T::P;
  typename T::BlockType block;
  const AnyWalk<Config> walk(block.rank, args);
  launch_dependents();
  if (walk.first >= walk.units()) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), P::kSplitK);
  }
  block.ready();
  if (block.is_producer()) {
    become_producer<Config, kAnyProducerRegisters>();
    any_product_produce<Config>(args, block, walk);
  } else {
    become_consumer<Config, kAnyProducerRegisters>();
    wait_for_predecessors();
    block.join();
    any_product_consume<Config>(args, block, block.base + T::Layout::kParts, walk);
  }
}

}  // namespace sinter
