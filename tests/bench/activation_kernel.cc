#include "tests/bench/activation_kernel.h"

namespace sinter::bench {
namespace {

constexpr uint32_t kThreads = 256;

// Eight elements a thread, 16-byte accesses, f32 inside.
constexpr char kSource[] = R"(
typedef unsigned int u32;
#ifdef F16
__device__ float low(u32 w) { float r; asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a;}" : "=f"(r) : "r"(w)); return r; }
__device__ float high(u32 w) { float r; asm("{.reg .b16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, b;}" : "=f"(r) : "r"(w)); return r; }
__device__ u32 pack(float a, float b) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
#else
__device__ float low(u32 w) { return __uint_as_float(w << 16); }
__device__ float high(u32 w) { return __uint_as_float(w & 0xffff0000u); }
__device__ u32 pack(float a, float b) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
#endif
__device__ float act(float x) {
#if ACT == 1
  return fmaxf(x, 0.0f);
#elif ACT == 2
  return x / (1.0f + __expf(-2.0f * 0.79788456080286536f * (x + 0.044715f * x * x * x)));
#elif ACT == 3
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
#elif ACT == 4
  return __fdividef(x, 1.0f + __expf(-x));
#else
  return x;
#endif
}
__device__ u32 both(u32 x, u32 up) {
  float a = act(low(x)), b = act(high(x));
#ifdef GATED
  a *= low(up), b *= high(up);
#endif
  return pack(a, b);
}
extern "C" __global__ void __launch_bounds__(256) activate(const uint4* in, uint4* out, int m) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= m * GROUPS) return;
#ifdef GATED
  const uint4* row = in + (long long)(i / GROUPS) * 2 * GROUPS + i % GROUPS;
  const uint4 x = row[0], u = row[GROUPS];
#else
  const uint4 x = in[i], u = x;
#endif
  out[i] = make_uint4(both(x.x, u.x), both(x.y, u.y), both(x.z, u.z), both(x.w, u.w));
}
)";

CompileRequest RequestOf(const MatrixProduct& product) {
  CompileRequest request{
      .name = "activate.cu",
      .source = kSource,
      .options = {absl::StrCat("-DACT=", static_cast<int>(product.epilogue.activation())),
                  absl::StrCat("-DGROUPS=", product.n / 8)},
      .arch = "sm_90a",
      .entry = "activate"};
  if (product.pair) request.options.push_back("-DGATED");
  if (product.result == DType::kF16) request.options.push_back("-DF16");
  return request;
}

LaunchRecipe RecipeOf(const MatrixProduct& product, int64_t m) {
  LaunchRecipe recipe{.entry = "activate"};
  recipe.grid[0] = static_cast<uint32_t>((m * (product.n / 8) + kThreads - 1) / kThreads);
  recipe.block[0] = kThreads;
  ArgSlot in, out, rows;
  out.index = 1;
  rows.kind = ArgKind::kSymbolM;
  recipe.args = {in, out, rows};
  return recipe;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ActivationKernel>> ActivationKernel::Make(
    Compiler* compiler, Loader* loader, const MatrixProduct& product, int64_t m, DevicePtr in,
    DevicePtr out) {
  if (product.n % 8 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("n is ", product.n, ", not a multiple of 8"));
  }
  SINTER_ASSIGN_OR_RETURN(const CompiledKernel compiled, compiler->Compile(RequestOf(product)));
  const LaunchRecipe recipe = RecipeOf(product, m);
  std::shared_ptr<ActivationKernel> kernel(new ActivationKernel());
  kernel->m_ = m;
  SINTER_ASSIGN_OR_RETURN(kernel->kernel_, loader->Load(compiled.cubin, recipe));
  const DevicePtr pointers[] = {in, out};
  SINTER_ASSIGN_OR_RETURN(kernel->bound_, kernel->kernel_->Bind(recipe, {pointers, 2, 0}));
  return std::shared_ptr<const ActivationKernel>(std::move(kernel));
}

}  // namespace sinter::bench
