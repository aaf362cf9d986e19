// gemm_chain n=768 k=768 l=768 act=relu residual=rounded layout=oi dtype=bf16
// grid-exchange bm128 wg2x1 bk128 st3 cl4 first 8/1 second 32/4
#include "kernels/grid_exchange.cuh"

namespace sinter {

template <>
struct Wgmma<8, BFloat16, false, false> {
  static SINTER_DEVICE void mma(float (&d)[4], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %6, 0;"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b), "r"(accumulate));
  }
};

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
  using Activation = Relu;
  using Bias2 = BFloat16;
  using Activation2 = Identity;
  static constexpr int kBlockM = 128, kBlockK = 128, kStages = 3, kCluster = 4;
  static constexpr int kWarpgroupsM = 2, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 1, 768, 768, 8, 1>;
  using Second = Product<Config, 1, 768, 768, 32, 4>;
};
static_assert(GridExchangeTypes<Config>::Layout::kBytes == 141312, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(384, 1)
sinter_grid_exchange(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const __grid_constant__ TensorMap c_map,
    const __grid_constant__ TensorMap w2,
    const u16* residual,
    u16* out,
    u16* c,
    u32* workspace,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.c_map = &c_map;
  args.w2 = &w2;
  args.residual = residual;
  args.out = out;
  args.c = c;
  args.workspace = workspace;
  args.residual_stride = 768;
  args.out_stride = 768;
  args.m = m;
  grid_exchange<Config, MatrixLeaf<BFloat16, 768, true, AddMatrix<true>>>(args);
}

}  // namespace sinter
