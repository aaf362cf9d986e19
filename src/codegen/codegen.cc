#include "src/codegen/codegen.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/codegen/kernel_source.h"
#include "src/codegen/recipe.h"
#include "src/device/device_library.h"

namespace sinter {
namespace {

std::vector<std::pair<std::string, std::string>> Headers() {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  std::vector<std::pair<std::string, std::string>> list;
  for (size_t i = 0; i < count; ++i)
    list.emplace_back(headers[i].name, std::string(headers[i].bytes, headers[i].size));
  return list;
}

absl::Status CheckOperands(const KernelSpec& spec) {
  if (FindOperand(spec, Role::kOut) == nullptr)
    return absl::InvalidArgumentError("kernel has no operand out");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options) {
  if (spec.family == KernelFamily::kStitch)
    return absl::InvalidArgumentError("family stitch has no generator");
  SINTER_RETURN_IF_ERROR(CheckSchedule(spec.problem, spec.schedule, model));
  SINTER_RETURN_IF_ERROR(CheckOperands(spec));
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(kernel.recipe, RecipeOf(spec));
  CompileRequest& request = kernel.request;
  request.name = absl::StrCat(EntryName(spec.schedule.dataflow), ".cu");
  request.source = KernelSource(spec);
  request.headers = Headers();
  request.arch = model.arch;
  request.entry = kernel.recipe.entry;
  if (options.trap_spins) request.options.push_back("-DSINTER_TRAP_SPINS");
  if (options.jitter) request.options.push_back("-DSINTER_JITTER");
  return kernel;
}

Digest DeviceLibraryDigest() {
  // The build wrote 64 hexadecimal digits; FromHex cannot refuse them.
  return Digest::FromHex(DeviceLibrarySha256()).value();
}

}  // namespace sinter
