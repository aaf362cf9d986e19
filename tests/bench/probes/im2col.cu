// What im2col loads of the tensor memory accelerator do on a Hopper GPU: which pixels they bring,
// what happens at the edges that no document describes, how fast they are compared with plain
// boxes, and whether wgmma reads a tile from any row of it. Prints a line a question. README.md of
// this folder says how to build and run it.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using bf16 = __nv_bfloat16;

void Check(cudaError_t error, int line) {
  if (error == cudaSuccess) return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(error));
  std::exit(3);
}
#define CHECK(call) Check((call), __LINE__)

// ---------------------------------------------------------------- Device

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void InitBarrier(uint64_t* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(bar)));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void Expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(bar)),
               "r"(bytes)
               : "memory");
}
// False after about 0.2 s.
__device__ bool Wait(uint64_t* bar, uint32_t parity) {
  for (int n = 0; n < 400000; ++n) {
    uint32_t done;
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0,1,0,p;}"
        : "=r"(done)
        : "r"(Shared(bar)), "r"(parity)
        : "memory");
    if (done) return true;
  }
  return false;
}
__device__ void LoadIm2col(void* to, const CUtensorMap* map, int c, int w, int h, int n,
                           uint16_t ow, uint16_t oh, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], "
      "[%6], {%7, %8};" ::"r"(Shared(to)),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(Shared(bar)), "h"(ow), "h"(oh)
      : "memory");
}
__device__ void LoadIm2colBoth(void* to, const CUtensorMap* map, int c, int w, int h, int n,
                               uint16_t ow, uint16_t oh, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes."
      "multicast::cluster [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;" ::"r"(Shared(to)),
      "l"(map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(Shared(bar)), "h"(ow), "h"(oh),
      "h"(static_cast<uint16_t>(3))
      : "memory");
}
__device__ void LoadBox(void* to, const CUtensorMap* map, int x, int y, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(Shared(to)),
      "l"(map), "r"(x), "r"(y), "r"(Shared(bar))
      : "memory");
}

// Where element `column` of row `row` of a tile of 64 bf16 a row lies under the 128-byte swizzle.
__host__ __device__ int Swizzled(int row, int column) {
  return row * 64 + ((column * 2) ^ ((row & 7) * 16)) / 2;
}

// One load a block: its 64 channels of `pixels` pixels, unswizzled.
struct Job {
  int c, w, h, n;
  uint16_t ow, oh;
};

__global__ void __launch_bounds__(128) LoadOne(const __grid_constant__ CUtensorMap map,
                                               const Job* jobs, int pixels, bf16* out, int* late) {
  extern __shared__ __align__(1024) bf16 tile[];
  __shared__ uint64_t bar;
  for (int i = threadIdx.x; i < pixels * 64; i += blockDim.x)
    reinterpret_cast<uint16_t*>(tile)[i] = 0x7fff;
  if (threadIdx.x == 0) InitBarrier(&bar);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const Job job = jobs[blockIdx.x];
  if (threadIdx.x == 0) {
    Expect(&bar, pixels * 128);
    LoadIm2col(tile, &map, job.c, job.w, job.h, job.n, job.ow, job.oh, &bar);
  }
  const bool came = Wait(&bar, 0);
  __syncthreads();
  if (!came && threadIdx.x == 0) atomicAdd(late, 1);
  for (int i = threadIdx.x; i < pixels * 64; i += blockDim.x)
    out[static_cast<size_t>(blockIdx.x) * pixels * 64 + i] = tile[Swizzled(i / 64, i % 64)];
}

// Two blocks load a half of the pixels each, into both. Jobs: two a cluster.
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128)
    LoadHalves(const __grid_constant__ CUtensorMap map, const Job* jobs, int pixels, bf16* out,
               int* late) {
  extern __shared__ __align__(1024) bf16 tile[];
  __shared__ uint64_t bar;
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    InitBarrier(&bar);
    Expect(&bar, 2 * pixels * 128);
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
  const Job job = jobs[blockIdx.x];
  if (threadIdx.x == 0) {
    LoadIm2colBoth(tile + rank * pixels * 64, &map, job.c, job.w, job.h, job.n, job.ow, job.oh,
                   &bar);
  }
  const bool came = Wait(&bar, 0);
  if (!came && threadIdx.x == 0) atomicAdd(late, 1);
  for (int i = threadIdx.x; i < 2 * pixels * 64; i += blockDim.x)
    out[static_cast<size_t>(blockIdx.x) * 2 * pixels * 64 + i] = tile[Swizzled(i / 64, i % 64)];
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// A ring of stages of two 64-channel subtiles of `rows` rows each, as kernels of products load
// rows. Nothing is computed.
struct Walk {
  int rows, stages, steps;   // steps: stages that each block takes in all
  int channels, taps, side;  // taps: of a side x side filter; 0: plain boxes
  int width, pixels, tiles;  // output columns, output pixels of an image, row tiles
};

__global__ void __launch_bounds__(128)
    Stream(const __grid_constant__ CUtensorMap map, Walk walk, int* late) {
  extern __shared__ __align__(1024) bf16 ring[];
  __shared__ uint64_t full[16];
  if (threadIdx.x != 0) return;
  const int stage_elements = 2 * walk.rows * 64;
  for (int s = 0; s < walk.stages; ++s) InitBarrier(&full[s]);
  const int tile = static_cast<int>(blockIdx.x) % walk.tiles;
  const int row = tile * walk.rows;
  const int n = row / walk.pixels, y = row % walk.pixels / walk.width - 1, x = row % walk.width - 1;
  int c = 0, tap_x = 0, tap_y = 0;
  const int subtiles = walk.taps * (walk.channels / 64);
  int subtile = 0;
  for (int step = 0; step < walk.steps; ++step) {
    const int s = step % walk.stages;
    if (step >= walk.stages && !Wait(&full[s], (step / walk.stages - 1) & 1)) {
      atomicAdd(late, 1);
      return;
    }
    Expect(&full[s], stage_elements * 2);
    for (int half = 0; half < 2; ++half) {
      bf16* to = ring + s * stage_elements + half * walk.rows * 64;
      if (walk.side == 0) {
        LoadBox(to, &map, subtile * 64, row, &full[s]);
      } else {
        LoadIm2col(to, &map, c, x, y, n, static_cast<uint16_t>(tap_x), static_cast<uint16_t>(tap_y),
                   &full[s]);
      }
      c += 64;
      if (c >= walk.channels) {
        c = 0;
        if (++tap_x == walk.side) {
          tap_x = 0;
          if (++tap_y == walk.side) tap_y = 0;
        }
      }
      if (++subtile == subtiles) subtile = 0;
    }
  }
  for (int s = 0; s < walk.stages; ++s) {
    const int last = (walk.steps - 1 - s) / walk.stages;  // turns of this stage, less one
    Wait(&full[s], last & 1);
  }
}

// D = A B of a 64 x 64 A that begins at row `shift` of a swizzled tile of 72 rows, and a B of 8
// columns.
__global__ void __launch_bounds__(128)
    MultiplyShifted(const bf16* a, const bf16* b, int shift, int base_offset, float* out) {
  __shared__ __align__(1024) bf16 rows[80 * 64];
  __shared__ __align__(1024) bf16 columns[8 * 64];
  for (int i = threadIdx.x; i < 80 * 64; i += 128) rows[Swizzled(i / 64, i % 64)] = a[i];
  for (int i = threadIdx.x; i < 8 * 64; i += 128) columns[Swizzled(i / 64, i % 64)] = b[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  const auto describe = [](uint32_t address, uint64_t offset) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 |
           uint64_t{1024 >> 4} << 32 | offset << 49 | uint64_t{1} << 62;
  };
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < 4; ++k) {
    const uint64_t da = describe(Shared(rows) + shift * 128 + k * 32, base_offset);
    const uint64_t db = describe(Shared(columns) + k * 32, 0);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(da), "l"(db));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4,
            column = 2 * (lane % 4);
  out[row * 8 + column] = d[0];
  out[row * 8 + column + 1] = d[1];
  out[(row + 8) * 8 + column] = d[2];
  out[(row + 8) * 8 + column + 1] = d[3];
}

// ---------------------------------------------------------------- Host

using EncodeIm2col = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                  const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                  cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
                                  CUtensorMapSwizzle, CUtensorMapL2promotion,
                                  CUtensorMapFloatOOBfill);
using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

template <typename F>
F Driver(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult result;
  CHECK(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &result));
  return reinterpret_cast<F>(f);
}

struct Conv {
  int n, h, w, c;
  int r, s;  // filter rows, columns
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int top = 0, bottom = 0, left = 0, right = 0;

  int P() const { return (h + top + bottom - dilation_h * (r - 1) - 1) / stride_h + 1; }
  int Q() const { return (w + left + right - dilation_w * (s - 1) - 1) / stride_w + 1; }
  int Pixels() const { return n * P() * Q(); }
};

CUresult MapOf(const Conv& v, void* x, int pixels, bool height_first, CUtensorMap* map) {
  static const auto encode = Driver<EncodeIm2col>("cuTensorMapEncodeIm2col");
  const cuuint64_t dims[4] = {cuuint64_t(v.c), cuuint64_t(v.w), cuuint64_t(v.h), cuuint64_t(v.n)};
  const cuuint64_t strides[3] = {cuuint64_t(v.c) * 2, cuuint64_t(v.c) * v.w * 2,
                                 cuuint64_t(v.c) * v.w * v.h * 2};
  int lower[2] = {-v.left, -v.top};
  int upper[2] = {v.right - (v.s - 1) * v.dilation_w, v.bottom - (v.r - 1) * v.dilation_h};
  if (height_first) {
    std::swap(lower[0], lower[1]);
    std::swap(upper[0], upper[1]);
  }
  const cuuint32_t element[4] = {1, cuuint32_t(v.stride_w), cuuint32_t(v.stride_h), 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, x, dims, strides, lower, upper, 64,
                cuuint32_t(pixels), element, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// x with NaN before and after it.
struct Image {
  std::vector<float> values;
  bf16* memory = nullptr;
  bf16* x = nullptr;

  explicit Image(const Conv& v) : values(size_t(v.n) * v.h * v.w * v.c) {
    const size_t guard = 65536;
    std::vector<bf16> host(values.size() + 2 * guard, __float2bfloat16(NAN));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = __bfloat162float(__float2bfloat16(float(std::rand() % 2001 - 1000) / 500.f));
      host[guard + i] = __float2bfloat16(values[i]);
    }
    CHECK(cudaMalloc(&memory, host.size() * 2));
    CHECK(cudaMemcpy(memory, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
    x = memory + guard;
  }
  ~Image() { cudaFree(memory); }

  float At(const Conv& v, int n, int h, int w, int c) const {
    if (n < 0 || n >= v.n || h < 0 || h >= v.h || w < 0 || w >= v.w || c >= v.c) return 0;
    return values[((size_t(n) * v.h + h) * v.w + w) * v.c + c];
  }
};

Job JobAt(const Conv& v, int row, int tap_y, int tap_x, int c) {
  const int n = row / (v.P() * v.Q()), in = row % (v.P() * v.Q());
  return {c, in % v.Q() * v.stride_w - v.left, in / v.Q() * v.stride_h - v.top,
          n, uint16_t(tap_x * v.dilation_w),   uint16_t(tap_y * v.dilation_h)};
}

// Rows of the im2col matrix from `row` on; zeros after the last.
float Want(const Conv& v, const Image& image, int row, int tap_y, int tap_x, int c) {
  if (row >= v.Pixels()) return 0;
  const int n = row / (v.P() * v.Q()), in = row % (v.P() * v.Q());
  return image.At(v, n, in / v.Q() * v.stride_h - v.top + tap_y * v.dilation_h,
                  in % v.Q() * v.stride_w - v.left + tap_x * v.dilation_w, c);
}

struct Loaded {
  std::vector<float> values;
  int late = 0;
  cudaError_t error = cudaSuccess;
};

template <typename Kernel>
Loaded Run(Kernel kernel, const CUtensorMap& map, const std::vector<Job>& jobs, int pixels,
           int per_block) {
  Job* device_jobs;
  bf16* out;
  int* late;
  const size_t count = jobs.size() * per_block * 64;
  CHECK(cudaMalloc(&device_jobs, jobs.size() * sizeof(Job)));
  CHECK(cudaMalloc(&out, count * 2));
  CHECK(cudaMalloc(&late, 4));
  CHECK(cudaMemset(late, 0, 4));
  CHECK(cudaMemset(out, 0xff, count * 2));
  CHECK(cudaMemcpy(device_jobs, jobs.data(), jobs.size() * sizeof(Job), cudaMemcpyHostToDevice));
  const int shared = per_block * 128;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  kernel<<<int(jobs.size()), 128, shared>>>(map, device_jobs, pixels, out, late);
  Loaded loaded;
  loaded.error = cudaDeviceSynchronize();
  if (loaded.error != cudaSuccess) return loaded;
  std::vector<bf16> host(count);
  CHECK(cudaMemcpy(host.data(), out, count * 2, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&loaded.late, late, 4, cudaMemcpyDeviceToHost));
  loaded.values.resize(count);
  for (size_t i = 0; i < count; ++i) loaded.values[i] = __bfloat162float(host[i]);
  cudaFree(device_jobs);
  cudaFree(out);
  cudaFree(late);
  return loaded;
}

// Every tap, channel block and row tile of one convolution. Wrong elements.
long WrongOf(const Conv& v, int pixels, bool height_first = false) {
  const Image image(v);
  CUtensorMap map;
  const CUresult encoded = MapOf(v, image.x, pixels, height_first, &map);
  if (encoded != CUDA_SUCCESS) return -int(encoded);
  std::vector<Job> jobs;
  std::vector<int> rows, taps, channels;
  for (int row = 0; row < v.Pixels(); row += pixels) {
    for (int tap = 0; tap < v.r * v.s; ++tap) {
      for (int c = 0; c < v.c; c += 64) {
        jobs.push_back(JobAt(v, row, tap / v.s, tap % v.s, c));
        rows.push_back(row);
        taps.push_back(tap);
        channels.push_back(c);
      }
    }
  }
  const Loaded loaded = Run(LoadOne, map, jobs, pixels, pixels);
  if (loaded.error != cudaSuccess || loaded.late > 0) return -1000 - loaded.late;
  long wrong = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (int i = 0; i < pixels * 64; ++i) {
      const float want =
          Want(v, image, rows[j] + i / 64, taps[j] / v.s, taps[j] % v.s, channels[j] + i % 64);
      wrong += !(loaded.values[j * pixels * 64 + i] == want);
    }
  }
  return wrong;
}

void ProbeShapes() {
  int cases = 0;
  long bad = 0;
  for (const int filter : {1, 2, 3, 5, 7}) {
    for (const int stride : {1, 2, 3}) {
      for (const int dilation : {1, 2, 3}) {
        for (const int channels : {8, 40, 64, 72, 128}) {
          for (const int pads : {0, 1, 2}) {
            Conv v{3, 15, 11, channels, filter, filter};
            v.stride_h = stride;
            v.stride_w = stride == 3 ? 2 : stride;
            v.dilation_h = v.dilation_w = dilation;
            if (pads == 1) v.top = v.bottom = v.left = v.right = filter / 2 * dilation;
            if (pads == 2) {
              v.top = 2;
              v.bottom = 1;
              v.left = 0;
              v.right = 3;
            }
            if (v.h + v.top + v.bottom <= dilation * (filter - 1) ||
                v.w + v.left + v.right <= dilation * (filter - 1))
              continue;
            for (const int pixels : {32, 49}) {
              ++cases;
              const long wrong = WrongOf(v, pixels);
              if (wrong == 0) continue;
              ++bad;
              if (bad <= 20)
                std::printf(
                    "  WRONG %ld: filter %d stride %d,%d dilation %d channels %d pads %d pixels %d "
                    "P %d Q %d\n",
                    wrong, filter, v.stride_h, v.stride_w, dilation, channels, pads, pixels, v.P(),
                    v.Q());
            }
          }
        }
      }
    }
  }
  std::printf("1. shapes: %ld of %d differ from the model (corners W first)\n", bad, cases);
}

void ProbeCorners(bool height_first) {
  Conv v{3, 15, 11, 64, 3, 5};
  v.top = v.bottom = 1;
  v.left = v.right = 2;
  std::printf("1. corners %s first: %ld wrong elements (-1000: a fault)\n",
              height_first ? "H" : "W", WrongOf(v, 32, height_first));
}

// Loads that no document describes. A fault ends the context, so each runs in a process of its own.
void ProbeEdge(int number) {
  Conv v{3, 15, 11, 64, 3, 3};
  v.top = v.bottom = v.left = v.right = 1;
  const Image image(v);
  CUtensorMap map;
  if (MapOf(v, image.x, 64, false, &map) != CUDA_SUCCESS) return;
  const struct {
    const char* what;
    Job job;
  } edges[] = {{"channels wholly past C", {64, -1, -1, 0, 1, 1}},
               {"from the fifth last pixel", JobAt(v, v.Pixels() - 5, 1, 1, 0)},
               {"n = N, first base", {0, -1, -1, 3, 1, 1}},
               {"n = N + 5", {0, -1, -1, 8, 1, 1}},
               {"w past the box's last base", {0, v.w, -1, 0, 1, 1}},
               {"h past the box's last base", {0, -1, v.h, 0, 1, 1}},
               {"n = -1", {0, -1, -1, -1, 1, 1}},
               {"w before the box", {0, -2, -1, 0, 1, 1}},
               {"channel -64", {-64, -1, -1, 0, 1, 1}}};
  if (number < 0 || number >= int(sizeof(edges) / sizeof(edges[0]))) return;
  const Loaded loaded = Run(LoadOne, map, {edges[number].job}, 64, 64);
  long zeros = 0, poison = 0, wrong = 0;
  for (size_t i = 0; i < loaded.values.size(); ++i) {
    zeros += loaded.values[i] == 0;
    poison += std::isnan(loaded.values[i]);
    if (number == 1)
      wrong +=
          !(loaded.values[i] == Want(v, image, v.Pixels() - 5 + int(i) / 64, 1, 1, int(i) % 64));
  }
  std::printf(
      "2. %s: %s, %d late; of %zu elements %ld are zero, %ld NaN, %ld not as the model has them\n",
      edges[number].what, cudaGetErrorString(loaded.error), loaded.late, loaded.values.size(),
      zeros, poison, wrong);
}

void ProbeLimits() {
  Conv far{1, 300, 4, 64, 256, 1};  // the last tap is 255 rows below
  std::printf("3. filter of 256 rows (offset 255): %ld\n", WrongOf(far, 32));
  Conv farther{1, 300, 4, 64, 257, 1};
  std::printf("3. filter of 257 rows (offset 256): %ld (negative: refused)\n",
              WrongOf(farther, 32));
  for (const int pad : {127, 128, 129}) {
    Conv padded{1, 20, 4, 64, 1, 1};
    padded.top = pad;
    std::printf("3. padding %d at the top: %ld (negative: refused)\n", pad, WrongOf(padded, 32));
  }
  Conv strided{1, 40, 40, 64, 1, 1};
  strided.stride_h = strided.stride_w = 8;
  std::printf("3. stride 8: %ld\n", WrongOf(strided, 8));
  for (const int pixels : {1, 7, 49, 128, 256}) {
    Conv v{4, 15, 11, 64, 3, 3};
    v.top = v.bottom = v.left = v.right = 1;
    std::printf("6. %d pixels a load: %ld\n", pixels, WrongOf(v, pixels));
  }
  Conv small{1, 7, 7, 512, 3, 3};
  small.top = small.bottom = small.left = small.right = 1;
  std::printf("3. 7 x 7 x 512, a tensor of 49 KB: %ld\n", WrongOf(small, 49));
}

void ProbeHalves() {
  Conv v{3, 15, 11, 128, 3, 3};
  v.top = v.bottom = v.left = v.right = 1;
  const Image image(v);
  CUtensorMap map;
  const int pixels = 32;
  if (MapOf(v, image.x, pixels, false, &map) != CUDA_SUCCESS) return;
  std::vector<Job> jobs;
  std::vector<int> rows;
  for (int row = 0; row < v.Pixels(); row += 2 * pixels) {
    const int second = std::min(row + pixels, v.Pixels() - 1);
    jobs.push_back(JobAt(v, row, 2, 0, 64));
    jobs.push_back(JobAt(v, second, 2, 0, 64));
    rows.push_back(row);
  }
  const Loaded loaded = Run(LoadHalves, map, jobs, pixels, 2 * pixels);
  long wrong = 0, rows_checked = 0;
  for (size_t j = 0; j < jobs.size() && loaded.late == 0; ++j) {
    for (int i = 0; i < 2 * pixels * 64; ++i) {
      const int row = rows[j / 2] + i / 64;
      if (row >= v.Pixels()) continue;
      ++rows_checked;
      wrong += !(loaded.values[j * 2 * pixels * 64 + i] == Want(v, image, row, 2, 0, 64 + i % 64));
    }
  }
  std::printf("4. halves by two blocks, multicast: %ld of %ld elements wrong, %d late, %s\n", wrong,
              rows_checked, loaded.late, cudaGetErrorString(loaded.error));
}

double MicrosecondsOf(const CUtensorMap& map, const Walk& walk, int blocks) {
  int* late;
  CHECK(cudaMalloc(&late, 4));
  CHECK(cudaMemset(late, 0, 4));
  const int shared = walk.stages * 2 * walk.rows * 128;
  CHECK(cudaFuncSetAttribute(Stream, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 7; ++i) {
    CHECK(cudaEventRecord(begin));
    Stream<<<blocks, 128, shared>>>(map, walk, late);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms * 1000);
  }
  int stuck;
  CHECK(cudaMemcpy(&stuck, late, 4, cudaMemcpyDeviceToHost));
  cudaFree(late);
  std::sort(times.begin(), times.end());
  return stuck > 0 ? NAN : times[times.size() / 2];
}

// Rates from L2: bytes an SM and all of them take in, by im2col of a 3 x 3 filter and by plain
// boxes of the im2col matrix.
void ProbeRates() {
  static const auto encode = Driver<EncodeTiled>("cuTensorMapEncodeTiled");
  std::printf(
      "5. rows channels stages  blocks: GB/s of one SM by im2col, by boxes; im2col / boxes\n");
  struct Size {
    int n, side, channels;
  };
  for (const Size size :
       {Size{1, 56, 64}, Size{1, 28, 128}, Size{1, 14, 256}, Size{1, 7, 512}, Size{8, 28, 128}}) {
    Conv v{size.n, size.side, size.side, size.channels, 3, 3};
    v.top = v.bottom = v.left = v.right = 1;
    const Image image(v);
    const int k = 9 * size.channels;
    bf16* matrix;
    CHECK(cudaMalloc(&matrix, size_t(v.Pixels()) * k * 2));
    CHECK(cudaMemset(matrix, 0, size_t(v.Pixels()) * k * 2));
    for (const int rows : {32, 64, 128}) {
      CUtensorMap gathered, plain;
      if (MapOf(v, image.x, rows, false, &gathered) != CUDA_SUCCESS) continue;
      const cuuint64_t dims[2] = {cuuint64_t(k), cuuint64_t(v.Pixels())},
                       strides[1] = {cuuint64_t(k) * 2};
      const cuuint32_t box[2] = {64, cuuint32_t(rows)}, ones[2] = {1, 1};
      if (encode(&plain, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, matrix, dims, strides, box, ones,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        continue;
      const int stage_bytes = 2 * rows * 128, stages = std::min(12, 196608 / stage_bytes);
      Walk walk{rows,
                stages,
                600,
                size.channels,
                9,
                3,
                v.Q(),
                v.P() * v.Q(),
                (v.Pixels() + rows - 1) / rows};
      Walk boxes = walk;
      boxes.side = 0;
      for (const int blocks : {1, 132}) {
        Walk few = walk, few_boxes = boxes;
        few.steps = few_boxes.steps = 60;
        // The difference of two lengths: without launch and fill.
        const double by_im2col =
            MicrosecondsOf(gathered, walk, blocks) - MicrosecondsOf(gathered, few, blocks);
        const double by_boxes =
            MicrosecondsOf(plain, boxes, blocks) - MicrosecondsOf(plain, few_boxes, blocks);
        const double bytes = 540.0 * stage_bytes;
        std::printf("5. %4d %4d %2d %4d: %7.1f %7.1f  %.3f   %d x %d x %d\n", rows, size.channels,
                    stages, blocks, bytes / by_im2col / 1e3, bytes / by_boxes / 1e3,
                    by_boxes / by_im2col, size.n, size.side, size.side);
      }
    }
    cudaFree(matrix);
  }
}

void ProbeShiftedTiles() {
  std::vector<bf16> a(80 * 64), b(8 * 64);
  for (bf16& value : a) value = __float2bfloat16(float(std::rand() % 201 - 100) / 100.f);
  for (bf16& value : b) value = __float2bfloat16(float(std::rand() % 201 - 100) / 100.f);
  bf16 *da, *db;
  float* out;
  CHECK(cudaMalloc(&da, a.size() * 2));
  CHECK(cudaMalloc(&db, b.size() * 2));
  CHECK(cudaMalloc(&out, 64 * 8 * 4));
  CHECK(cudaMemcpy(da, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
  for (const bool offset : {false, true}) {
    std::string right;
    for (int shift = 0; shift <= 8; ++shift) {
      MultiplyShifted<<<1, 128>>>(da, db, shift, offset ? shift % 8 : 0, out);
      CHECK(cudaDeviceSynchronize());
      std::vector<float> d(64 * 8);
      CHECK(cudaMemcpy(d.data(), out, d.size() * 4, cudaMemcpyDeviceToHost));
      double worst = 0;
      for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < 8; ++column) {
          double want = 0;
          for (int k = 0; k < 64; ++k)
            want += double(__bfloat162float(a[(row + shift) * 64 + k])) *
                    __bfloat162float(b[column * 64 + k]);
          worst = std::max(worst, std::abs(want - d[row * 8 + column]));
        }
      }
      right += worst < 1e-3 ? " yes" : " no";
    }
    std::printf("7. wgmma from row 0 .. 8 of a swizzled tile, base offset %s: right%s\n",
                offset ? "the row" : "0", right.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IONBF, 0);
  std::srand(7);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "shapes") ProbeShapes();
  if (what == "corners") ProbeCorners(argc > 2);
  if (what == "limits") ProbeLimits();
  if (what == "halves") ProbeHalves();
  if (what == "shifted") ProbeShiftedTiles();
  if (what == "rates") ProbeRates();
  if (what == "edge" && argc > 2) ProbeEdge(std::atoi(argv[2]));
  return 0;
}
