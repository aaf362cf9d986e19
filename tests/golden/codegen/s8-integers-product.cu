// gated_product n=3072 k=1024 act=silu layout=oi dtype=s8 scales=vector,vector result=bf16
// product bm128 wg2x1 bk128 st3 cl2 first 48/2
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<96, Signed8, false, false> {
  static SINTER_DEVICE void mma(int (&d)[48], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, %48, %49, p;}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = Signed8;
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
