#include "tests/gpu/mutations.h"

#include "absl/strings/ascii.h"

namespace sinter::gpu_testing {
namespace {

constexpr char kProducer[] = "pipeline/producer.cuh", kConsumer[] = "pipeline/consumer.cuh",
               kReduce[] = "handover/dsm_reduce_scatter.cuh",
               kShuffle[] = "handover/dsm_shuffle.cuh", kBlock[] = "kernels/block.cuh",
               kProduct[] = "kernels/product.cuh", kGrid[] = "kernels/grid_exchange.cuh",
               kEpoch[] = "kernels/epoch.cuh", kCluster[] = "kernels/cluster_exchange.cuh",
               kSlab[] = "kernels/cluster_slab.cuh", kResident[] = "kernels/resident_weights.cuh",
               kNorms[] = "tile/row_norms.cuh", kGrouped[] = "kernels/grouped_product.cuh",
               kSwapped[] = "kernels/grouped_swapped.cuh", kAttention[] = "attention/attention.cuh",
               kJoin[] = "attention/join.cuh";

// Between the wait for a stage and the loads of its rows.
#define SINTER_ROWS_EXPECTED                                                                \
  "if constexpr (kExpects) mbarrier_arrive_expect(ring.full(cursor.stage), P::kRowsBytes);" \
  "\n#pragma unroll\nfor (int s = 0; s < P::kSubtiles; ++s)\n"

std::vector<Mutation> PipelineMutations() {
  constexpr Dataflow kFlow = Dataflow::kProduct;
  return {
      {"weights overwrite a stage in use", kProducer,
       "    mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);\n"
       "    mbarrier_arrive_expect(",
       "    mbarrier_arrive_expect(", kFlow},
      {"rows overwrite a stage in use", kProducer,
       "mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);" SINTER_ROWS_EXPECTED
       "load_box<kShare>(",
       SINTER_ROWS_EXPECTED "load_box<kShare>(", kFlow},
      {"products do not wait for a full stage", kConsumer,
       "    mbarrier_wait(ring.full(cursor.stage), cursor.parity);\n", "", kFlow},
      {"a short ring's stage is never given back", kConsumer,
       "      release_stage<Config, Seen::kReads>(ring, cursor.stage, cursor, true, place);\n", "",
       kFlow, Needs::kShortRing},
      {"a long ring's stage is never given back", kConsumer,
       "      release_stage<Config, Seen::kReads>(ring, previous, cursor, i > 0, place);\n", "",
       kFlow, Needs::kLongRing},
      {"a pair's stages are never given back", kProduct,
       "  cursor.awaited = walk.stages() - Config::kStages;\n", "  cursor.awaited = 0;\n", kFlow,
       Needs::kPairs},
      {"a stage is given back while its products are in flight", kConsumer,
       "      wgmma_wait<1>();", "      wgmma_wait<3>();", kFlow, Needs::kLongRing, false},
  };
}

std::vector<Mutation> GroupedMutations() {
  constexpr Dataflow kFlow = Dataflow::kProduct;
  constexpr Needs kNeeds = Needs::kGrouped;
  return {
      {"rows of slots overwrite a stage in use", kGrouped,
       "mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);\n", "", kFlow,
       kNeeds},
      {"grouped products do not wait for a full stage", kGrouped,
       "mbarrier_wait(shared_address(&shared.full[at.stage]), at.parity);\n", "", kFlow, kNeeds},
      {"a grouped product's stage is never given back", kGrouped,
       "      arrive_if(before, step > 0 ? first_lane : 0);\n", "", kFlow, kNeeds},
      {"slots overwrite those of a tile that is stored", kGrouped,
       "mbarrier_wait(shared_address(&shared.taken[walk.buffer()]), 1 - walk.parity());\n", "",
       kFlow, kNeeds},
      {"a tile is stored before its slots are there", kGrouped,
       "mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());\n", "", kFlow,
       kNeeds},
      {"a grouped product does not wait for the kernel before", kGrouped,
       "      if constexpr (!Config::kEarly) wait_for_predecessors();\n", "", kFlow, kNeeds},
      {"rows of an early grouped product do not wait for the kernel before", kGrouped,
       "      if constexpr (Config::kEarly) wait_for_predecessors();\n      produce",
       "      produce", kFlow, kNeeds},
      {"rows of slots are not ordered before the products", kGrouped, "fence_proxy_async_shared();",
       "", kFlow, kNeeds, false},
  };
}

std::vector<Mutation> SwappedMutations() {
  constexpr Dataflow kFlow = Dataflow::kProduct;
  constexpr Needs kNeeds = Needs::kSwapped;
  return {
      {"columns for both blocks overwrite a stage in use", kSwapped,
       "mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);\n"
       "        const u32 full",
       "const u32 full", kFlow, kNeeds},
      {"rows of swapped tiles overwrite a stage in use", kSwapped,
       "mbarrier_wait(shared_address(&shared.empty[at.stage]), 1 - at.parity);\n"
       "        const u32 to",
       "__syncwarp();\n        const u32 to", kFlow, kNeeds},
      {"swapped products do not wait for a full stage", kSwapped,
       "mbarrier_wait(shared_address(&shared.full[at.stage]), at.parity);\n", "", kFlow, kNeeds},
      {"a swapped stage is never given back", kSwapped,
       "      arrive_remote_if(before, step > 0 ? wanted : 0);\n", "", kFlow, kNeeds},
      {"a swapped stage is given back to one block alone", kSwapped, "wanted = lane < kBlocks;",
       "wanted = lane < 1;", kFlow, kNeeds},
      {"a swapped stage is given back while its products are in flight", kSwapped,
       "wgmma_wait<1>();\n        arrive_remote_if(", "wgmma_wait<3>();\n        arrive_remote_if(",
       kFlow, kNeeds, false},
      {"slots of a tile to come overwrite those of one that is read", kSwapped,
       "mbarrier_wait(shared_address(&shared.taken[walk.buffer()]), 1 - walk.parity());\n", "",
       kFlow, kNeeds},
      {"rows are copied before their slots are there", kSwapped,
       "mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());\n"
       "        count = tile",
       "count = tile", kFlow, kNeeds},
      {"results are stored before their slots are there", kSwapped,
       "mbarrier_wait(shared_address(&shared.ready[walk.buffer()]), walk.parity());\n"
       "        count = shared",
       "count = shared", kFlow, kNeeds},
      {"a swapped product does not wait for the kernel before", kSwapped,
       "      if constexpr (!Config::kEarly) wait_for_predecessors();\n", "", kFlow, kNeeds},
      {"rows of an early swapped product do not wait for the kernel before", kSwapped,
       "      if (role != kCopierWarps) wait_for_predecessors();\n", "", kFlow, kNeeds},
      {"a block does not wait for its peer's barriers", kSwapped,
       "    if constexpr (kBlocks > 1) cluster_wait();  // both blocks' barriers are there\n", "",
       kFlow, kNeeds, false},
      {"a block ends while its peer loads for both", kSwapped,
       "    __syncwarp();\n    cluster_arrive();\n    cluster_wait();\n", "", kFlow, kNeeds, false},
      {"rows of swapped tiles are not ordered before the products", kSwapped,
       "fence_proxy_async_shared();", "", kFlow, kNeeds, false},
  };
}

std::vector<Mutation> WindowMutations() {
  return {
      {"windows overwrite a stage in use", kProducer,
       "mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);" SINTER_ROWS_EXPECTED
       "load_window<",
       SINTER_ROWS_EXPECTED "load_window<", Dataflow::kProduct, Needs::kWindow},
      {"both blocks of a pair load the same windows", kProducer,
       "window_start<typename P::Rows>(row + part)", "window_start<typename P::Rows>(row)",
       Dataflow::kProduct, Needs::kHalfWindow},
  };
}

std::vector<Mutation> ExchangeMutations() {
  constexpr Dataflow kFlow = Dataflow::kGridExchange;
  return {
      {"parts are summed before they arrive", kReduce,
       "      mbarrier_wait(full, parity);\n      sum(epilogue,", "      sum(epilogue,",
       Dataflow::kProduct, Needs::kSplit},
      {"parts are sent before the owner is done with the last ones", kReduce,
       "    mbarrier_wait(empty, primed ? parity ^ 1 : parity);\n", "", kFlow, Needs::kManyTiles},
      {"an owner never says that its parts are free", kReduce, "    if (again) release();\n", "",
       kFlow, Needs::kManyTiles},
      {"parts are given back before all threads have read them", kReduce,
       "    named_barrier(ConsumerGroup<Config>::barrier(), kThreads);\n", "", kFlow,
       Needs::kManyTiles, false},
      {"an owner expects no parts", kReduce,
       "    if (ConsumerGroup<Config>::is_first()) mbarrier_arrive_expect(full, "
       "expected_bytes());\n",
       "", Dataflow::kProduct, Needs::kSplit},
      {"C is read before the cluster has exchanged it", kShuffle, "  mbarrier_wait(full, 0);\n", "",
       Dataflow::kClusterExchange},
      {"C is not ordered before the products that read it", kShuffle,
       "    mbarrier_wait(full, 0);\n    fence_proxy_async_shared();\n",
       "    mbarrier_wait(full, 0);\n", Dataflow::kClusterExchange, Needs::kAny, false},
      {"nobody expects the exchange", kCluster,
       "    mbarrier_arrive_expect(exchange_full, DsmShuffle<Config, First::kN>::kBytes);\n", "",
       Dataflow::kClusterExchange},
  };
}

std::vector<Mutation> GridMutations() {
  constexpr Dataflow kFlow = Dataflow::kGridExchange;
  return {
      {"C is read before it is ready", kGrid, "    if (waited != row_tile) ready.wait(",
       "    if (false) ready.wait(", kFlow},
      {"a tile of C is never flagged", kGrid,
       "      store_release_gpu(word(column_tile, row_tile, rank), tag);\n", "", kFlow},
      {"a tile of C is flagged before all threads have stored", kGrid,
       "    named_barrier(1, threads);\n", "", kFlow},
      {"stores to C are not ordered before the loads of others", kGrid,
       "    fence_proxy_async_global();\n    named_barrier(1, threads);",
       "    named_barrier(1, threads);", kFlow, Needs::kAny, false},
      {"the epoch never moves", kEpoch,
       "  if (threadIdx.x % 32 == 0) store_relaxed_gpu(header, tag);\n", "", kFlow},
      {"the epoch moves before every block has read it", kEpoch,
       "  await_all(gridDim.x, tag, [&](int i) { return header + kGreetings + i; });\n", "", kFlow,
       Needs::kAny, false},
      {"the launch's tag is read before it is there", kEpoch, "  mbarrier_wait(tag_ready, 0);\n",
       "", kFlow, Needs::kEarlyC},
      {"parts of the second product are sent into those of the first", kGrid,
       "    if (two.group < two.tiles()) reduce2.release();\n", "    ;\n", kFlow,
       Needs::kBothSplit},
  };
}

std::vector<Mutation> SlabMutations() {
  constexpr Dataflow kFlow = Dataflow::kClusterExchange;
  return {
      {"nothing, a slab for some of C", kSlab, "", "", kFlow, Needs::kSlab},
      {"C is loaded behind the slab before it is there", kSlab,
       "      mbarrier_wait_cluster(block.own_barrier(kRestIsThere), 0);\n", "", kFlow,
       Needs::kEarlyC},
      {"nobody tells of C behind the slab", kSlab, "    mbarrier_arrive_remote(map_to_rank(",
       "    (void)(map_to_rank(", kFlow, Needs::kSlab},
      {"C behind the slab is told of before all threads have stored", kSlab,
       "  named_barrier(1, 128 * BlockType::kConsumers);\n", "", kFlow, Needs::kSlab, false},
      {"the second part of C overwrites the first one's sums", kSlab,
       "    accumulate<Config, Second, true, true>(",
       "    accumulate<Config, Second, true, false>(", kFlow, Needs::kSlab},
  };
}

std::vector<Mutation> ResidentMutations() {
  constexpr Dataflow kFlow = Dataflow::kResidentWeights;
  return {
      {"nothing, of weights that stay", kResident, "", "", kFlow},
      {"rows are multiplied before their weights are there", kResident,
       "    mbarrier_wait(at.weights_full(chunk, 0), 0);\n", "", kFlow},
      {"C is multiplied before its weights are there", kResident,
       "    mbarrier_wait(at.weights_full(chunk, 1), 0);\n", "", kFlow},
      {"a lane's rows are multiplied before they are there", kResident,
       "    mbarrier_wait(ring.full(cursor.stage), cursor.parity);\n", "", kFlow},
      {"a chunk gives back rows that the next one multiplies", kResident,
       "    const bool last = chunk + 1 == T::kChunks;\n", "    const bool last = true;\n", kFlow,
       Needs::kChunks},
      {"weights that stay do not wait for their predecessor", kResident,
       "    wait_for_predecessors();\n    at.lane = warp;", "    at.lane = warp;", kFlow},
      {"lanes of a cluster overwrite parts that are being summed", kReduce,
       "    mbarrier_wait(empty, primed ? parity ^ 1 : parity);\n", "", kFlow, Needs::kSplit},
  };
}

// The barriers' own test is on the host (tests/unit/device/row_norms_test.cc): between them lie few
// instructions, so that a device may hide that one is gone.
std::vector<Mutation> NormMutations() {
  constexpr Dataflow kFlow = Dataflow::kProduct;
  return {
      {"nothing, norms of rows", kNorms, "", "", kFlow, Needs::kNorm},
      {"a norm is read before all threads have stored their sums", kNorms,
       "        store_shared(squares + 4 * (chunk(i) / 8), __float_as_uint(sum));\n    }\n"
       "    named_barrier(1, kThreads);\n",
       "        store_shared(squares + 4 * (chunk(i) / 8), __float_as_uint(sum));\n    }\n", kFlow,
       Needs::kNorm, false},
      {"a tile's sums overwrite those that are being read", kNorms,
       "publish(u32 squares) const {\n    named_barrier(1, kThreads);\n",
       "publish(u32 squares) const {\n", kFlow, Needs::kNormTiles, false},
      {"a norm leaves out the rows of a stage", kConsumer,
       "    if constexpr (Seen::kReads) seen->add(rows_at);\n",
       "    if constexpr (Seen::kReads) if (i != 0) seen->add(rows_at);\n", kFlow, Needs::kNorm},
  };
}

std::vector<Mutation> LaunchMutations() {
  return {
      {"a product does not wait for its predecessor", kProduct,
       "    wait_for_predecessors();\n    if (threadIdx.x == 32 * kRowsWarp)",
       "    if (threadIdx.x == 32 * kRowsWarp)", Dataflow::kProduct},
      // May live: on driver 580 a cooperative launch starts only when its predecessors have ended.
      {"a grid exchange does not wait for its predecessor", kGrid,
       "    wait_for_predecessors();\n    if (threadIdx.x / 32 == kRowsWarp)",
       "    if (threadIdx.x / 32 == kRowsWarp)", Dataflow::kGridExchange, Needs::kAny, false},
      {"a cluster exchange does not wait for its predecessor", kCluster,
       "    wait_for_predecessors();\n    if (threadIdx.x == 32 * kRowsWarp)",
       "    if (threadIdx.x == 32 * kRowsWarp)", Dataflow::kClusterExchange},
      {"a block touches peers that are not ready", kBlock,
       "    if (Config::kCluster > 1) cluster_wait();\n", "", Dataflow::kClusterExchange,
       Needs::kAny, false},
      {"barriers are used before they are initialised", kBlock, "    __syncthreads();\n", "",
       Dataflow::kProduct, Needs::kAny, false},
  };
}

// The first place where `text` reads `wanted`, however its lines are broken.
bool FindIgnoringSpace(const std::string& text, const std::string& wanted, size_t* begin,
                       size_t* end) {
  for (size_t start = 0; start < text.size(); ++start) {
    size_t at = start, matched = 0;
    while (matched < wanted.size()) {
      if (absl::ascii_isspace(static_cast<unsigned char>(wanted[matched]))) {
        ++matched;
      } else if (at > start && at < text.size() &&
                 absl::ascii_isspace(static_cast<unsigned char>(text[at]))) {
        ++at;
      } else if (at < text.size() && text[at] == wanted[matched]) {
        ++at;
        ++matched;
      } else {
        break;
      }
    }
    if (matched < wanted.size()) continue;
    *begin = start;
    *end = at;
    return true;
  }
  return wanted.empty();
}

}  // namespace

std::vector<Mutation> SplitKeysMutations() {
  constexpr Dataflow kFlow = Dataflow::kProduct;
  constexpr Needs kNeeds = Needs::kSplitKeys;
  return {
      {"nothing, split keys", kJoin, "", "", kFlow, kNeeds},
      {"partial sums are added before they arrive", kJoin,
       "    mbarrier_wait_cluster(arrived(), parity);\n", "", kFlow, kNeeds},
      {"partial sums overwrite those of the item before", kJoin,
       "    if (!first_item) mbarrier_wait_cluster(taken(), parity ^ 1);\n", "", kFlow, kNeeds},
      {"an owner never tells that it has added partial sums", kJoin,
       "    if (threadIdx.x < kSplits) mbarrier_arrive_remote_read(map_to_rank(taken(), "
       "threadIdx.x));\n",
       "", kFlow, kNeeds},
      {"an owner tells so before all its threads have added", kJoin,
       "    named_barrier(kConsumers, kThreads);\n", "", kFlow, kNeeds, false},
      {"an owner expects no partial sums", kJoin,
       "mbarrier_arrive_expect(arrived(), kSplits * rows * (owned_by(split) * 32 + 8));\n",
       "mbarrier_arrive(arrived());\n", kFlow, kNeeds},
      {"a block does not wait for the join's barriers of its peers", kAttention,
       "    cluster_arrive();\n    cluster_wait();\n", "    __syncthreads();\n", kFlow, kNeeds,
       false},
      {"attention does not wait for the kernel before", kAttention, "  wait_for_predecessors();\n",
       "", kFlow, kNeeds},
  };
}

std::vector<Mutation> AllMutations() {
  std::vector<Mutation> all = {
      {"nothing, product", kProduct, "", "", Dataflow::kProduct},
      {"nothing, grid exchange", kGrid, "", "", Dataflow::kGridExchange},
      {"nothing, cluster exchange", kCluster, "", "", Dataflow::kClusterExchange},
      {"nothing, windows", kProduct, "", "", Dataflow::kProduct, Needs::kWindow},
      {"nothing, grouped products", kGrouped, "", "", Dataflow::kProduct, Needs::kGrouped},
      {"nothing, swapped tiles", kSwapped, "", "", Dataflow::kProduct, Needs::kSwapped}};
  for (const std::vector<Mutation>& some :
       {PipelineMutations(), WindowMutations(), ExchangeMutations(), GridMutations(),
        LaunchMutations(), SlabMutations(), ResidentMutations(), NormMutations(),
        GroupedMutations(), SwappedMutations(), SplitKeysMutations()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

absl::Status Apply(const Mutation& mutation, CompileRequest* request) {
  for (auto& [name, text] : request->headers) {
    if (name != mutation.header) continue;
    size_t begin = 0, end = 0;
    if (!FindIgnoringSpace(text, mutation.find, &begin, &end)) break;
    size_t again = 0, behind = 0;
    if (end > 0 && FindIgnoringSpace(text.substr(end), mutation.find, &again, &behind)) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", mutation.name, "': ", mutation.header, " has the text twice"));
    }
    text.replace(begin, end - begin, mutation.replace);
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("'", mutation.name, "': ", mutation.header, " has no such text"));
}

}  // namespace sinter::gpu_testing
