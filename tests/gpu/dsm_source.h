// Text of the kernels that DsmRequest compiles: a head, the primitive's round, a tail.
#ifndef SINTER_TESTS_GPU_DSM_SOURCE_H_
#define SINTER_TESTS_GPU_DSM_SOURCE_H_

namespace sinter::gpu_testing {

constexpr char kDsmHead[] = R"cuda(
#include "dsm/dsm_comm.cuh"
#include "ptx/element.cuh"
#include "tile/activation.cuh"
using namespace sinter;

constexpr int kRegisters = REGISTERS, kRounds = ROUNDS, kSets = SETS;
constexpr int kGroups = CLUSTER / RANKS;
using Group = DsmGroup<RANKS, THREADS, 1>;
constexpr int kPartFloats = kRegisters * THREADS;

extern __shared__ unsigned char dynamic_shared[];

// What this thread found.
struct Report {
  u32* words;
  u32 launch;
  u32 wrong = 0, compared = 0, digest = 0;

  SINTER_DEVICE void take(bool right, u32 round, u32 element, u32 got, u32 wanted) {
    ++compared;
    digest += (got ^ element * 0x9E3779B9u) * (2 * element + 2 * round * 0x10001u + 1);
    if (right) return;
    ++wrong;
    if (atomicExch(words + 3, 1u) != 0) return;
    words[4] = launch, words[5] = round, words[6] = blockIdx.x;
    words[7] = element, words[8] = got, words[9] = wanted;
  }
  SINTER_DEVICE void number(float got, u32 wanted, u32 round, u32 element) {
    const float w = __uint_as_float(wanted), error = fabsf(got - w);
    take(error <= 8e-5f * (1.0f + fabsf(w)), round, element, __float_as_uint(got), wanted);
  }
  SINTER_DEVICE void add() const {
    if (wrong != 0) atomicAdd(words, wrong);
    atomicAdd(words + 1, compared);
    atomicAdd(words + 2, digest);
  }
};

// Element of register r of this thread: [chunk][thread][4].
SINTER_DEVICE u32 element_of(int r) { return (r / 4 * THREADS + threadIdx.x) * 4 + r % 4; }

SINTER_DEVICE void load_part(float (&d)[kRegisters], const float* part) {
#pragma unroll
  for (int r = 0; r < kRegisters; ++r) d[r] = part[element_of(r)];
}

struct Data {
  const float* in;    // [set][round][rank] parts; of the stores [set][cluster][rank]
  const u32* wanted;  // [set][round] parts, or slabs; of the stores [set] parts
  float* scratch;
  u32* counters;
  int set;
  u32 staging;

  SINTER_DEVICE const float* part(int round, int rank) const {
    return in + ((set * kRounds + round) * RANKS + rank) * kPartFloats;
  }
  SINTER_DEVICE const u32* wanted_part(int round) const {
    return wanted + (set * kRounds + round) * kPartFloats;
  }
};

)cuda";

constexpr char kDsmExchange[] = R"cuda(
using Sizes = DsmAllExchange<Group, kRegisters>;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<Sizes::kDeliveries>& box, const Data& data, int round,
                                  Report& report) {
  float d[kRegisters];
  load_part(d, data.part(round, group.rank));
  dsm_all_exchange<OP>(group, box, d);
  constexpr int kHalf = kRegisters / 2, kResults = SEQUENTIAL ? kHalf : kRegisters;
  const u32* wanted = data.wanted_part(round);
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const float got = SEQUENTIAL ? Silu::apply(d[r]) * d[(r + kHalf) % kRegisters] : d[r];
    report.number(got, wanted[element_of(r)], round, element_of(r));
  }
}

)cuda";

constexpr char kDsmScatter[] = R"cuda(
using Sizes = DsmReduceScatter<Group, kRegisters>;
using Shares = Sizes::Shares;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<1>& box, const Data& data, int round,
                                 Report& report) {
  float d[kRegisters], share[Sizes::kShareRegisters];
  load_part(d, data.part(round, group.rank));
  dsm_reduce_scatter<DsmAdd>(group, box, d, share);
  const u32* wanted = data.wanted_part(round);
#pragma unroll
  for (int i = 0; i < Sizes::kShareRegisters; ++i) {
    if (i / 4 >= Shares::count(group.rank)) continue;
    const u32 element = element_of(4 * Shares::first(group.rank) + i);
    report.number(share[i], wanted[element], round, element);
  }
}

)cuda";

constexpr char kDsmShuffle[] = R"cuda(
using Sizes = DsmShuffle<Group, kRegisters * THREADS * 2>;

SINTER_DEVICE void run_round(const Group& group, DsmMailbox<Sizes::kDeliveries>& box, const Data& data, int round,
                                 Report& report) {
  float d[kRegisters];
  load_part(d, data.part(round, group.rank));
  Sizes::open(group, box);
  jitter();
#pragma unroll
  for (int r = 0; r < kRegisters; r += 2)
    store_shared(Sizes::slice(box, group.rank) + element_of(r) * 2,
                 ELEMENT::pack(d[r], d[r + 1]));
  Sizes::push(group, box);
  constexpr int kWords = Sizes::kSliceBytes / 4;
  const u32* wanted = data.wanted + (data.set * kRounds + round) * RANKS * kWords;
  for (int hop = 0; hop < RANKS; ++hop) {
    const int source = (group.rank + hop) % RANKS;
    Sizes::await(group, box, source);
    jitter();
    // Backwards, so that a thread reads what others wrote.
    for (int i = kWords - 1 - threadIdx.x; i >= 0; i -= THREADS) {
      const u32 got = load_shared_word(Sizes::slice(box, source) + 4 * i);
      const u32 element = source * kWords + i;
      report.take(got == wanted[element], round, element, got, wanted[element]);
    }
  }
  Sizes::release(group, box);
}

)cuda";

constexpr char kDsmStore[] = R"cuda(
using Sizes = DsmReduceScatter<Group, kRegisters>;
using Shares = Sizes::Shares;
constexpr int kShareFloats = Sizes::kShareRegisters * THREADS;

// Every cluster's parts, scattered in the cluster, then summed over clusters.
SINTER_DEVICE void run_round(const Group& group, DsmMailbox<1>& box, const Data& data, int,
                             Report& report) {
  const int parts = gridDim.x / CLUSTER, part = blockIdx.x / CLUSTER;
  const int tile = group.first + group.rank;
  float d[kRegisters], share[Sizes::kShareRegisters];
  load_part(d, data.in + ((data.set * parts + part) * RANKS + group.rank) * kPartFloats);
  dsm_reduce_scatter<DsmAdd>(group, box, d, share);
  const InterClusterTile where{data.scratch + tile * parts * kShareFloats, data.counters + tile,
                               part, parts, data.staging};
  if (!inter_cluster_reduce<InterClusterOrder::ORDER>(group, share, where)) return;
#pragma unroll
  for (int i = 0; i < Sizes::kShareRegisters; ++i) {
    if (i / 4 >= Shares::count(group.rank)) continue;
    const u32 element = element_of(4 * Shares::first(group.rank) + i);
    report.number(share[i], data.wanted[data.set * kPartFloats + element], 0, element);
  }
  if (InterClusterOrder::ORDER != InterClusterOrder::kFixed) return;
  group.meet();
  for (int i = threadIdx.x; i < parts * kShareFloats; i += THREADS)
    where.scratch[i] = __uint_as_float(0xFFFFFFFFu);
}

)cuda";

constexpr char kDsmTail[] = R"cuda(
using Mailbox = DsmMailbox<DELIVERIES>;

SINTER_DEVICE void poison(u32 from, int bytes) {
  for (int at = 16 * threadIdx.x; at < bytes; at += 16 * THREADS)
    store_shared(from + at, Word4{0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu});
}

// In odd launches a group begins only after the one before it has ended: an exchange that waits for
// more than its group never ends.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    dsm_case(const float* in, const u32* wanted, float* scratch, u32* counters, u32* words,
             int launch) {
  const u32 base = (shared_address(dynamic_shared) + 127u) & ~127u;
  const u32 go = base + 8 * 20, inbox = base + 256, staging = inbox + Sizes::kInboxBytes;
  Mailbox box{inbox, base};
  poison(inbox, Sizes::kInboxBytes);
  fence_proxy_async_shared();
  if (threadIdx.x == 0) {
    box.init(RANKS);
    mbarrier_init(go, 1);
  }
  dsm_join();
  const int rank = cluster_rank(), index = rank / RANKS;
  if (index >= kGroups) return;
  const Group group{index * RANKS, rank % RANKS, static_cast<int>(threadIdx.x)};
  const bool staggered = launch & 1;
  if (staggered && index > 0) mbarrier_wait_cluster(go, 0);
  // All clusters that add to one tile take the same inputs.
  const int turn = IS_STORE ? index : blockIdx.x / CLUSTER * kGroups + index;
  const Data data{in, wanted, scratch, counters, (launch + turn) % kSets, staging};
  Report report{words, static_cast<u32>(launch)};
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) run_round(group, box, data, round, report);
  box.drain();
  if (staggered && index + 1 < kGroups && threadIdx.x == 0)
    mbarrier_arrive_remote(map_to_rank(go, rank + RANKS));
  report.add();
}
)cuda";

}  // namespace sinter::gpu_testing

#endif  // SINTER_TESTS_GPU_DSM_SOURCE_H_
