#include "src/codegen/stitch/stitch_recipe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/codegen/stitch/stitch_source.h"
#include "src/plan/stitch/sizes.h"

namespace sinter {
namespace {

constexpr uint64_t kOperandAlignment = 16;  // widest access

ArgSlot Pointer(const StitchOperand& operand, int64_t row_bytes) {
  ArgSlot slot;
  slot.kind = ArgKind::kPointer;
  slot.index = operand.buffer;
  slot.offset_bytes = operand.offset_bytes;
  // A looped launch moves along the caller's buffers; the workspace is reused.
  if (operand.buffer != kWorkspaceBuffer) slot.int_value = row_bytes;
  return slot;
}

int64_t RowBytes(const TensorType& type, const std::vector<Stride>& strides) {
  return SymbolicAxis(type.dims) == 0 ? strides[0].value * SizeOf(type.dtype) : 0;
}

absl::Status CheckOperands(const StitchSpec& spec) {
  const size_t want = static_cast<size_t>(spec.body.num_inputs() + spec.body.num_outputs());
  if (spec.operands.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat("stitch: ", spec.operands.size(), " operands, the body has ", want));
  }
  for (const StitchOperand& operand : spec.operands) {
    if (operand.offset_bytes % kOperandAlignment == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("stitch: offset ", operand.offset_bytes,
                                                   " is not a multiple of ", kOperandAlignment));
  }
  return absl::OkStatus();
}

// Everything but what the program decides.
absl::StatusOr<LaunchRecipe> LaunchOf(const StitchSpec& stitch) {
  const StitchSchedule& s = stitch.schedule;
  SINTER_RETURN_IF_ERROR(CheckStitchFields(s));
  SINTER_RETURN_IF_ERROR(CheckOperands(stitch));
  LaunchRecipe recipe;
  recipe.entry = kStitchEntry;
  recipe.grid = {static_cast<uint32_t>(s.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.block_threads), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.LaunchCluster()), 1, 1};
  recipe.pdl = true;
  const Chain& body = stitch.body;
  for (int i = 0; i < body.num_inputs(); ++i) {
    recipe.args.push_back(Pointer(stitch.operands[static_cast<size_t>(i)],
                                  RowBytes(body.input_op(i).type, body.input_op(i).strides)));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    recipe.args.push_back(
        Pointer(stitch.operands[static_cast<size_t>(body.num_inputs() + i)],
                RowBytes(body.output_type(i), body.outputs()[static_cast<size_t>(i)].strides)));
  }
  return recipe;
}

void AddRows(LaunchRecipe* recipe) {
  ArgSlot rows;
  rows.kind = ArgKind::kSymbolM;
  recipe->args.push_back(rows);
}

}  // namespace

absl::StatusOr<LaunchRecipe> StitchRecipe(const KernelSpec& spec, const StitchProgram& program) {
  const StitchSpec& stitch = *spec.stitch;
  SINTER_ASSIGN_OR_RETURN(LaunchRecipe recipe, LaunchOf(stitch));
  recipe.shared_bytes =
      static_cast<uint32_t>(StitchSharedBytes(stitch.body, program, stitch.schedule));
  recipe.cooperative = program.phases.size() > 1;
  if (recipe.cooperative) {
    recipe.args.push_back(Pointer({kWorkspaceBuffer, stitch.scratch_offset}, 0));
    recipe.args.push_back(Pointer({kWorkspaceBuffer, spec.workspace_flags_offset}, 0));
  }
  AddRows(&recipe);
  return recipe;
}

absl::StatusOr<LaunchRecipe> PackedRecipe(const KernelSpec& spec) {
  const StitchSpec& stitch = *spec.stitch;
  SINTER_RETURN_IF_ERROR(CheckParts(stitch.body, stitch.schedule, stitch.parts));
  SINTER_ASSIGN_OR_RETURN(LaunchRecipe recipe, LaunchOf(stitch));
  for (const StitchPart& part : stitch.parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(stitch.body, part.outputs));
    SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                            MakeStitchProgram(own.body, part.schedule.owner));
    const int64_t shared = StitchSharedBytes(own.body, program, part.schedule);
    recipe.shared_bytes = std::max(recipe.shared_bytes, static_cast<uint32_t>(shared));
  }
  AddRows(&recipe);
  return recipe;
}

}  // namespace sinter
