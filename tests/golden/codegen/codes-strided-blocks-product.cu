// gated_product n=1024 k=512 act=silu layout=oi dtype=e4m3 scales=block 1x128[1,M],block 128x128[5,1] result=bf16
// product bm64 wg1x1 bk128 st4 cl1 first 64/1
#include "kernels/product.cuh"

namespace sinter {

template <>
struct Wgmma<128, FloatE4M3, false, false> {
  static SINTER_DEVICE void mma(float (&d)[64], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = FloatE4M3;
  using Result = BFloat16;
  using Bias = BFloat16;
  using Activation = Silu;
  static constexpr int kBlockM = 64, kBlockK = 128, kStages = 4, kCluster = 1;
  static constexpr int kWarpgroupsM = 1, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 2, 1024, 512, 64, 1, 1, 1, PlainRows, true>;
};
static_assert(ProductTypes<Config>::Layout::kBytes == 100352, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(256, 1)
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
  args.scale_a = scale_a;
  args.scale_w1 = scale_w1;
  args.scale_up = scale_up;
  args.out = out;
  args.scale1 = 0x1p+0f;
  args.out_stride = 1024;
  args.m = m;
  product<Config, NoMatrix, NoScaling, BlockScales<true, true, Strided<1, 1, true>, Strided<5, 1>>>(args);
}

}  // namespace sinter
