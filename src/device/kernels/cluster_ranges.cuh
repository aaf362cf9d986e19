// Dataflow (ab): several clusters share a row tile, and each owns a range of N. A cluster computes
// C there and exchanges it among its blocks as dataflow (b) does (cluster_exchange.cuh). Each of
// its blocks then computes its columns of E over that range, in registers. Parts of E are summed
// through L2: a block writes its own, waits for those of the other clusters, and sums and stores a
// share. The launch is cooperative.
#pragma once
#include "handover/inter_cluster_reduce.cuh"
#include "kernels/epoch.cuh"
#include "kernels/tile_ends.cuh"

namespace sinter {

template <class Config>
struct ClusterRangesTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr int kColumns = Config::kCluster * First::kBlockN;  // of C, a cluster
  static constexpr int kClusters = ceil_div(First::kN, kColumns);     // of a row tile
  static constexpr int kKBlocks = kColumns / Config::kBlockK;  // of the second product, a cluster
  static constexpr int kFirstStage = First::kRowsBytes + First::kWeightBytes;
  static constexpr int kStage =
      kFirstStage > Second::kWeightBytes ? kFirstStage : Second::kWeightBytes;
  static constexpr int kExchangeBytes =
      round_up(kColumns * Config::kBlockM * Config::Element::kBytes, 1024);
  using Layout = SharedLayout<Config, kStage, kExchangeBytes, 0>;
  using BlockType = Block<Config, Layout>;
  using Parts = InterClusterReduce<Config, Second, kClusters>;
  static_assert(Parts::kTakenBytes <= Layout::kExchange + kExchangeBytes, "parts fit where C was");
  static_assert(kColumns % Config::kBlockK == 0,
                "ranges of N are whole stages of the second product");
};

// Which row tile and which range of N a block's cluster owns. Clusters of one row tile are
// neighbours.
template <class Config>
struct ClusterPlace {
  using T = ClusterRangesTypes<Config>;
  int row, part, rank;

  SINTER_DEVICE explicit ClusterPlace(int rank) : rank(rank) {
    const int cluster = static_cast<int>(blockIdx.x) / Config::kCluster;
    row = cluster / T::kClusters * Config::kBlockM;
    part = cluster % T::kClusters;
  }
  SINTER_DEVICE int first_column() const { return part * T::kColumns; }
  SINTER_DEVICE int c_column() const { return first_column() + rank * T::First::kBlockN; }
  SINTER_DEVICE int e_column() const { return rank * T::Second::kBlockN; }
  // K blocks of the second product: the last range ends where N does.
  SINTER_DEVICE int begin() const { return part * T::kKBlocks; }
  SINTER_DEVICE int end() const {
    const int end = begin() + T::kKBlocks;
    return end < T::Second::kKBlocks ? end : T::Second::kKBlocks;
  }
  // The block with the same columns of E in the row tile's first cluster.
  SINTER_DEVICE int first_block() const {
    return static_cast<int>(blockIdx.x) - part * Config::kCluster;
  }
};

// Writes columns of C into the slabs of the cluster, whose first column is `first`. Columns behind
// N are zero: the weights there are zero, and zero times a NaN would be a NaN.
template <class Config>
struct RangeWriter {
  using Element = typename Config::Element;
  using T = ClusterRangesTypes<Config>;
  DsmShuffle<Config, T::kColumns> slab;
  int first;

  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    slab.group(row, column - first, column < T::First::kN ? v : Word4{0, 0, 0, 0});
  }
  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    slab.pair(row, column - first, column < T::First::kN ? v : 0);
  }
};

constexpr int kGiven = 1;  // own barrier: this block's part is in L2 and its flag is up
constexpr int kTaken = 2;  // own barrier: this block's share of all parts is in shared memory

template <class Config>
SINTER_DEVICE typename ClusterRangesTypes<Config>::Parts parts_of(const Arguments& args,
                                                                  const ClusterPlace<Config>& at,
                                                                  u32 taken) {
  using Parts = typename ClusterRangesTypes<Config>::Parts;
  return {args.partial_out + at.first_block() * Parts::kTileFloats, at.part, taken};
}

// Called by all consumer threads after their stores. Tells other clusters that this block's part is
// in L2, and the block's rows warp that ring and slab have been read.
template <class Config, class BlockType>
SINTER_DEVICE void tell_part(const BlockType& block, u32* workspace) {
  const u32 tag = launch_tag(block.tag_at(), block.own_barrier(kTagReady));
  named_barrier(1, 128 * BlockType::kConsumers);
  jitter();
  if (threadIdx.x != 128) return;
  store_release_gpu(workspace + kFlags + blockIdx.x, tag);
  mbarrier_arrive(block.own_barrier(kGiven));
}

// Called by the rows warp after its loads. Takes this block's share of the parts of all clusters of
// its row tile into the memory of ring and slab, which have been read.
template <class Config, class BlockType>
SINTER_DEVICE void take_parts(const Arguments& args, const BlockType& block,
                              const ClusterPlace<Config>& at) {
  constexpr int kParts = ClusterRangesTypes<Config>::kClusters;
  const auto parts = parts_of(args, at, block.base);
  const u32 tag = launch_tag(block.tag_at(), block.own_barrier(kTagReady));
  const u32* const flags = args.workspace + kFlags + at.first_block();
  mbarrier_wait(block.own_barrier(kGiven), 0);
  await_all(kParts, tag, [&](int i) { return flags + i * Config::kCluster; });
  fence_proxy_async_global();
  __syncwarp();
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kParts; i += 32)
    parts.take(i, block.own_barrier(kTaken));
}

template <class Config, class Matrix, class Scaling1, class Scaling2, class BlockType>
SINTER_DEVICE void cluster_ranges_consume(const Arguments& args, const BlockType& block,
                                          const ClusterPlace<Config>& at, u32 exchange,
                                          u32 exchange_full) {
  using T = ClusterRangesTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const Matrix matrix = Matrix::of(args.residual, args.residual_stride, args.m);
  const auto parts = parts_of(args, at, block.base);
  int no_reduction = 0;
  const RangeWriter<Config> slab{{exchange, exchange_full}, at.first_column()};
  consume_tile<Config, First, true>(block, cursor, 0, First::kKBlocks, place, no_reduction,
                                    first_epilogue<Config, Scaling1>(args, at.row), slab, 0,
                                    at.c_column(), false);
  dsm_shuffle_wait<Config>(exchange_full);
  parts.fetch(matrix, at.row, at.e_column());
  float e[Second::kAccumulators];
  accumulate<Config, Second, false>(e, block.ring, cursor, exchange, at.end() - at.begin(), place);
  parts.give(e, place);
  tell_part<Config>(block, args.workspace);
  mbarrier_wait(block.own_barrier(kTaken), 0);
  parts.sum(second_epilogue<Config, Scaling2>(args), output_writer<Config>(args), at.row,
            at.e_column(), matrix);
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void cluster_ranges(const Arguments& args) {
  using T = ClusterRangesTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
  typename T::BlockType block;
  const ClusterPlace<Config> at(block.rank);
  const bool works = at.row < args.m;  // the same for all clusters of a row tile
  const u32 exchange = block.base + T::Layout::kExchange, exchange_full = block.own_barrier(0);
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    mbarrier_init(exchange_full, 1);
    mbarrier_init(block.own_barrier(kGiven), 1);
    mbarrier_init(block.own_barrier(kTaken), 1);
    mbarrier_init(block.own_barrier(kTagReady), 1);
    mbarrier_arrive_expect(exchange_full, DsmShuffle<Config, T::kColumns>::kBytes);
    mbarrier_arrive_expect(block.own_barrier(kTaken),
                           T::kClusters * parts_of(args, at, block.base).share_bytes());
  }
  launch_dependents();
  block.ready();
  if (block.is_producer()) {
    become_producer<Config>();
    typename T::BlockType::CursorType cursor;
    const ProductMaps first{args.a, args.w1, args.w_up}, second{nullptr, args.w2, nullptr};
    before_weights<Config>();
    if (works && threadIdx.x == 32 * kWeightsWarp) {
      produce_weights<Config, First, true>(block.ring, cursor, first, at.c_column(), 0,
                                           First::kKBlocks);
      produce_weights<Config, Second, false>(block.ring, cursor, second, at.e_column(), at.begin(),
                                             at.end());
    }
    wait_for_predecessors();
    if (works && threadIdx.x == 32 * kRowsWarp)
      produce_rows<Config, First>(block.ring, cursor, first, at.row, 0, First::kKBlocks);
    __syncwarp();
    if (threadIdx.x / 32 == kEpochWarp)
      keep_epoch(args.workspace, block.tag_at(), block.own_barrier(kTagReady));
    if (works && threadIdx.x / 32 == kRowsWarp) take_parts(args, block, at);
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    if (works)
      cluster_ranges_consume<Config, Matrix, Scaling1, Scaling2>(args, block, at, exchange,
                                                                 exchange_full);
  }
}

}  // namespace sinter
