// product n=768 k=768 act=identity residual=rounded layout=oi dtype=bf16
// product bm128 wg2x1 bk128 st3 cl2 first 24/2
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<24, BFloat16, false, false> {
  static SINTER_DEVICE void mma(float (&d)[12], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %14, 0;"
        "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, %12, %13, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = BFloat16;
  using Result = BFloat16;
  using Bias = BFloat16;
  using Activation = Identity;
  static constexpr int kBlockM = 128, kBlockK = 128, kStages = 3, kCluster = 2;
  static constexpr int kWarpgroupsM = 2, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 1, 768, 768, 24, 2>;
};
static_assert(ProductTypes<Config>::Layout::kBytes == 131072, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(384, 1)
sinter_product(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const u16* residual,
    u16* out,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.residual = residual;
  args.out = out;
  args.residual_stride = 768;
  args.out_stride = 768;
  args.m = m;
  product<Config, MatrixLeaf<BFloat16, 768, true, AddMatrix<true>>>(args);
}

}  // namespace sinter
