// gemm_chain n=768 k=768 l=768 act=relu residual=rounded layout=oi dtype=bf16
// cluster-exchange bm16 wg1x1 bk64 st4 cl8 first 96/1 second 96/1
#include "kernels/cluster_exchange.cuh"

namespace sinter {

template <>
struct Wgmma<96, BFloat16, false, false> {
  static SINTER_DEVICE void mma(float (&d)[48], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, %48, %49, p, 1, 1, 0, 0;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
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
  static constexpr int kBlockM = 16, kBlockK = 64, kStages = 4, kCluster = 8;
  static constexpr int kWarpgroupsM = 1, kWarpgroupsN = 1;
  static constexpr int kSharers = 1;
  static constexpr bool kWeightsTransposed = false, kConstantWeights = true, kSwapped = false;
  static constexpr bool kBias1 = false, kBias2 = false, kOutAligned = true;
  using First = Product<Config, 1, 768, 768, 96, 1>;
  using Second = Product<Config, 1, 768, 768, 96, 1>;
};
static_assert(ClusterExchangeTypes<Config>::Layout::kBytes == 92160, "the plan and the device library agree on shared memory");

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_cluster_exchange(const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap w1,
    const __grid_constant__ TensorMap w2,
    const u16* residual,
    u16* out,
    int m) {
  Arguments args = {};
  args.a = &a;
  args.w1 = &w1;
  args.w2 = &w2;
  args.residual = residual;
  args.out = out;
  args.residual_stride = 768;
  args.out_stride = 768;
  args.m = m;
  cluster_exchange<Config, MatrixLeaf<BFloat16, 768, true, AddMatrix<true>>>(args);
}

}  // namespace sinter
