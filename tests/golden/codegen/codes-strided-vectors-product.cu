// product n=1024 k=512 act=identity layout=oi dtype=e4m3 scales=vector[2],vector[2] result=f32
// product bm64 wg1x1 bk128 st4 cl1 first 64/1
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<64, FloatE4M3, false, false> {
  static SINTER_DEVICE void mma(float (&d)[32], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = FloatE4M3;
  using Result = Float32;
  using Bias = Float32;
  using Activation = Identity;
  static constexpr int kBlockM = 64, kBlockK = 128, kStages = 4, kCluster = 1;
  static constexpr int kWarpgroupsM = 1, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 1, 1024, 512, 64, 1>;
};
static_assert(ProductTypes<Config>::Layout::kBytes == 67584, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_product(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const float* scale_a,
    const float* scale_w1,
    float* out,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.factor1 = scale_a;
  args.scale_w1 = scale_w1;
  args.out = out;
  args.scale1 = 0x1p+0f;
  args.out_stride = 1024;
  args.m = m;
  product<Config, NoMatrix, ColumnFactors<RowFactors<Float32, 2>, false, Float32, 2>>(args);
}

}  // namespace sinter
