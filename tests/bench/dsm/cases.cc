#include "tests/bench/dsm/cases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/device/device_library.h"
#include "tests/gpu/dsm_kernels.h"

namespace sinter::bench {
namespace {

constexpr int kMostThreads = 256;
constexpr int kOneBlockPerSm = 120 * 1024;  // bytes of shared memory that keep a second block away

constexpr char kHead[] = R"cuda(
#include "dsm/dsm_comm.cuh"
#include "tile/activation.cuh"
using namespace sinter;

constexpr int kRegisters = REGISTERS;
using Group = DsmGroup<CLUSTER, THREADS, 1>;

extern __shared__ unsigned char dynamic_shared[];

struct Tiles {
  float* scratch;
  u32* counters;
  u32 staging;
};
)cuda";

constexpr char kExchange[] = R"cuda(
using Sizes = DsmAllExchange<Group, kRegisters>;
constexpr int kDeliveries = Sizes::kDeliveries, kInboxBytes = Sizes::kInboxBytes;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<kDeliveries>& box,
                             float (&d)[kRegisters], const Tiles&, int) {
  dsm_all_exchange<OP>(group, box, d);
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) d[r] *= 1.0f / CLUSTER;
}
)cuda";

constexpr char kScatter[] = R"cuda(
using Sizes = DsmReduceScatter<Group, kRegisters>;
constexpr int kDeliveries = 1, kInboxBytes = Sizes::kInboxBytes;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<1>& box, float (&d)[kRegisters],
                             const Tiles&, int) {
  float share[Sizes::kShareRegisters];
  dsm_reduce_scatter<DsmAdd>(group, box, d, share);
#pragma unroll
  for (int r = 0; r < Sizes::kShareRegisters; ++r) d[r] = share[r] * (1.0f / CLUSTER);
}
)cuda";

constexpr char kShuffle[] = R"cuda(
using Sizes = DsmShuffle<Group, PAYLOAD / CLUSTER>;
constexpr int kDeliveries = Sizes::kDeliveries, kInboxBytes = Sizes::kInboxBytes;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<kDeliveries>& box,
                             float (&d)[kRegisters], const Tiles&, int) {
  Sizes::open(group, box);
  const u32 own = Sizes::slice(box, group.rank);
  for (int at = 16 * group.thread; at < Sizes::kSliceBytes; at += 16 * THREADS)
    store_shared(own + at, chunk_of(d, 0));
  Sizes::push(group, box);
  for (int hop = 0; hop < CLUSTER; ++hop) {
    const int source = (group.rank + hop) % CLUSTER;
    Sizes::await(group, box, source);
    d[0] += __uint_as_float(load_shared_word(Sizes::slice(box, source)));
  }
  d[0] *= 1.0f / (CLUSTER + 1);
  Sizes::release(group, box);
}
)cuda";

constexpr char kInterCluster[] = R"cuda(
constexpr int kDeliveries = 1, kInboxBytes = 16;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<1>&, float (&d)[kRegisters],
                             const Tiles& tiles, int round) {
  constexpr int kTileFloats = kRegisters * THREADS;
  const int cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
  const int tile = (round * (clusters / PARTS) + cluster / PARTS) * CLUSTER + group.rank;
  const InterClusterTile where{tiles.scratch + tile * PARTS * kTileFloats, tiles.counters + tile,
                               cluster % PARTS, PARTS, tiles.staging};
  inter_cluster_reduce<InterClusterOrder::ORDER>(group, d, where);
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) d[r] *= 1.0f / PARTS;
}
)cuda";

constexpr char kTail[] = R"cuda(
SINTER_DEVICE u64 clock_now() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    dsm_timed(float* sink, float* scratch, u32* counters, u64* cycles, int rounds) {
  const u32 base = (shared_address(dynamic_shared) + 127u) & ~127u, inbox = base + 256;
  DsmMailbox<kDeliveries> box{inbox, base};
  if (threadIdx.x == 0) box.init(CLUSTER);
  dsm_join();
  const Group group{0, static_cast<int>(cluster_rank()), static_cast<int>(threadIdx.x)};
  const Tiles tiles{scratch, counters, inbox + kInboxBytes};
  float d[kRegisters];
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) d[r] = (threadIdx.x * 7 + r * 13 + blockIdx.x) % 64 / 64.0f;
  const u64 begin = clock_now();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) run_round(group, box, d, tiles, round);
  if (threadIdx.x == 0) cycles[blockIdx.x] = clock_now() - begin;
  float sum = 0;
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) sum += d[r];
  if (sum == 123.456f) *sink = sum;
  box.drain();
}
)cuda";

const char* BodyOf(DsmTimed primitive) {
  switch (primitive) {
    case DsmTimed::kAllExchangeAdd:
    case DsmTimed::kAllExchangeMul:
      return kExchange;
    case DsmTimed::kReduceScatter:
      return kScatter;
    case DsmTimed::kShuffle:
      return kShuffle;
    default:
      return kInterCluster;
  }
}

const char* OrderOf(DsmTimed primitive) {
  return primitive == DsmTimed::kInterClusterFree       ? "kFree"
         : primitive == DsmTimed::kInterClusterFreeBulk ? "kFreeBulk"
                                                        : "kFixed";
}

// An upper bound: the parts of all ranks, results or staging, barriers.
int SharedBytes(const DsmTimedCase& c) {
  const int chunks = c.Registers() / 4, most = (chunks + c.cluster - 1) / c.cluster;
  const int inbox = c.cluster * most * c.Threads() * 16;
  return std::max(kOneBlockPerSm, 128 + 256 + inbox + c.payload_bytes + 16);
}

uint64_t Tiles(const DsmTimedCase& c, int clusters) {
  return static_cast<uint64_t>(kDsmMaxTiles * std::max(1, clusters / kDsmParts) * c.cluster);
}

}  // namespace

const char* NameOf(DsmTimed primitive) {
  constexpr const char* kNames[kDsmTimedCount] = {
      "all_exchange_add", "all_exchange_mul",   "reduce_scatter",         "shuffle",
      "inter_cluster",    "inter_cluster_free", "inter_cluster_free_bulk"};
  return kNames[static_cast<int>(primitive)];
}

std::string DsmTimedCase::Name() const {
  return absl::StrCat(NameOf(primitive), "_cluster", cluster, "_", payload_bytes);
}

int DsmTimedCase::Threads() const { return std::min(kMostThreads, payload_bytes / 16); }
int DsmTimedCase::Registers() const { return payload_bytes / (4 * Threads()); }

double DsmTimedCase::BytesPerRound() const {
  if (CrossesClusters()) return payload_bytes;
  const double share = static_cast<double>(cluster - 1) / cluster * payload_bytes;
  const bool both_ways =
      primitive == DsmTimed::kAllExchangeAdd || primitive == DsmTimed::kAllExchangeMul;
  return both_ways ? 2 * share : share;
}

std::vector<DsmTimedCase> AllDsmTimedCases() {
  std::vector<DsmTimedCase> cases;
  for (int p = 0; p < kDsmTimedCount; ++p) {
    for (int cluster : {2, 4, 8, 16}) {
      for (int payload = 1024; payload <= 65536; payload *= 2)
        cases.push_back({static_cast<DsmTimed>(p), cluster, payload});
    }
  }
  return cases;
}

CompileRequest DsmTimedRequest(const DsmTimedCase& c) {
  CompileRequest request;
  request.name = absl::StrCat(c.Name(), ".cu");
  request.source = absl::StrCat(kHead, BodyOf(c.primitive), kTail);
  request.arch = "sm_90a";
  request.entry = "dsm_timed";
  request.headers = CopyDeviceHeaders();
  const auto define = [&](const char* name, auto value) {
    request.options.push_back(absl::StrCat("-D", name, "=", value));
  };
  define("CLUSTER", c.cluster);
  define("PAYLOAD", c.payload_bytes);
  define("THREADS", c.Threads());
  define("REGISTERS", c.Registers());
  define("PARTS", kDsmParts);
  define("OP", c.primitive == DsmTimed::kAllExchangeMul ? "DsmMul<Silu>" : "DsmAdd");
  define("ORDER", OrderOf(c.primitive));
  return request;
}

LaunchRecipe DsmTimedRecipe(const DsmTimedCase& c, int clusters) {
  return gpu_testing::ClusterRecipe("dsm_timed", c.cluster, clusters, c.Threads(),
                                    static_cast<uint64_t>(SharedBytes(c)), 4);
}

uint64_t DsmScratchBytes(const DsmTimedCase& c, int clusters) {
  if (!c.CrossesClusters()) return 16;
  return Tiles(c, clusters) * kDsmParts * static_cast<uint64_t>(c.payload_bytes);
}

uint64_t DsmCounterBytes(const DsmTimedCase& c, int clusters) {
  return c.CrossesClusters() ? Tiles(c, clusters) * 4 : 16;
}

}  // namespace sinter::bench
