// What every kernel of the library does first and last: shared memory, barriers, roles.
#pragma once
#include "handover/dsm_reduce_scatter.cuh"
#include "handover/dsm_shuffle.cuh"
#include "pipeline/consumer.cuh"
#include "pipeline/producer.cuh"
#include "tile/block_scales.cuh"
#include "tile/codes.cuh"
#include "tile/results.cuh"
#include "tile/row_norms.cuh"
#include "tile/swapped.cuh"

namespace sinter {

// Arguments of a kernel, with the names of plans; codegen fills what the kernel has. What has no
// type here is of Config's Element, Bias, Bias2 or Result; a factor is of Result or f32.
struct Arguments {
  const TensorMap *a, *w1, *w_up, *c_map, *w2;
  const void *bias1, *bias_up, *bias2;
  const void *factor1, *factor2;  // a number for each row, of each product
  float scale1, scale2;           // and one for all rows
  const void* residual;           // [m, n] or [m, l]; may be `out`
  long long residual_stride;      // elements between rows
  void* out;                      // [m, n] or [m, l]
  long long out_stride;           // elements between rows
  void *aux1, *aux2;              // what is stored beside `out`, of its extents
  long long aux1_stride, aux2_stride;
  void* c;             // in the workspace
  float* partial_out;  // in the workspace, [block][block_m][block_n]
  u32* workspace;      // header of the workspace: launch epoch, greetings, ready flags
  int m;
  int k;  // of products whose rows say that it is the launch's
  // Scales of operands, in f32. scale_a has one for each 128 of K of a row; those of weights have
  // one for all columns, one for each column, which may be of Result too, or one for each 128 of K
  // of 128 columns. Types say how they lie in memory.
  const float* scale_a;
  const void *scale_w1, *scale_up, *scale_w2;
  // Of results that are stored as codes: the scale of all, or those of 128 columns of a row, with
  // the bounds of their largest magnitudes.
  const float* given_scale;
  float* scale_out;
  float eps, bound;
};

extern __shared__ unsigned char dynamic_shared[];

// Warpgroups that multiply.
template <class Config>
constexpr int consumers() {
  return Config::kWarpgroupsM * Config::kWarpgroupsN;
}

// With several consumer warpgroups, registers move from the producers to them when roles begin.
// With one, every thread has enough from the start. The producers of a grid exchange need 72
// registers, those of a single product fewer.
constexpr int consumer_registers(int count, int producer) {
  const int at_launch = 65536 / (128 * (count + 1)) / 8 * 8;
  return (at_launch * (count + 1) - producer) / count / 8 * 8;
}
template <class Config, int kProducer = 72>
SINTER_DEVICE void become_producer() {
  if constexpr (consumers<Config>() >= 2) registers_decrease<kProducer>();
}
template <class Config, int kProducer = 72>
SINTER_DEVICE void become_consumer() {
  if constexpr (consumers<Config>() >= 2)
    registers_increase<consumer_registers(consumers<Config>(), kProducer)>();
}

// Constant weights are loaded while preceding kernels still run, others only after those have
// ended.
template <class Config>
SINTER_DEVICE void before_weights() {
  if constexpr (!Config::kConstantWeights) wait_for_predecessors();
}

template <class Config, class Layout>
struct Block {
  using RingType = Ring<Config::kStages, Layout::kStageBytes>;
  using CursorType = Cursor<Config::kStages>;
  static constexpr int kConsumers = consumers<Config>();

  u32 base, barriers;  // barriers: the ring's, then up to 8 of the kernel's own
  RingType ring;
  int rank;  // in the cluster

  SINTER_DEVICE Block() {
    base = (shared_address(dynamic_shared) + 1023u) & ~1023u;
    barriers = base + Layout::kBarriers;
    ring = RingType{base, barriers};
    rank = Config::kCluster > 1 ? static_cast<int>(cluster_rank()) : 0;
  }
  SINTER_DEVICE u32 own_barrier(int index) const {
    return barriers + RingType::kBarrierBytes + 8 * index;
  }

  SINTER_DEVICE u32 tag_at() const {
    return own_barrier(8);
  }  // a word for kernels that tag their launch

  // Behind the barriers: the sums of a norm of the rows.
  SINTER_DEVICE u32 squares_at() const {
    constexpr int kFrom = 640, kEnd = 1024;
    static_assert(RingType::kBarrierBytes + 8 * 8 + 4 <= kFrom, "barriers and the tag fit");
    static_assert(kRowSquareBytes<Config, typename Config::First> <= kEnd - kFrom, "sums fit");
    return barriers + kFrom;
  }

  // Called by all threads after thread 0 has initialised the barriers. TMA may then complete on
  // this block's barriers. Peers are ready after join().
  SINTER_DEVICE void ready() const {
    if (threadIdx.x == 0) mbarrier_init_fence();
    if (Config::kCluster > 1) cluster_arrive_relaxed();
    __syncthreads();
  }
  // Called once by every thread before the first remote access. Waits until all blocks of the
  // cluster have initialised their barriers.
  SINTER_DEVICE void join() const {
    if (Config::kCluster > 1) cluster_wait();
  }
  static SINTER_DEVICE bool is_producer() { return threadIdx.x < 128; }
  static SINTER_DEVICE WarpgroupPlace place() {
    // The warpgroup index is made uniform so that descriptors stay in uniform registers.
    const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128 - 1, 0);
    return {warpgroup % Config::kWarpgroupsM, warpgroup / Config::kWarpgroupsM,
            static_cast<int>(threadIdx.x) % 128};
  }
};

// One product of a tile. `multiply` fills the accumulators. Where K is split, the ranks that share
// it sum their parts. The thread that stores results through `writer` loads `matrix` beside them.
template <class Config, class P, class Multiply, class Reduce, class EpilogueType, class Writer,
          class Matrix>
SINTER_DEVICE void multiply_and_write(const Multiply& multiply, WarpgroupPlace place,
                                      Reduce& reduce, const EpilogueType& epilogue,
                                      const Writer& writer, int row, int column, bool again,
                                      const Matrix& matrix) {
  float accumulators[P::kAccumulators];
  if constexpr (P::kSplitK > 1) {
    if constexpr (Matrix::kPresent) reduce.fetch(matrix, row, column);
    const float scale = reduce.scale_of(reduce.first_unit(), epilogue, row);
    const auto terms = reduce.terms_of(reduce.first_unit(), epilogue, column);
    multiply(accumulators);
    reduce.run(accumulators, place, epilogue, scale, terms, writer, row, column, again, matrix);
  } else if constexpr (Config::kSwapped) {
    const SwappedWriter<Config, P, EpilogueType, Writer, Matrix> swapped(epilogue, writer, matrix,
                                                                         row, column, place);
    swapped.fetch();
    multiply(accumulators);
    swapped.write(accumulators);
  } else {
    const HeldScaling<typename EpilogueType::Scaling> scaling(epilogue.scaling, row, place);
    HeldTerms<EpilogueType, TermWindow<Config, P, EpilogueType, Matrix::kPresent>> terms(
        epilogue, column + place.n * P::kHalf, place.thread);
    HeldMatrix<Config, P, Matrix> held(matrix, row, column, place);
    multiply(accumulators);
    write_accumulators<Config, P>(accumulators, epilogue, terms, scaling, writer, row, column,
                                  place, held);
  }
}

// The same for a product over the next `k_blocks` stages of the ring.
template <class Config, class P, bool kRowsInRing, class BlockType, class Reduce,
          class EpilogueType, class Writer, class Matrix = NoMatrix, class Scales = NoBlockScales>
SINTER_DEVICE void consume_tile(const BlockType& block, typename BlockType::CursorType& cursor,
                                u32 rows, int k_blocks, WarpgroupPlace place, Reduce& reduce,
                                const EpilogueType& epilogue, const Writer& writer, int row,
                                int column, bool again, const Matrix& matrix = {},
                                const Scales& scales = {}) {
  const auto multiply = [&](float(&accumulators)[P::kAccumulators]) {
    if constexpr (P::Element::kPromoted) {
      accumulate_promoted<Config, P>(accumulators, block.ring, cursor, k_blocks, place,
                                     scales.template held<Config, P>(row, column, place));
    } else if constexpr (P::Element::kExact) {
      accumulate_exact<Config, P, kRowsInRing>(accumulators, block.ring, cursor, rows, k_blocks,
                                               place);
    } else if constexpr (kTakesNorms<typename EpilogueType::Scaling>) {
      RowSquares<Config, P> squares;
      accumulate<Config, P, kRowsInRing>(accumulators, block.ring, cursor, rows, k_blocks, place,
                                         &squares);
      squares.publish(epilogue.scaling.squares);
    } else {
      accumulate<Config, P, kRowsInRing>(accumulators, block.ring, cursor, rows, k_blocks, place);
    }
  };
  multiply_and_write<Config, P>(multiply, place, reduce, epilogue, writer, row, column, again,
                                matrix);
}

}  // namespace sinter
