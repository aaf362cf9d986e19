// gated_product n=3072 k=1024 act=silu layout=oi dtype=e4m3 scales=vector,vector accumulate=fast result=bf16
// product bm128 wg2x1 bk128 st3 cl2 first 48/2
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<96, FastFloatE4M3, false, false> {
  static SINTER_DEVICE void mma(float (&d)[48], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, %48, %49, p, 1, 1;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = FastFloatE4M3;
  using Result = BFloat16;
  using Bias = BFloat16;
  using Activation = Silu;
  static constexpr int kBlockM = 128, kBlockK = 128, kStages = 3, kCluster = 2;
  static constexpr int kWarpgroupsM = 2, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 2, 3072, 1024, 48, 2>;
};
static_assert(ProductTypes<Config>::Layout::kBytes == 137216, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(384, 1)
sinter_product(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const __grid_constant__ TensorMap w_up,
    const float* scale_a,
    const float* scale_w1,
    const float* scale_up,
    u16* out,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.w_up = &w_up;
  args.factor1 = scale_a;
  args.scale_w1 = scale_w1;
  args.scale_up = scale_up;
  args.out = out;
  args.scale1 = 0x1p+0f;
  args.out_stride = 3072;
  args.m = m;
  product<Config, NoMatrix, ColumnFactors<RowFactors<Float32>, false>>(args);
}

}  // namespace sinter
