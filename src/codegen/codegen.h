// Codegen: KernelSpec -> CUDA C++ source for the runtime compiler, and the recipe that launches it.
// Pure text; no CUDA header.
#ifndef SINTER_SRC_CODEGEN_CODEGEN_H_
#define SINTER_SRC_CODEGEN_CODEGEN_H_

#include "absl/status/statusor.h"
#include "src/base/compile_request.h"
#include "src/base/digest.h"
#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"

namespace sinter {

struct CodegenOptions {
  bool trap_spins = false;  // test builds: any spin traps after 2 s
  bool jitter = false;      // test builds: random __nanosleep before every arrive, push and wait
};

struct GeneratedKernel {
  CompileRequest request;
  LaunchRecipe recipe;
};

// Deterministic. `arch` is "sm_90a". Refuses a spec that CheckSchedule refuses.
absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options = {});

// SHA-256 of the whole embedded device library: part of every kernel key.
Digest DeviceLibraryDigest();

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_CODEGEN_H_
