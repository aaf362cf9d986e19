#include "absl/strings/str_cat.h"
#include "runtime/measure/probes.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Which chips a probe measures: all, only those with wgmma, or only those without.
enum class For { kAll, kHopper, kOthers };

struct ProbeText {
  const char* entry;
  const char* text;
  For chips;
};

// PTX ISA 9.0, sections "Data Movement and Conversion Instructions" and "mbarrier".
constexpr char kPrelude[] = R"probe(
typedef unsigned int u32;
typedef unsigned long long u64;
#define PROBE extern "C" __global__ void

__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }
)probe";

constexpr char kHopperPrelude[] = R"probe(
__device__ __forceinline__ void barrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_of(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_of(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
  u32 done = 0;
  while (!done) {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(shared_of(barrier)), "r"(parity) : "memory");
  }
}
__device__ __forceinline__ void copy_in(void* to, const void* from, u32 bytes, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(shared_of(to)), "l"(from), "r"(bytes), "r"(shared_of(barrier)) : "memory");
}
__device__ __forceinline__ u32 at_rank(u32 address, u32 rank) {
  u32 result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}
__device__ __forceinline__ u32 cluster_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ u32 cluster_blocks() { u32 r; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
)probe";

// Nothing: what a launch costs in a graph.
constexpr char kEmpty[] = R"probe(
PROBE probe_empty() {}
)probe";

// Each block streams `bytes` of its own, or the same as all, `passes` times through a ring.
constexpr char kStream[] = R"probe(
PROBE __launch_bounds__(32) probe_stream(const char* from, int bytes, int apart, int passes) {
  constexpr int kChunk = 16384, kStages = 12;
  extern __shared__ __align__(128) char ring[];
  __shared__ u64 full[kStages];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kStages; ++i) barrier_init(&full[i], 1);
  barrier_fence();
  const char* begin = from + (apart ? (u64)blockIdx.x * bytes : 0);
  const int all = bytes / kChunk * passes;
  int issued = 0, at = 0;
  for (; issued < kStages && issued < all; ++issued) {
    barrier_expect(&full[issued], kChunk);
    copy_in(ring + issued * kChunk, begin + at, kChunk, &full[issued]);
    at = at + kChunk == bytes ? 0 : at + kChunk;
  }
  int stage = 0;
  u32 parity = 0;
  for (int i = 0; i < all; ++i) {
    barrier_wait(&full[stage], parity);
    if (issued < all) {
      barrier_expect(&full[stage], kChunk);
      copy_in(ring + stage * kChunk, begin + at, kChunk, &full[stage]);
      at = at + kChunk == bytes ? 0 : at + kChunk;
      ++issued;
    }
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
}
)probe";

// The same by copies of each thread, past L1: 256 threads of 64 bytes a chunk, up to five chunks
// under way. Nobody reads the ring, so that a thread awaits only its own copies.
constexpr char kCopies[] = R"probe(
PROBE __launch_bounds__(256) probe_copies(const char* from, int bytes, int apart, int passes) {
  constexpr int kChunk = 16384, kStages = 6;
  extern __shared__ __align__(128) char ring[];
  const char* begin = from + (apart ? (u64)blockIdx.x * bytes : 0) + threadIdx.x * 16;
  const u32 to = shared_of(ring) + threadIdx.x * 16;
  const int all = bytes / kChunk * passes;
  int at = 0, stage = 0;
  for (int i = 0; i < all; ++i) {
#pragma unroll
    for (int k = 0; k < kChunk; k += 4096) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + stage * kChunk + k), "l"(begin + at + k) : "memory");
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 5;" ::: "memory");
    at = at + kChunk == bytes ? 0 : at + kChunk;
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}
)probe";

// Each block pushes 64 KB to another of its cluster, `rounds` times.
constexpr char kPush[] = R"probe(
PROBE __launch_bounds__(128) probe_push(int rounds) {
  constexpr u32 kBytes = 65536, kChunk = 16384;
  extern __shared__ __align__(128) char data[];
  __shared__ u64 landed;
  const u32 blocks = cluster_blocks(), rank = cluster_rank();
  if (threadIdx.x == 0) barrier_init(&landed, 1);
  barrier_fence();
  cluster_sync();
  u32 ahead = 0;
  for (int i = 0; i < rounds; ++i) {
    if (threadIdx.x == 0) {
      barrier_expect(&landed, kBytes);
      u32 peer = rank + 1 + ahead;
      if (peer >= blocks) peer -= blocks;
      const u32 to = at_rank(shared_of(data + kBytes), peer), barrier = at_rank(shared_of(&landed), peer);
      for (u32 at = 0; at < kBytes; at += kChunk) {
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to + at), "r"(shared_of(data) + at), "r"(kChunk), "r"(barrier) : "memory");
      }
      barrier_wait(&landed, i & 1);
    }
    ahead = ahead + 2 < blocks ? ahead + 1 : 0;
    cluster_sync();
  }
}
)probe";

// All blocks meet at one counter, which is 0 before, `rounds` times.
constexpr char kGridBarrier[] = R"probe(
PROBE __launch_bounds__(256) probe_grid_barrier(u32* counter, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      const u32 wanted = gridDim.x * (i + 1);
      u32 seen = 0;
      while (seen < wanted) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
    }
    __syncthreads();
  }
}
)probe";

// Each block adds `chunks` times 8 KB of f32 to a buffer of 8 MB.
constexpr char kReduce[] = R"probe(
PROBE __launch_bounds__(128) probe_reduce(char* to, int chunks) {
  constexpr u32 kChunk = 8192, kBuffer = 8 << 20;
  __shared__ __align__(128) float data[kChunk / 4];
  for (u32 i = threadIdx.x; i < kChunk / 4; i += blockDim.x) data[i] = 1e-3f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  u32 at = blockIdx.x * kChunk % kBuffer;
  for (int i = 0; i < chunks; ++i) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 ::"l"(to + at), "r"(shared_of(data)), "r"(kChunk) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 4;" ::: "memory");
    at = at + kChunk == kBuffer ? 0 : at + kChunk;
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
)probe";

// Every thread reads 8 vectors of 16 bytes a round, each warp 512 bytes side by side.
constexpr char kShared[] = R"probe(
PROBE __launch_bounds__(1024) probe_shared(u32* out, int rounds) {
  extern __shared__ __align__(128) char data[];
  for (u32 i = threadIdx.x; i < 16384; i += 1024) ((u32*)data)[i] = i;
  __syncthreads();
  const u32 base = shared_of(data) + threadIdx.x * 16;
  u32 sum = 0;
  for (int i = 0; i < rounds; ++i) {
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
      u32 a, b, c, d;
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(base + k % 4 * 16384));
      sum ^= a ^ b ^ c ^ d;
    }
  }
  if (sum == 0x12345678) out[0] = sum;
}
)probe";

// Two warpgroups multiply 64 rows each by 256 columns, 64 of K a round, out of shared memory with
// the 128-byte swizzle. The operands are random, which takes the power that data takes.
constexpr char kTensor[] = R"probe(
__device__ __forceinline__ u64 descriptor_of(u32 address) {
  return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
PROBE __launch_bounds__(256) probe_tensor(float* out, int rounds) {
  extern __shared__ __align__(1024) char data[];
  for (u32 i = threadIdx.x; i < 384 * 128 / 4; i += 256) {
    u32 h = i * 2654435761u;
    h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
    ((u32*)data)[i] = (h & 0x807f807f) | 0x3f003f00;  // bf16 of 0.5 to 1 and either sign
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const u64 a = descriptor_of(shared_of(data) + threadIdx.x / 128 * 8192);
  const u64 b = descriptor_of(shared_of(data) + 16384);
  float d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
  for (int i = 0; i < rounds; ++i) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) PROBE_MMA(a + 2 * k, b + 2 * k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) sum += d[i];
  if (sum == 12345.678f) out[0] = sum;
}
)probe";

// Each of eight warps multiplies 64 rows by 32 columns a round, 32 bytes of K, out of registers: 16
// mma.sync with sums of their own. The operands are random.
constexpr char kMma[] = R"probe(
__device__ __forceinline__ u32 word_of(u32 i) {
  u32 h = (threadIdx.x * 32 + i + 1) * 2654435761u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (h & PROBE_KEPT) | PROBE_SET;
}
PROBE __launch_bounds__(256) PROBE_ENTRY(PROBE_SUM* out, int rounds) {
  u32 a[4][4], b[4][2];
  PROBE_SUM d[16][4];
#pragma unroll
  for (u32 i = 0; i < 16; ++i) a[i / 4][i % 4] = word_of(i);
#pragma unroll
  for (u32 i = 0; i < 8; ++i) b[i / 2][i % 2] = word_of(16 + i);
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i / 4][i % 4] = 0;
  for (int i = 0; i < rounds; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      asm volatile("mma.sync.aligned." PROBE_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : PROBE_D(d[j][0]), PROBE_D(d[j][1]), PROBE_D(d[j][2]), PROBE_D(d[j][3])
                   : "r"(a[j / 4][0]), "r"(a[j / 4][1]), "r"(a[j / 4][2]), "r"(a[j / 4][3]), "r"(b[j % 4][0]), "r"(b[j % 4][1]));
    }
  }
  PROBE_SUM sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i / 4][i % 4];
  if (sum == (PROBE_SUM)12345) out[0] = sum;
}
)probe";

constexpr ProbeText kProbes[] = {
    {"probe_empty", kEmpty, For::kAll},
    {"probe_stream", kStream, For::kHopper},
    {"probe_copies", kCopies, For::kOthers},
    {"probe_push", kPush, For::kHopper},
    {"probe_grid_barrier", kGridBarrier, For::kAll},
    {"probe_reduce", kReduce, For::kHopper},
    {"probe_shared", kShared, For::kAll},
    {"probe_tensor", kTensor, For::kHopper},
    {"probe_mma", kMma, For::kOthers},
    {"probe_mma_codes", kMma, For::kOthers},
};

bool IsFor(const ProbeText& probe, const ArchFeatures& chip) {
  return probe.chips == For::kAll || (probe.chips == For::kHopper) == chip.products;
}

// What the instruction of kMma multiplies, and the words that are random operands of it: bf16 and
// e4m3 of 0.5 to 1 and either sign, any s8.
std::string MmaMacros(absl::string_view entry, int capability) {
  const auto macros = [&](absl::string_view mma, absl::string_view sum, absl::string_view place,
                          absl::string_view kept, absl::string_view set) {
    return absl::StrCat("#define PROBE_ENTRY ", entry, "\n#define PROBE_MMA \"", mma,
                        "\"\n#define PROBE_SUM ", sum, "\n#define PROBE_D \"", place,
                        "\"\n#define PROBE_KEPT ", kept, "\n#define PROBE_SET ", set, "\n");
  };
  if (entry == "probe_mma") {
    return macros("m16n8k16.row.col.f32.bf16.bf16.f32", "float", "+f", "0x807f807f", "0x3f003f00");
  }
  if (capability < kFirstE4M3) {
    return macros("m16n8k32.row.col.s32.s8.s8.s32", "int", "+r", "0xffffffff", "0");
  }
  return macros("m16n8k32.row.col.f32.e4m3.e4m3.f32", "float", "+f", "0x87878787", "0x30303030");
}

// wgmma of 64 rows, 256 columns and 16 of K: its 128 accumulators have to be written out.
std::string WgmmaMacro() {
  constexpr int kAccumulators = 128;
  std::string names, operands;
  for (int i = 0; i < kAccumulators; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", "%", i);
    absl::StrAppend(&operands, i == 0 ? "" : ", ", "\"+f\"(d[", i, "])");
  }
  return absl::StrCat(
      "#define PROBE_MMA(a, b) asm volatile(\"wgmma.mma_async.sync.aligned.m64n256k16",
      ".f32.bf16.bf16 {", names, "}, %128, %129, 1, 1, 1, 0, 0;\" : ", operands,
      " : \"l\"(a), \"l\"(b))\n");
}

}  // namespace

std::vector<std::string> ProbeEntries(const ArchFeatures& chip) {
  std::vector<std::string> entries;
  for (const ProbeText& probe : kProbes) {
    if (IsFor(probe, chip)) entries.emplace_back(probe.entry);
  }
  return entries;
}

absl::StatusOr<CompileRequest> ProbeRequest(const std::string& entry, const std::string& arch) {
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures chip, FeaturesOf(arch));
  CompileRequest request;
  request.name = absl::StrCat(entry, ".cu");
  request.arch = arch;
  request.entry = entry;
  for (const ProbeText& probe : kProbes) {
    if (entry != probe.entry) continue;
    request.source =
        absl::StrCat(kPrelude, probe.chips == For::kHopper ? kHopperPrelude : "",
                     probe.text == kTensor ? WgmmaMacro() : "",
                     probe.text == kMma ? MmaMacros(entry, chip.capability) : "", probe.text);
  }
  return request;
}

}  // namespace sinter
