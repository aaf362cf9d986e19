// Dataflow "resident weights": persistent clusters keep both products' weights in shared memory and
// walk over row tiles. Each block has a range of N, which it takes in chunks: a chunk of C stays in
// the registers of the warpgroup that computed it, which multiplies it by its rows of the second
// weights. Where a cluster has several blocks, they add their parts of E through distributed shared
// memory.
//
// A lane is a consumer warpgroup, the producer warp that loads its rows, and a ring of its own. Its
// row tiles have 64 rows. Lanes share the weights and nothing else, so one multiplies while another
// runs an epilogue.
#pragma once
#include "kernels/tile_ends.cuh"

namespace sinter {

constexpr int kLaneProducerRegisters = 40;
constexpr int kResidentWarp = 3;  // loads the weights; the warps before it load rows, one a lane

// The products as a lane has them: a row tile of its own, no other warpgroup beside it.
template <class Config>
struct LaneConfig : Config {
  template <class P, int kSplitK>
  using Of =
      Product<LaneConfig, P::kWidth, P::kN, P::kK, P::kBlockN, kSplitK, 1, 1, typename P::Rows>;
  static constexpr int kBlockM = kWarpgroupRows, kWarpgroupsM = 1;
  using First = Of<typename Config::First, 1>;
  using Second = Of<typename Config::Second, Config::kCluster>;
};

template <class Config>
struct ConsumerGroup<LaneConfig<Config>> {
  static SINTER_DEVICE int thread() { return threadIdx.x % 128; }
  static SINTER_DEVICE bool is_first() { return thread() == 0; }
  static SINTER_DEVICE u32 barrier() { return threadIdx.x / 128; }
};

// Sums of both products leave few registers to terms: none are held before a product.
template <class P>
struct FourTerms {
  using Columns = P;
  static constexpr int kAll = round_up(P::kGroups, 4), kGroups = 4, kBefore = 0;
};
template <class Config, class P, class EpilogueType, bool kMatrix>
struct TermWindow<LaneConfig<Config>, P, EpilogueType, kMatrix> : FourTerms<P> {};

template <class Config>
struct ResidentWeightsTypes {
  using Lane = LaneConfig<Config>;
  using First = typename Lane::First;
  using Second = typename Lane::Second;
  static constexpr int kLanes = Config::kWarpgroupsM;
  static constexpr int kChunks = ceil_div(First::kN, First::kBlockN* Config::kCluster);
  static constexpr int kChunkBlocks = ceil_div(First::kBlockN, Config::kBlockK);  // of K, in W2
  static constexpr int kFirstBytes = First::kKBlocks * First::kWeightBytes;       // of a chunk
  static constexpr int kChunkBytes = kFirstBytes + kChunkBlocks * Second::kWeightBytes;
  using Layout = SharedLayout<Config, kLanes * First::kRowsBytes, kChunks * kChunkBytes,
                              kLanes * Second::kPartBytes>;
  using BlockType = Block<Config, Layout>;
  using RingType = Ring<Config::kStages, First::kRowsBytes>;
  using CursorType = Cursor<Config::kStages>;
  using Reduce = DsmReduceScatter<Lane, Second>;
  static constexpr int kLaneBarriers = RingType::kBarrierBytes + 16;
  static_assert(Config::kWarpgroupsN == 1 && First::kBlockN % Lane::Element::kWgmmaK == 0,
                "a warpgroup holds whole K steps of the second product");
  static_assert(kChunks * Config::kCluster == 1 || First::kBlockN % Config::kBlockK == 0,
                "chunks are whole K blocks of the second product");
  static_assert(kChunks == 1 || First::kKBlocks <= Config::kStages,
                "all chunks multiply the same stages");
  static_assert(kLanes * kLaneBarriers + 16 * kChunks <= 1024, "barriers fit");
};

// What a lane and the block's weights occupy, and which row tiles a lane takes.
template <class Config>
struct ResidentPlace {
  using T = ResidentWeightsTypes<Config>;
  const typename T::BlockType& block;
  int lane, clusters = gridDim.x / Config::kCluster;

  SINTER_DEVICE typename T::RingType ring() const {
    return {block.base + lane * Config::kStages * T::First::kRowsBytes,
            block.barriers + lane * T::kLaneBarriers};
  }
  // 0: parts of E are there; 1: the peers' are free.
  SINTER_DEVICE u32 own_barrier(int index) const {
    return block.barriers + lane * T::kLaneBarriers + T::RingType::kBarrierBytes + 8 * index;
  }
  SINTER_DEVICE u32 parts() const {
    return block.base + T::Layout::kParts + lane * T::Second::kPartBytes;
  }
  SINTER_DEVICE u32 weights(int chunk, int product) const {
    return block.base + T::Layout::kExchange + chunk * T::kChunkBytes + product * T::kFirstBytes;
  }
  SINTER_DEVICE u32 weights_full(int chunk, int product) const {
    return block.barriers + T::kLanes * T::kLaneBarriers + 16 * chunk + 8 * product;
  }
  // Row tiles go round the clusters, then round their lanes.
  SINTER_DEVICE int first_row() const {
    return (static_cast<int>(blockIdx.x) / Config::kCluster + lane * clusters) * kWarpgroupRows;
  }
  SINTER_DEVICE int step() const { return clusters * T::kLanes * kWarpgroupRows; }
  SINTER_DEVICE int c_column(int chunk) const {
    return (block.rank * T::kChunks + chunk) * T::First::kBlockN;
  }
};

template <class Config>
SINTER_DEVICE void init_resident(ResidentPlace<Config> at) {
  using T = ResidentWeightsTypes<Config>;
  for (at.lane = 0; at.lane < T::kLanes; ++at.lane) {
    at.ring().init(1);
    mbarrier_init(at.own_barrier(0), 1);
    mbarrier_init(at.own_barrier(1), Config::kCluster);
  }
  for (int i = 0; i < 2 * T::kChunks; ++i) mbarrier_init(at.weights_full(i / 2, i % 2), 1);
}

// Loads `count` K blocks of weights from block `begin` on, one behind the other. One thread.
template <class Lane, class P>
SINTER_DEVICE void load_resident(const ProductMaps& maps, u32 address, u32 full, int begin,
                                 int count, int column) {
  mbarrier_arrive_expect(full, count * P::kWeightBytes);
#pragma unroll 1
  for (int i = 0; i < count; ++i)
    load_weights<Lane, P>(maps, address + i * P::kWeightBytes, full, begin + i, column, {});
}

template <class Config>
SINTER_DEVICE void produce_resident(const Arguments& args, const ResidentPlace<Config>& at) {
  using T = ResidentWeightsTypes<Config>;
#pragma unroll 1
  for (int chunk = 0; chunk < T::kChunks; ++chunk) {
    const int column = at.c_column(chunk);
    load_resident<typename T::Lane, typename T::First>(
        {nullptr, args.w1, args.w_up}, at.weights(chunk, 0), at.weights_full(chunk, 0), 0,
        T::First::kKBlocks, column);
    load_resident<typename T::Lane, typename T::Second>(
        {nullptr, args.w2, nullptr}, at.weights(chunk, 1), at.weights_full(chunk, 1),
        column / Config::kBlockK, T::kChunkBlocks, 0);
  }
}

template <class Config>
SINTER_DEVICE void produce_lane(const Arguments& args, const ResidentPlace<Config>& at) {
  using T = ResidentWeightsTypes<Config>;
  typename T::CursorType cursor;
  const ProductMaps maps{args.a, nullptr, nullptr};
  for (int row = at.first_row(); row < args.m; row += at.step())
    produce_rows<typename T::Lane, typename T::First, true>(at.ring(), cursor, maps, row, 0,
                                                            T::First::kKBlocks);
}

// accumulators = rows of the ring x resident weights. `done`: no other chunk multiplies these rows.
template <class Lane, class P, class RingType, class CursorType>
SINTER_DEVICE void accumulate_resident(float (&accumulators)[P::kAccumulators],
                                       const RingType& ring, CursorType& cursor, u32 weights,
                                       WarpgroupPlace place, bool done) {
  u32 previous = 0;
  int count = P::kKBlocks;
  asm volatile("" : "+r"(count));  // as in accumulate()
  int i = 0;
#pragma unroll 1
  do {
    mbarrier_wait(ring.full(cursor.stage), cursor.parity);
    wgmma_fence();
    RowsByWeights<Lane, P>::issue(accumulators, uniform(ring.address(cursor.stage)),
                                  uniform(weights), place, i != 0);
    wgmma_commit();
    wgmma_wait<1>();
    release_stage<Lane>(ring, previous, cursor, done && i > 0, place);
    previous = cursor.stage;
    weights += P::kWeightBytes;
    cursor.advance();
  } while (++i < count);
  wgmma_wait<0>();
  release_stage<Lane>(ring, previous, cursor, done, place);
}

// A thread's columns of C, rounded, as wgmma takes its left operand: words 4 s to 4 s + 3 are of
// K step s.
template <class P, class Element, class EpilogueType, class Terms>
SINTER_DEVICE void round_c(u32 (&c)[P::kGroups * 2], const float (&d)[P::kAccumulators],
                           const EpilogueType& epilogue, Terms& terms,
                           const HeldScaling<typename EpilogueType::Scaling>& scaling) {
  constexpr int kUp = P::kWidth == 2 ? 4 * P::kGroups : 0;
  terms.complete();
#pragma unroll
  for (int g = 0; g < P::kGroups; ++g) {
    const auto& two = terms.of(g);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * g + 2 * half;
      const float scale = scaling.of_half(half);
      c[2 * g + half] = Element::pack(epilogue.apply(d[i], d[i + kUp], scale, two.of(0)),
                                      epilogue.apply(d[i + 1], d[i + 1 + kUp], scale, two.of(1)));
    }
    if (g % 4 == 3) terms.release(g - 3);
  }
}

// accumulators (+)= C in registers x resident weights.
template <class Lane, class P, int kWords>
SINTER_DEVICE void multiply_c(float (&accumulators)[P::kAccumulators], u32 (&c)[kWords],
                              u32 weights, bool more) {
  using Mma = RegisterWgmma<P::kMmaN, typename Lane::Element, Lane::kWeightsTransposed>;
  using Step = u32[4];
  wgmma_fence();
#pragma unroll
  for (int s = 0; s < kWords / 4; ++s) {
    const u64 b = weights_descriptor<Lane, P>(weights + s / P::kSteps * P::kWeightBytes, 0) +
                  weights_step<Lane, P>(s % P::kSteps);
    Mma::mma(accumulators, reinterpret_cast<Step&>(c[4 * s]), b, more || s != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
}

// A lane's part of E of its next row tile: over the block's range of N.
template <class Config, class Scaling, class EpilogueType>
SINTER_DEVICE void multiply_tile(float (&e)[ResidentWeightsTypes<Config>::Second::kAccumulators],
                                 typename ResidentWeightsTypes<Config>::CursorType& cursor,
                                 const ResidentPlace<Config>& at, const EpilogueType& epilogue,
                                 int row, WarpgroupPlace place) {
  using T = ResidentWeightsTypes<Config>;
  using First = typename T::First;
  const HeldScaling<Scaling> scaling(epilogue.scaling, row, place);
#pragma unroll 1
  for (int chunk = 0; chunk < T::kChunks; ++chunk) {
    const bool last = chunk + 1 == T::kChunks;
    typename T::CursorType stages = cursor;
    float d[First::kAccumulators];
    HeldTerms<EpilogueType, FourTerms<First>> terms(epilogue, at.c_column(chunk), place.thread);
    mbarrier_wait(at.weights_full(chunk, 0), 0);
    accumulate_resident<typename T::Lane, First>(d, at.ring(), stages, at.weights(chunk, 0), place,
                                                 last);
    u32 c[2 * First::kGroups];
    round_c<First, typename Config::Element>(c, d, epilogue, terms, scaling);
    mbarrier_wait(at.weights_full(chunk, 1), 0);
    multiply_c<typename T::Lane, typename T::Second>(e, c, uniform(at.weights(chunk, 1)),
                                                     chunk > 0);
    if (last) cursor = stages;
  }
}

template <class Config, class Matrix, class Scaling1, class Scaling2>
SINTER_DEVICE void consume_lane(const Arguments& args, const ResidentPlace<Config>& at) {
  using T = ResidentWeightsTypes<Config>;
  using Lane = typename T::Lane;
  using Second = typename T::Second;
  typename T::CursorType cursor;
  const WarpgroupPlace place{0, 0, static_cast<int>(threadIdx.x) % 128};
  typename T::Reduce reduce{at.parts(), at.own_barrier(0), at.own_barrier(1),
                            0,          at.block.rank,     true};
  const auto epilogue = first_epilogue<Lane, Scaling1>(args);
  const auto last_epilogue = second_epilogue<Lane, Scaling2>(args);
  const auto writer = output_writer<Lane>(args);
  const Matrix matrix = Matrix::of(args.residual, args.residual_stride, args.m);
  for (int row = at.first_row(); row < args.m; row += at.step()) {
    const auto multiply = [&](float(&e)[Second::kAccumulators]) {
      multiply_tile<Config, Scaling1>(e, cursor, at, epilogue, row, place);
    };
    multiply_and_write<Lane, Second>(multiply, place, reduce, last_epilogue, writer, row, 0,
                                     row + at.step() < args.m, matrix);
  }
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void resident_weights(const Arguments& args) {
  using T = ResidentWeightsTypes<Config>;
  typename T::BlockType block;
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  ResidentPlace<Config> at{block, 0};
  launch_dependents();
  if (at.first_row() >= args.m) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  if (threadIdx.x == 0) init_resident<Config>(at);
  block.ready();
  if (block.is_producer()) {
    become_producer<Config, kLaneProducerRegisters>();
    before_weights<Config>();
    if (threadIdx.x == 32 * kResidentWarp) produce_resident<Config>(args, at);
    wait_for_predecessors();
    at.lane = warp;
    if (warp < T::kLanes && threadIdx.x % 32 == 0) produce_lane<Config>(args, at);
    block.join();
  } else {
    become_consumer<Config, kLaneProducerRegisters>();
    wait_for_predecessors();
    block.join();
    at.lane = warp / 4 - 1;
    consume_lane<Config, Matrix, Scaling1, Scaling2>(args, at);
  }
}

}  // namespace sinter
