#include "tests/gpu/late_kernel.h"

namespace sinter::gpu_testing {
namespace {

constexpr char kSource[] = R"(
__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
extern "C" __global__ void late(const unsigned short* from, unsigned short* to, int words) {
  asm volatile("griddepcontrol.launch_dependents;");
  const unsigned long long start = now();
  while (now() - start < 60000) {
  }
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) to[i] = from[i];
}
)";

}  // namespace

absl::StatusOr<std::shared_ptr<const LateKernel>> LateKernel::Make(Compiler* compiler,
                                                                   Loader* loader,
                                                                   DeviceBuffer from,
                                                                   DeviceBuffer to) {
  CompileRequest request{.name = "late.cu", .source = kSource, .arch = "sm_90a", .entry = "late"};
  LaunchRecipe recipe{.entry = "late"};
  recipe.grid[0] = 16;
  recipe.block[0] = 128;
  ArgSlot source, target, words;
  target.index = 1;
  words.kind = ArgKind::kInt32;
  words.int_value = static_cast<int64_t>(std::min(from.bytes, to.bytes) / 2);
  recipe.args = {source, target, words};
  SINTER_ASSIGN_OR_RETURN(const CompiledKernel compiled, compiler->Compile(request));
  std::shared_ptr<LateKernel> made(new LateKernel());
  SINTER_ASSIGN_OR_RETURN(made->kernel_, loader->Load(compiled.cubin, recipe));
  const DevicePtr pointers[] = {from.ptr, to.ptr};
  SINTER_ASSIGN_OR_RETURN(made->bound_, made->kernel_->Bind(recipe, {pointers, 2, 0}));
  return std::shared_ptr<const LateKernel>(std::move(made));
}

}  // namespace sinter::gpu_testing
