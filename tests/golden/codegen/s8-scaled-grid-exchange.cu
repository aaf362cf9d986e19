// gated_ffn n=3072 k=1024 l=1024 act=silu scale1=0.125 factor1=f32 factor2=bf16 layout=oi dtype=bf16
// grid-exchange bm128 wg2x1 bk128 st3 cl4 first 32/1 second 32/4
#include "kernels/grid_exchange.cuh"

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

template <>
struct Wgmma<64, BFloat16, false, false> {
  static SINTER_DEVICE void mma(float (&d)[32], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

struct Config {
  using Element = BFloat16;
  using Result = BFloat16;
  using Bias = BFloat16;
  using Activation = Silu;
  using Bias2 = BFloat16;
  using Activation2 = Identity;
  static constexpr int kBlockM = 128, kBlockK = 128, kStages = 3, kCluster = 4;
  static constexpr int kWarpgroupsM = 2, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 2, 3072, 1024, 32, 1>;
  using Second = Product<Config, 1, 1024, 3072, 32, 4>;
};
static_assert(GridExchangeTypes<Config>::Layout::kBytes == 165888, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(384, 1)
sinter_grid_exchange(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const __grid_constant__ TensorMap w_up,
    const __grid_constant__ TensorMap c_map,
    const __grid_constant__ TensorMap w2,
    const float* factor1,
    const u16* factor2,
    u16* out,
    u16* c,
    u32* workspace,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.w_up = &w_up;
  args.c_map = &c_map;
  args.w2 = &w2;
  args.factor1 = factor1;
  args.factor2 = factor2;
  args.out = out;
  args.c = c;
  args.workspace = workspace;
  args.scale1 = 0x1p-3f;
  args.scale2 = 0x1p+0f;
  args.out_stride = 1024;
  args.m = m;
  grid_exchange<Config, NoMatrix, RowFactors<Float32>, RowFactors<Config::Result>>(args);
}

}  // namespace sinter
