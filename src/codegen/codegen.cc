#include "src/codegen/codegen.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/codegen/kernel_source.h"
#include "src/codegen/recipe.h"
#include "src/codegen/stitch/packed_source.h"
#include "src/codegen/stitch/stitch_recipe.h"
#include "src/codegen/stitch/stitch_source.h"
#include "src/device/device_library.h"

namespace sinter {
namespace {

absl::Status Refuse(Role role, absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::InvalidArgumentError(
      absl::StrCat("operand ", NameOf(role), ": ", field, " ", value, " ", bound));
}

// Columns of a matrix operand as it is stored.
int64_t ColumnsOf(const FfnProblem& p, Role role) {
  const bool transposed = p.layout == Layout::kIO;
  switch (role) {
    case Role::kA:
      return p.k;
    case Role::kC:
      return p.n;
    case Role::kOut:
    case Role::kResidual:
      return p.products == 2 ? p.l : p.n;
    case Role::kW2:
      return transposed ? p.l : p.n;
    case Role::kW1:
    case Role::kWUp:
      return transposed ? p.n : p.k;
    default:
      return 0;  // a vector
  }
}

absl::Status CheckOperand(const FfnProblem& p, const OperandBinding& operand) {
  const int64_t columns = ColumnsOf(p, operand.role);
  if (columns > 0 && operand.row_stride < columns) {
    return Refuse(operand.role, "row stride", operand.row_stride,
                  absl::StrCat("is below its ", columns, " columns"));
  }
  if (operand.role == Role::kC && operand.row_stride != columns) {
    return Refuse(operand.role, "row stride", operand.row_stride,
                  absl::StrCat("is not n = ", columns));
  }
  if (operand.offset_bytes % 2 != 0) {
    return Refuse(operand.role, "offset", static_cast<int64_t>(operand.offset_bytes), "is odd");
  }
  return absl::OkStatus();
}

absl::Status CheckFactor(const KernelSpec& spec, const Scaling& scaling, Role role) {
  if (scaling.rows == RowFactor::kNone) return absl::OkStatus();
  const OperandBinding* factor = FindOperand(spec.operands, role);
  if (factor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("kernel has no operand ", NameOf(role)));
  }
  const auto size = static_cast<uint64_t>(SizeOf(FactorType(scaling.rows, spec.problem.dtype)));
  if (factor->offset_bytes % size != 0) {
    return Refuse(role, "offset", static_cast<int64_t>(factor->offset_bytes),
                  absl::StrCat("is not a multiple of ", size));
  }
  if (factor->row_stride != 1) return Refuse(role, "row stride", factor->row_stride, "is not 1");
  return absl::OkStatus();
}

absl::Status CheckOperands(const KernelSpec& spec) {
  const bool chain = spec.family == KernelFamily::kChain;
  if (chain != (spec.problem.products == 2)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "family ", NameOf(spec.family), " does not take ", spec.problem.products, " products"));
  }
  if (spec.workspace_flags_offset % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workspace flags offset ", spec.workspace_flags_offset, " is not a multiple of 4"));
  }
  if (FindOperand(spec.operands, Role::kOut) == nullptr) {
    return absl::InvalidArgumentError("kernel has no operand out");
  }
  if (spec.problem.residual != Residual::kNone &&
      FindOperand(spec.operands, Role::kResidual) == nullptr) {
    return absl::InvalidArgumentError("kernel has no operand residual");
  }
  SINTER_RETURN_IF_ERROR(CheckFactor(spec, spec.problem.scaling1, Role::kFactor1));
  SINTER_RETURN_IF_ERROR(CheckFactor(spec, spec.problem.scaling2, Role::kFactor2));
  for (const OperandBinding& operand : spec.operands) {
    SINTER_RETURN_IF_ERROR(CheckOperand(spec.problem, operand));
  }
  return absl::OkStatus();
}

// A memory-bound kernel that spills a little loses less than the kernels that would replace it.
constexpr int kMostStitchSpills = 1024;

// What every request has beside its source.
void Complete(const KernelSpec& spec, const DeviceModel& model, const CodegenOptions& options,
              GeneratedKernel& kernel) {
  CompileRequest& request = kernel.request;
  request.headers = CopyDeviceHeaders();
  request.arch = model.arch;
  request.entry = kernel.recipe.entry;
  // Else which sums are fused multiply-adds depends on what else a kernel does (row_order.h).
  if (spec.batch_invariant) request.options.push_back("--fmad=false");
  if (options.trap_spins) request.options.push_back("-DSINTER_TRAP_SPINS");
  if (options.jitter) request.options.push_back("-DSINTER_JITTER");
}

absl::StatusOr<std::string> SourceOf(const KernelCode& code) {
  if (code.stitch == nullptr) return KernelSource(code);
  return code.stitch->parts.empty() ? StitchSource(*code.stitch) : PackedSource(*code.stitch);
}

}  // namespace

absl::StatusOr<LaunchRecipe> RecipeOf(const KernelCode& code, const KernelBinding& binding) {
  return code.stitch == nullptr ? ProductRecipe(code, binding)
                                : StitchRecipe(*code.stitch, binding);
}

absl::StatusOr<LaunchRecipe> RecipeOf(const KernelSpec& spec) {
  SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
  return RecipeOf(code, BindingOf(spec));
}

absl::StatusOr<GeneratedKernel> Generate(const KernelSpec& spec, const DeviceModel& model,
                                         const CodegenOptions& options) {
  if (spec.family != KernelFamily::kStitch) {
    SINTER_RETURN_IF_ERROR(CheckSchedule(spec.problem, spec.schedule, model));
    SINTER_RETURN_IF_ERROR(CheckOperands(spec));
  }
  SINTER_ASSIGN_OR_RETURN(const KernelCode code, CodeOf(spec));
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(kernel.recipe, RecipeOf(code, BindingOf(spec)));
  SINTER_ASSIGN_OR_RETURN(kernel.request.source, SourceOf(code));
  kernel.request.name = absl::StrCat(kernel.recipe.entry, ".cu");
  if (code.stitch != nullptr) kernel.request.most_spill_bytes = kMostStitchSpills;
  Complete(spec, model, options, kernel);
  return kernel;
}

Digest DeviceLibraryDigest() {
  // The build wrote 64 hexadecimal digits; FromHex cannot refuse them.
  return Digest::FromHex(DeviceLibrarySha256()).value();
}

}  // namespace sinter
