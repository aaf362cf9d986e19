#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/arch.h"
#include "src/base/status.h"
#include "src/device/device_library.h"
#include "src/plan/family.h"
#include "src/plan/kernel_code.h"

namespace sinter {
namespace {

// Fills in what every request has besides its source.
void Complete(const KernelSpec& spec, const DeviceModel& model, const CodegenOptions& options,
              GeneratedKernel& kernel) {
  CompileRequest& request = kernel.request;
  request.headers = CopyDeviceHeaders();
  request.arch = model.arch;
  request.entry = kernel.recipe.entry;
  request.options = CompileOptionsOf(spec);
  if (options.trap_spins) request.options.push_back("-DSINTER_TRAP_SPINS");
  if (options.jitter) request.options.push_back("-DSINTER_JITTER");
}

}  // namespace

absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec) {
  SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
  return spec.family->Recipe(spec, code);
}

absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options) {
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(model.arch));
  if (!features.products && !spec.family->traits().on_all_chips) {
    return FailedPrecondition("kernels of ", spec.family->name(), " run only on ", ProductChips(),
                              ", device model ", model.name, " is of ", model.arch);
  }
  SINTER_ASSIGN_OR_RETURN(kernel.code, spec.family->CheckedCode(spec, model));
  SINTER_ASSIGN_OR_RETURN(kernel.recipe, spec.family->Recipe(spec, kernel.code));
  kernel.recipe.pdl &= features.early_launch;
  kernel.request.name = absl::StrCat(kernel.recipe.entry, ".cu");
  SINTER_RETURN_IF_ERROR(spec.family->WriteRequest(spec, kernel.code, &kernel.request));
  Complete(spec, model, options, kernel);
  return kernel;
}

Digest EmbeddedHeaderDigest(absl::string_view name) {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  const DeviceHeader* end = headers + count;
  const DeviceHeader* header = std::lower_bound(
      headers, end, name,
      [](const DeviceHeader& h, absl::string_view wanted) { return h.name < wanted; });
  Digest digest;
  if (header == end || header->name != name) return digest;
  std::copy(std::begin(header->reached), std::end(header->reached), digest.bytes.begin());
  return digest;
}

std::function<Digest(const KernelSpec&)> DeviceHeadersDigest(HeaderDigest digest_of) {
  return [digest_of = std::move(digest_of)](const KernelSpec& spec) {
    const std::vector<std::string> headers = spec.family->Headers(spec);
    if (headers.size() == 1) return digest_of(headers.front());
    std::string all;
    for (const std::string& header : headers) absl::StrAppend(&all, digest_of(header).View());
    return Sha256(all);
  };
}

}  // namespace sinter
