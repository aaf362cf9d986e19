// Codegen: makes CUDA C++ source for the runtime compiler from kernel code, and the launch recipe
// from code and binding. Pure text; no CUDA header.
#ifndef SINTER_SRC_PLAN_CODEGEN_H_
#define SINTER_SRC_PLAN_CODEGEN_H_

#include <functional>

#include "absl/status/statusor.h"
#include "src/base/compile_request.h"
#include "src/base/digest.h"
#include "src/base/launch_recipe.h"
#include "src/plan/kernel_code.h"

namespace sinter {

struct CodegenOptions {
  bool trap_spins = false;  // test builds: any spin traps after 2 s
  bool jitter = false;      // test builds: random __nanosleep before every arrive, push and wait
};

struct GeneratedKernel {
  KernelCode code;
  CompileRequest request;
  LaunchRecipe recipe;
};

// Deterministic. `arch` is "sm_90a". Refuses a spec that CheckSchedule refuses. The request depends
// only on the spec's code (kernel_code.h), the model's arch and the options.
absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options = {});

// The recipe alone, without source, of a spec that planning or Assembly made. INVALID_ARGUMENT or
// FAILED_PRECONDITION naming the misfit.
absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec);

// The device library's header that the source of `spec` includes: "kernels/product.cuh".
std::string DeviceHeaderOf(const KernelSpec& spec);

// The embedded device library. Points into static storage.
HeaderMap DeviceHeaderMap();

// The digest of the headers that a spec's source includes, directly or not: part of its kernel key.
// Any thread may call it.
std::function<Digest(const KernelSpec&)> DeviceHeadersDigest(const HeaderMap& library);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_CODEGEN_H_
