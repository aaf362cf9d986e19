#include "src/plan/codegen.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/device/device_library.h"
#include "src/plan/stand_in.h"
#include "src/product/code/kernel_source.h"
#include "src/product/code/program_source.h"
#include "src/product/code/recipe.h"
#include "src/product/role_shape.h"
#include "src/stitch/code/packed_source.h"
#include "src/stitch/code/stitch_recipe.h"
#include "src/stitch/code/stitch_source.h"

namespace sinter {
namespace {

absl::Status Refuse(Role role, absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::InvalidArgumentError(
      absl::StrCat("operand ", NameOf(role), ": ", field, " ", value, " ", bound));
}

bool IsScale(Role role) {
  return role == Role::kScaleA || role == Role::kScaleW1 || role == Role::kScaleUp ||
         role == Role::kScaleW2 || role == Role::kScaleOut;
}

absl::Status CheckOperand(const ProductSequence& sequence, const OperandBinding& operand) {
  const RoleShape shape = ShapeOf(sequence, operand.role);
  const bool matrix = shape.rows > 0;
  if (IsScale(operand.role) && operand.row_stride != ScaleRowStride(sequence, operand.role)) {
    return Refuse(operand.role, "row stride", operand.row_stride,
                  absl::StrCat("is not ", ScaleRowStride(sequence, operand.role)));
  }
  if (matrix && !IsScale(operand.role) && operand.row_stride < shape.columns) {
    return Refuse(operand.role, "row stride", operand.row_stride,
                  absl::StrCat("is below its ", shape.columns, " columns"));
  }
  const bool factor = operand.role == Role::kFactor1 || operand.role == Role::kFactor2;
  if ((factor || operand.role == Role::kC) && operand.row_stride != shape.columns) {
    return Refuse(operand.role, "row stride", operand.row_stride,
                  absl::StrCat("is not ", factor ? "" : "n = ", shape.columns));
  }
  const auto size = static_cast<uint64_t>(SizeOf(shape.element));
  if (operand.offset_bytes % size != 0) {
    return Refuse(operand.role, "offset", static_cast<int64_t>(operand.offset_bytes),
                  absl::StrCat("is not a multiple of ", size));
  }
  return absl::OkStatus();
}

absl::Status CheckOperands(const KernelSpec& spec, const KernelCode& code) {
  if (spec.workspace_flags_offset % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workspace flags offset ", spec.workspace_flags_offset, " is not a multiple of 4"));
  }
  for (Role role : ParametersOf(code.product).pointers) {
    if (FindOperand(spec.operands, role) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("kernel has no operand ", NameOf(role)));
  }
  for (const OperandBinding& operand : spec.operands) {
    SINTER_RETURN_IF_ERROR(CheckOperand(spec.sequence, operand));
  }
  return absl::OkStatus();
}

// A memory-bound kernel with few register spills loses less than the kernels that would replace it.
constexpr int kMostStitchSpills = 1024;

// What NVRTC 12.4 to 12.8 make of a 16-bit product waits for each tensor core instruction (remark
// C7515); of 8-bit products it does not.
constexpr int kLeastNvrtcOf16BitProducts = 1209;

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

absl::StatusOr<std::string> SourceOf(const KernelCode& code) {
  if (code.stitch == nullptr) return KernelSource(code.product);
  return code.stitch->parts.empty() ? StitchSource(*code.stitch) : PackedSource(*code.stitch);
}

}  // namespace

absl::StatusOr<LaunchRecipe> RecipeOf(const KernelCode& code, const KernelBinding& binding) {
  return code.stitch == nullptr ? ProductRecipe(code.product, binding.product)
                                : StitchRecipe(*code.stitch, binding.stitch);
}

absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec) {
  if (spec.stand_in) {
    SINTER_ASSIGN_OR_RETURN(StandIn stand_in, StandInOf(spec));
    return std::move(stand_in.recipe);
  }
  SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
  return RecipeOf(code, BindingOf(spec));
}

// For people, and for tests: a stand-in's code comes with the library.
absl::StatusOr<GeneratedKernel> GenerateStandIn(const KernelSpec& spec, const DeviceModel& model,
                                                const CodegenOptions& options) {
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(StandIn stand_in, StandInOf(spec));
  SINTER_ASSIGN_OR_RETURN(kernel.code, CodeOf(spec));
  kernel.recipe = std::move(stand_in.recipe);
  kernel.request.source = StandInSource(stand_in.index);
  kernel.request.name = absl::StrCat(StandInName(stand_in.index), ".cu");
  Complete(spec, model, options, kernel);
  return kernel;
}

absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options) {
  if (spec.stand_in) return GenerateStandIn(spec, model, options);
  const bool stitch = spec.family == KernelFamily::kStitch;
  if (!stitch) SINTER_RETURN_IF_ERROR(CheckSchedule(spec.sequence, spec.schedule, model));
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(kernel.code, CodeOf(spec));
  if (!stitch) SINTER_RETURN_IF_ERROR(CheckOperands(spec, kernel.code));
  SINTER_ASSIGN_OR_RETURN(kernel.recipe, RecipeOf(kernel.code, BindingOf(spec)));
  SINTER_ASSIGN_OR_RETURN(kernel.request.source, SourceOf(kernel.code));
  kernel.request.name = absl::StrCat(kernel.recipe.entry, ".cu");
  if (stitch) kernel.request.most_spill_bytes = kMostStitchSpills;
  if (!stitch && SizeOf(spec.sequence.element()) == 2) {
    kernel.request.least_nvrtc = kLeastNvrtcOf16BitProducts;
  }
  Complete(spec, model, options, kernel);
  return kernel;
}

std::string DeviceHeaderOf(const KernelSpec& spec) {
  return spec.family == KernelFamily::kStitch ? StitchHeader(spec.stitch->body)
                                              : KernelHeader(spec.schedule);
}

HeaderMap DeviceHeaderMap() {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  HeaderMap library;
  for (size_t i = 0; i < count; ++i) library[headers[i].name] = {headers[i].bytes, headers[i].size};
  return library;
}

std::function<Digest(const KernelSpec&)> DeviceHeadersDigest(const HeaderMap& library) {
  return [digests = std::make_shared<const HeaderDigests>(library)](const KernelSpec& spec) {
    const Digest own = digests->Of(DeviceHeaderOf(spec));
    if (!HasPrograms(spec.sequence)) return own;
    return Sha256(absl::StrCat(own.View(), digests->Of(kProgramHeader).View()));
  };
}

}  // namespace sinter
