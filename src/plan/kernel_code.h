// KernelCode: what is compiled of a KernelSpec. The rest of a spec is its binding: buffers,
// offsets, rows and grid. Kernels of equal code are compiled, stored and loaded once, at however
// many positions of plans they are.
#ifndef SINTER_SRC_PLAN_KERNEL_CODE_H_
#define SINTER_SRC_PLAN_KERNEL_CODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/compile_request.h"
#include "src/base/digest.h"
#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"
#include "src/product/code/kernel_source.h"
#include "src/stitch/spec.h"

namespace sinter {

// The source is a function of this struct only. Immutable once made; any thread may read it.
struct KernelCode {
  const KernelFamily* family = &ProductFamily();
  bool batch_invariant = false;  // a compiler option; the source does not depend on it
  // What the source is made from. The family knows its type: ProductCode (kernel_source.h),
  // StitchCode (src/stitch/spec.h), or a problem and a schedule.
  KernelBodyPtr body;

  // Versioned bytes without the schedule, and the bytes of the schedule. If both are equal, so is
  // the source.
  struct Written {
    std::string code, schedule;
  };
  Written Write() const;
  std::string Bytes() const { return Write().code; }
  std::string ScheduleBytes() const { return Write().schedule; }
  // One line each: "gated_ffn n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16", and the schedule
  // without its grid.
  std::string ProblemText() const;
  std::string ScheduleText() const;
};

// The first word of Bytes, for the families that are older than their numbers.
constexpr uint32_t kTwoProductsWord = 1, kStitchWord = 2, kOneProductWord = 3;

// INVALID_ARGUMENT or FAILED_PRECONDITION for a stitched kernel without a body, or with a body that
// its schedule cannot compute. Does not copy the body.
absl::StatusOr<KernelCode> CodeOf(const KernelSpec& spec);

// The compiler options of a kernel, for all but test builds.
std::vector<std::string> CompileOptionsOf(const KernelSpec& spec);

// DATA_LOSS of the bytes of a code.
absl::Status LostCode(absl::string_view what);

// Decodes Bytes and ScheduleBytes, for people to read; no source is made from the result. DATA_LOSS
// on damage. Trusts nothing.
absl::StatusOr<KernelCode> ReadCode(absl::string_view bytes, absl::string_view schedule);

// Codegen: makes CUDA C++ source for the runtime compiler from kernel code, and the launch recipe
// from code and binding. Pure text; no CUDA header.

struct CodegenOptions {
  bool trap_spins = false;  // test builds: any spin traps after 2 s
  bool jitter = false;      // test builds: random __nanosleep before every arrive, push and wait
};

struct GeneratedKernel {
  KernelCode code;
  CompileRequest request;
  LaunchRecipe recipe;
};

// Deterministic. `arch` is the model's. Refuses what CheckSchedule refuses. The request depends
// only on the spec's code (kernel_code.h), the model's arch and the options.
absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options = {});

// Only the recipe, without source, of a spec that planning or Assembly made. INVALID_ARGUMENT or
// FAILED_PRECONDITION naming the misfit.
absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec);

// The digest of a device header, by the name that sources include, and of all that it reaches.
using HeaderDigest = std::function<Digest(absl::string_view name)>;

// As the build embedded it; all zero for a name that the device library lacks.
Digest EmbeddedHeaderDigest(absl::string_view name);

// The digest of the headers that a spec's source includes, directly or not: part of its kernel key.
// Any thread may call it.
std::function<Digest(const KernelSpec&)> DeviceHeadersDigest(
    HeaderDigest digest_of = EmbeddedHeaderDigest);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_KERNEL_CODE_H_
