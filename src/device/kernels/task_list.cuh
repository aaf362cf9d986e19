// Dataflow (e), "task list": one persistent cooperative launch whose clusters walk one list of
// units, all of C's and then all of E's. Each product is walked as in product.cuh: blocks share
// loads by multicast, or share K. A cluster without a further unit of C begins with E while others
// still compute the last of C, so only the end of the list leaves SMs idle. C stays in L2. Its rows
// are awaited a few columns at a time, in the order in which the list computes them.
#pragma once
#include "kernels/l2_exchange.cuh"
#include "kernels/tile_ends.cuh"
#include "kernels/unit_walk.cuh"

namespace sinter {

constexpr int kFlagWarp = 3;       // beside the warps of weights, rows and epoch
constexpr int kStored = 5;         // own barrier: a tile of C has been stored
constexpr int kAwaitedBlocks = 8;  // K blocks of C that the rows warp asks for at once

template <class Config>
struct TaskListTypes : L2ExchangeTypes<Config> {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static_assert(Config::kSharers == 1 || (First::kKBlocks % First::kSplitK == 0 &&
                                          Second::kKBlocks % Second::kSplitK == 0),
                "blocks that fill each other's stages walk the ring in step");
};

// Both products' units, in one list.
template <class Config>
struct TaskWalk {
  UnitWalk<Config, typename Config::First> one;
  UnitWalk<Config, typename Config::Second> two;
  SINTER_DEVICE TaskWalk(int cluster_rank, int m)
      : one(cluster_rank, m), two(cluster_rank, m, one.units()) {}
};

// The weights warp's lane 0: both products' weights, as far ahead as the ring goes.
template <class Config, class BlockType>
SINTER_DEVICE void task_list_weights(const Arguments& args, const BlockType& block,
                                     const TaskWalk<Config>& walk) {
  typename BlockType::CursorType cursor;
  const ProductMaps first{nullptr, args.w1, args.w_up}, second{nullptr, args.w2, nullptr};
  const auto& one = walk.one;
  const auto& two = walk.two;
  for (int unit = one.first; unit < one.units(); unit += one.step)
    produce_weights<Config, typename Config::First, true>(
        block.ring, cursor, first, one.column(unit), one.begin(), one.end(), one.loads());
  for (int unit = two.first; unit < two.units(); unit += two.step)
    produce_weights<Config, typename Config::Second, true>(
        block.ring, cursor, second, two.column(unit), two.begin(), two.end(), two.loads());
}

// The rows warp loads A, then the columns of C as they become ready.
template <class Config, class BlockType>
SINTER_DEVICE void task_list_rows(const Arguments& args, const BlockType& block,
                                  const TaskWalk<Config>& walk) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  typename BlockType::CursorType cursor;
  const bool lead = threadIdx.x % 32 == 0;
  const auto& one = walk.one;
  const auto& two = walk.two;
  if (lead)
    for (int unit = one.first; unit < one.units(); unit += one.step)
      produce_rows<Config, First>(block.ring, cursor, ProductMaps{args.a, nullptr, nullptr},
                                  one.row(unit), one.begin(), one.end(), one.loads());
  __syncwarp();
  const u32 tag = launch_tag(block.tag_at(), block.own_barrier(kTagReady));
  const ReadyFlags<First> ready(args.workspace, ceil_div(args.m, Config::kBlockM));
  int awaited = -1;  // row tile that is known to be complete, as far as this rank reads it
  for (int unit = two.first; unit < two.units(); unit += two.step) {
    const int row = two.row(unit), row_tile = row / Config::kBlockM;
    const bool known = row_tile == awaited || row >= args.m;
    for (int k = two.begin(); k < two.end(); k += kAwaitedBlocks) {
      const int end = k + kAwaitedBlocks < two.end() ? k + kAwaitedBlocks : two.end();
      if (!known) ready.wait(row_tile, k * Config::kBlockK, end * Config::kBlockK, tag);
      if (lead)
        produce_rows<Config, Second>(block.ring, cursor, ProductMaps{args.c_map, nullptr, nullptr},
                                     row, k, end, two.loads());
      __syncwarp();
    }
    awaited = row_tile;
  }
}

// Consumers tell the flag warp that they have stored a tile of C, and go on. The flag warp, not
// they, waits until the stores have reached L2. Each consumer warp arrives on `stored`, and so does
// the flag warp once it has seen the tile before: so consumers are never two tiles ahead.
template <int kConsumers>
struct StoredTiles {
  static constexpr int kArrivals = 4 * kConsumers + 1;
  u32 stored;
  u32 parity = 0;

  // Called by all consumer threads after their stores.
  SINTER_DEVICE void say() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      mbarrier_wait(stored, parity ^ 1);  // the tile before
      mbarrier_arrive(stored);
    }
    parity ^= 1;
  }
  // By one thread of the flag warp: begin() once, then await() for each tile.
  SINTER_DEVICE void begin() const { mbarrier_arrive(stored); }
  SINTER_DEVICE void await() {
    mbarrier_wait(stored, parity);
    mbarrier_arrive(stored);
    parity ^= 1;
  }
};

// The flag warp's lane 0.
template <class Config, class BlockType>
SINTER_DEVICE void task_list_flags(const Arguments& args, const BlockType& block,
                                   const TaskWalk<Config>& walk) {
  using First = typename Config::First;
  const auto& one = walk.one;
  StoredTiles<BlockType::kConsumers> tiles{block.own_barrier(kStored)};
  const ReadyFlags<First> ready(args.workspace, ceil_div(args.m, Config::kBlockM));
  const u32 tag = launch_tag(block.tag_at(), block.own_barrier(kTagReady));
  tiles.begin();
  for (int unit = one.first; unit < one.units(); unit += one.step) {
    tiles.await();
    const int row = one.row(unit), column = one.column(unit);
    if (row >= args.m || column >= First::kN) continue;  // a pair's tile may lie outside
    fence_proxy_async_global();
    ready.raise(column / First::kBlockN, row / Config::kBlockM, one.k_rank, tag);
  }
}

template <class Config, class Matrix, class Scaling1, class Scaling2, class BlockType>
SINTER_DEVICE void task_list_consume(const Arguments& args, const BlockType& block, u32 parts,
                                     const TaskWalk<Config>& walk) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  const auto& one = walk.one;
  const auto& two = walk.two;
  typename BlockType::CursorType cursor;
  if constexpr (Config::kSharers > 1) cursor.pair_first = block.rank % (Config::kCluster / 2);
  cursor.awaited = one.stages() + two.stages() - Config::kStages;
  const WarpgroupPlace place = block.place();
  StoredTiles<BlockType::kConsumers> tiles{block.own_barrier(kStored)};

  DsmReduceScatter<Config, First> reduce1{
      parts, block.own_barrier(0), block.own_barrier(1), one.pair * First::kSplitK, one.k_rank,
      true};
  const auto epilogue1 = first_epilogue<Config, Scaling1>(args);
  const auto c = c_writer<Config>(args);
  for (int unit = one.first; unit < one.units(); unit += one.step) {
    consume_tile<Config, First, true>(block, cursor, 0, one.end() - one.begin(), place, reduce1,
                                      epilogue1, c, one.row(unit), one.column(unit),
                                      unit + one.step < one.units());
    tiles.say();
  }

  DsmReduceScatter<Config, Second> reduce2{
      parts,      block.own_barrier(2), block.own_barrier(3), two.pair * Second::kSplitK,
      two.k_rank, First::kSplitK == 1};
  // Peers may still read their parts of the first product, so each releases them. A cluster without
  // a unit of the second product releases nothing: nobody would wait for it.
  if constexpr (Second::kSplitK > 1 && First::kSplitK > 1)
    if (two.own() > 0) reduce2.release();
  const auto epilogue2 = second_epilogue<Config, Scaling2>(args);
  const auto out = output_writer<Config>(args);
  const Matrix matrix = Matrix::of(args.residual, args.residual_stride, args.m);
  for (int unit = two.first; unit < two.units(); unit += two.step)
    consume_tile<Config, Second, true>(block, cursor, 0, two.end() - two.begin(), place, reduce2,
                                       epilogue2, out, two.row(unit), two.column(unit),
                                       unit + two.step < two.units(), matrix);
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void task_list(const Arguments& args) {
  using T = TaskListTypes<Config>;
  typename T::BlockType block;
  const TaskWalk<Config> walk(block.rank, args.m);
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers * Config::kSharers);
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), T::First::kSplitK);
    mbarrier_init(block.own_barrier(2), 1);
    mbarrier_init(block.own_barrier(3), T::Second::kSplitK);
    mbarrier_init(block.own_barrier(kTagReady), 1);
    mbarrier_init(block.own_barrier(kStored), StoredTiles<T::BlockType::kConsumers>::kArrivals);
  }
  launch_dependents();
  block.ready();
  if (block.is_producer()) {
    become_producer<Config>();
    before_weights<Config>();
    if (Config::kSharers > 1) block.join();  // what it loads goes to its peer too
    if (threadIdx.x == 32 * kWeightsWarp) task_list_weights<Config>(args, block, walk);
    wait_for_predecessors();
    if (threadIdx.x / 32 == kRowsWarp) task_list_rows<Config>(args, block, walk);
    if (threadIdx.x / 32 == kEpochWarp)
      keep_epoch(args.workspace, block.tag_at(), block.own_barrier(kTagReady));
    if (threadIdx.x == 32 * kFlagWarp) task_list_flags<Config>(args, block, walk);
    if (Config::kSharers == 1) block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    task_list_consume<Config, Matrix, Scaling1, Scaling2>(args, block,
                                                          block.base + T::Layout::kParts, walk);
  }
}

}  // namespace sinter
