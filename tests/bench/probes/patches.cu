// Does wgmma read the rows under each tap of a 3 x 3 filter out of a patch of pixels that TMA
// loaded as one box? Groups of 8 rows then lie a line of the patch apart, and neither they nor the
// box begin where the swizzle's pattern does. Prints a line a layout: which of the nine taps are
// right. README.md of this folder says how to build and run it.
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

// Pixels of `row_bytes` in a patch of `pitch` x `height`, its box `destination` bytes after an
// address of 1024. Rows under a tap: 8 pixels of each of 8 lines, or with `in_line` 64 contiguous
// places of the patch.
struct Layout {
  int row_bytes = 128, pitch = 10, height = 18, destination = 0;
  bool in_line = false;
  enum { kZero, kOfStart, kOfBox } base_offset = kZero;

  int channels() const { return row_bytes / 2; }
  // Without a swizzle a box has 8 channels, and 8 boxes are contiguous.
  int boxes() const { return row_bytes == 16 ? 8 : 1; }
  int box_bytes() const { return row_bytes * pitch * height; }
  int box_step() const { return (box_bytes() + 127) / 128 * 128; }
  int swizzle() const {
    return row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : row_bytes == 32 ? 3 : 0;
  }
  int steps() const { return boxes() > 1 ? 4 : channels() / 16; }  // of 16 channels
};

// ---------------------------------------------------------------- Device

__device__ uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ uint64_t Describe(uint32_t address, int leading, int stride, uint64_t base_offset,
                             uint64_t swizzle) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<uint64_t>(leading >> 4) << 16 | static_cast<uint64_t>(stride >> 4) << 32 |
         base_offset << 49 | swizzle << 62;
}

struct Corner {
  int x, y, image;
};

// 64 x 16 sums of the tap whose first row is `first` bytes after the box's start.
__global__ void __launch_bounds__(128)
    Multiply(const __grid_constant__ CUtensorMap map, Layout layout, int boxes, int box_bytes,
             int box_step, int swizzle, int steps, Corner at, int first, const bf16* filters,
             float* out, int* late) {
  extern __shared__ unsigned char raw[];
  __shared__ uint64_t bar;
  __shared__ __align__(1024) bf16 columns[4][16 * 16];  // of a step: 8 x 16 bytes a core matrix
  const uint32_t box = ((Shared(raw) + 1023) & ~1023u) + layout.destination;
  for (int i = threadIdx.x; i < 4 * 256; i += 128) {
    const int step = i / 256, n = i % 256 / 16, k = i % 16;
    columns[step][(n / 8 * 2 + k / 8) * 64 + n % 8 * 8 + k % 8] = filters[n * 64 + step * 16 + k];
  }
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(Shared(&bar)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(Shared(&bar)),
                 "r"(box_bytes * boxes)
                 : "memory");
    for (int i = 0; i < boxes; ++i)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
          "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(box + i * box_step),
          "l"(&map), "r"(i * 8), "r"(at.x), "r"(at.y), "r"(at.image), "r"(Shared(&bar))
          : "memory");
  }
  bool came = false;
  for (int n = 0; n < 200000 && !came; ++n) {
    uint32_t done;
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0,1,0,p;}"
        : "=r"(done)
        : "r"(Shared(&bar))
        : "memory");
    came = done;
  }
  if (!came) {
    if (threadIdx.x == 0) atomicAdd(late, 1);
    return;
  }
  __syncthreads();
  float d[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const uint32_t offset_of = layout.base_offset == Layout::kZero      ? 0
                             : layout.base_offset == Layout::kOfStart ? box + first
                                                                      : box;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < steps; ++step) {
    const uint32_t start = box + first + step * (boxes > 1 ? 2 * box_step : 32);
    const uint64_t a = Describe(start, boxes > 1 ? box_step : 16,
                                (layout.in_line ? 8 : layout.pitch) * layout.row_bytes,
                                offset_of >> 7 & 7, swizzle);
    const uint64_t b = Describe(Shared(columns[step]), 128, 256, 0, 0);
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, "
        "1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "l"(a), "l"(b));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  for (int i = 0; i < 8; ++i)
    out[(row + i % 4 / 2 * 8) * 16 + i / 4 * 8 + 2 * (lane % 4) + i % 2] = d[i];
}

// ---------------------------------------------------------------- Host

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

constexpr int kImages = 2, kHeight = 28, kWidth = 20, kChannels = 64, kGuard = 65536;
constexpr int kShared = 100 * 1024;

// Images with NaN before and after them, and 16 filters of one tap.
class Probe {
 public:
  Probe() : image_(kImages * kHeight * kWidth * kChannels), filter_(16 * kChannels) {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult result;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                           &result));
    encode_ = reinterpret_cast<Encode>(f);
    std::vector<bf16> images(image_.size() + 2 * kGuard, __float2bfloat16(NAN));
    std::vector<bf16> filters(filter_.size());
    for (size_t i = 0; i < image_.size(); ++i)
      image_[i] = __bfloat162float(images[kGuard + i] = Random());
    for (size_t i = 0; i < filter_.size(); ++i)
      filter_[i] = __bfloat162float(filters[i] = Random());
    CHECK(cudaMalloc(&images_, images.size() * 2));
    CHECK(cudaMemcpy(images_, images.data(), images.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&filters_, filters.size() * 2));
    CHECK(cudaMemcpy(filters_, filters.data(), filters.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMalloc(&out_, 64 * 16 * 4));
    CHECK(cudaMalloc(&late_, 4));
    CHECK(cudaFuncSetAttribute(Multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  }

  // " yes" or " no" for each tap: patches that begin before an image, end after one, and lie
  // within.
  std::string Taps(const Layout& layout) {
    CUtensorMap map;
    const CUresult encoded = MapOf(layout, &map);
    if (encoded != CUDA_SUCCESS) return " the encoder says " + std::to_string(encoded);
    std::string said;
    for (int tap = 0; tap < 9; ++tap) {
      int wrong = 0;
      for (const Corner at : {Corner{-1, -1, 0}, {kWidth - 7, kHeight - 9, 1}, {5, 3, 0}})
        wrong += Wrong(layout, map, at, tap);
      said += wrong == 0 ? " yes" : " no";
    }
    return said;
  }

 private:
  static bf16 Random() { return __float2bfloat16((std::rand() % 201 - 100) / 100.f); }

  CUresult MapOf(const Layout& layout, CUtensorMap* map) const {
    const cuuint64_t dims[4] = {kChannels, kWidth, kHeight, kImages};
    const cuuint64_t strides[3] = {kChannels * 2, kChannels * kWidth * 2,
                                   kChannels * kWidth * kHeight * 2};
    const cuuint32_t box[4] = {cuuint32_t(layout.channels()), cuuint32_t(layout.pitch),
                               cuuint32_t(layout.height), 1};
    const cuuint32_t ones[4] = {1, 1, 1, 1};
    const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                           CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
    return encode_(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, images_ + kGuard, dims, strides, box,
                   ones, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[layout.swizzle()],
                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }

  float At(int image, int y, int x, int channel) const {
    if (y < 0 || y >= kHeight || x < 0 || x >= kWidth) return 0;
    return image_[((image * kHeight + y) * kWidth + x) * kChannels + channel];
  }

  // Sums of a tap that are not what the definition says.
  int Wrong(const Layout& layout, const CUtensorMap& map, Corner at, int tap) {
    const int place = tap / 3 * layout.pitch + tap % 3;
    CHECK(cudaMemset(late_, 0, 4));
    CHECK(cudaMemset(out_, 0xff, 64 * 16 * 4));
    Multiply<<<1, 128, kShared>>>(map, layout, layout.boxes(), layout.box_bytes(),
                                  layout.box_step(), layout.swizzle(), layout.steps(), at,
                                  place * layout.row_bytes, filters_, out_, late_);
    CHECK(cudaDeviceSynchronize());
    int late = 0;
    std::vector<float> d(64 * 16);
    CHECK(cudaMemcpy(&late, late_, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(d.data(), out_, d.size() * 4, cudaMemcpyDeviceToHost));
    int wrong = late;
    for (int row = 0; row < 64; ++row) {
      const int y = layout.in_line ? (row + place) / layout.pitch : row / 8 + tap / 3;
      const int x = layout.in_line ? (row + place) % layout.pitch : row % 8 + tap % 3;
      for (int n = 0; n < 16; ++n) {
        double want = 0;
        for (int c = 0; c < layout.steps() * 16; ++c)
          want += double{At(at.image, at.y + y, at.x + x, c)} * filter_[n * kChannels + c];
        if (!(std::abs(want - d[row * 16 + n]) < 2e-3)) ++wrong;
      }
    }
    return wrong;
  }

  std::vector<float> image_, filter_;
  Encode encode_ = nullptr;
  bf16 *images_ = nullptr, *filters_ = nullptr;
  float* out_ = nullptr;
  int* late_ = nullptr;
};

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IONBF, 0);
  std::srand(7);
  Probe probe;
  const auto ask = [&](const Layout& l) {
    const char* const offsets[] = {"0", "of the start", "of the box"};
    std::printf("swizzle %3d, pitch %2d, %s, box at %3d, base offset %s:%s\n",
                l.swizzle() == 0 ? 0 : l.row_bytes, l.pitch, l.in_line ? "64 places" : "8 lines  ",
                l.destination, offsets[l.base_offset], probe.Taps(l).c_str());
  };
  std::printf("right at taps 0 to 8, x fastest\n");
  for (const int row_bytes : {128, 64, 32, 16})
    for (const auto base_offset : {Layout::kZero, Layout::kOfStart})
      ask({row_bytes, 10, 18, 0, false, base_offset});
  for (const int pitch : {12, 16, 18}) ask({128, pitch, 10});
  for (const int destination : {128, 256, 384, 640, 896})
    for (const auto base_offset : {Layout::kZero, Layout::kOfBox})
      ask({128, 10, 18, destination, false, base_offset});
  for (const int pitch : {9, 16, 30, 58}) ask({128, pitch, 8 + 64 / pitch, 0, true});
  ask({128, 30, 6, 384, true});
  return 0;
}
