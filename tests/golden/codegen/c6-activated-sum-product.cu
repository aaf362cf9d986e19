// product n=512 k=128 act=identity bias1=1 residual=added sum_act=relu layout=oi dtype=bf16
// product bm32 wg1x1 bk128 st6 cl1 first 32/1
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<32, BFloat16, false, false> {
  static SINTER_DEVICE void mma(float (&d)[16], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %18, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = BFloat16;
  using Result = BFloat16;
  using Bias = BFloat16;
  using Activation = Identity;
  static constexpr int kBlockM = 32, kBlockK = 128, kStages = 6, kCluster = 1;
  static constexpr int kWarpgroupsM = 1, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = true, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 1, 512, 128, 32, 1, 1, 1, PlainRows, true>;
};
static_assert(ProductTypes<Config>::Layout::kBytes == 108544, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_product(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const u16* bias1,
    const u16* residual,
    u16* out,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.bias1 = bias1;
  args.residual = residual;
  args.out = out;
  args.residual_stride = 512;
  args.out_stride = 512;
  args.m = m;
  product<Config, MatrixLeaf<BFloat16, 512, true, AddMatrix<false, Relu>>>(args);
}

}  // namespace sinter
