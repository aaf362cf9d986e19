
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr uint64_t kOperandAlignment = 16;  // bytes of the widest access

absl::Status CheckOperands(const Chain& body, const std::vector<BufferPlace>& operands) {
  const size_t want = static_cast<size_t>(body.num_inputs() + body.num_outputs());
  if (operands.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat("stitch: ", operands.size(), " operands, the body has ", want));
  }
  for (const BufferPlace& operand : operands) {
    if (operand.offset_bytes % kOperandAlignment == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("stitch: offset ", operand.offset_bytes,
                                                   " is not a multiple of ", kOperandAlignment));
  }
  return absl::OkStatus();
}

std::vector<ArgSlot> PointersOf(const Chain& body, const std::vector<BufferPlace>& operands) {
  std::vector<ArgSlot> slots;
  for (int i = 0; i < body.num_inputs(); ++i) {
    slots.push_back(PointerSlot(operands[static_cast<size_t>(i)],
                                RowBytesOf(body.input_op(i).type, body.input_op(i).strides)));
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    slots.push_back(PointerSlot(
        operands[static_cast<size_t>(body.num_inputs() + i)],
        RowBytesOf(body.output_type(i), body.outputs()[static_cast<size_t>(i)].strides)));
  }
  return slots;
}

// The most shared memory of any part.
absl::StatusOr<int64_t> PackedSharedBytes(const StitchCode& code) {
  SINTER_RETURN_IF_ERROR(CheckParts(*code.body, code.schedule, code.parts));
  int64_t most = 0;
  for (const StitchPart& part : code.parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(*code.body, part.outputs));
    SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                            MakeStitchProgram(own.body, part.schedule.owner));
    most = std::max(most, StitchSharedBytes(own.body, program, part.schedule));
  }
  return most;
}

absl::StatusOr<int64_t> SharedBytes(const StitchCode& code) {
  if (!code.parts.empty()) return PackedSharedBytes(code);
  return StitchSharedBytes(*code.body, *code.program, code.schedule);
}

// LaunchRecipe::grid_rows: the rows that the grid takes in one turn, where it takes those of the
// largest bucket; smaller ones are never launched with more rows than they have. Fewer rows: blocks
// that stay were chosen. Blocks that meet cannot be more, parts of a packed kernel have their own.
int64_t GridRows(const StitchCode& code, int64_t grid) {
  if (code.program == nullptr || code.program->phases.size() > 1) return 0;
  const StitchProgram& program = *code.program;
  const StitchSchedule& s = code.schedule;
  int64_t of_row = 0;  // units, or elements
  if (program.owner >= 0) {
    of_row = program.units_symbolic ? program.units : 0;
  } else {
    for (const StitchLoop& loop : program.phases.front().flat) {
      if (loop.symbolic && loop.apart < 0) of_row = std::max(of_row, loop.elements);
    }
  }
  if (of_row == 0) return 0;
  const int64_t of_block = program.owner >= 0 ? s.UnitsPerBlock() : s.TurnElements();
  const int64_t rows = grid / s.cluster * of_block / of_row;
  return rows >= kLargestBucket ? rows : 0;
}

}  // namespace

ArgSlot PointerSlot(const BufferPlace& operand, int64_t row_bytes) {
  ArgSlot slot;
  slot.kind = ArgKind::kPointer;
  slot.index = operand.buffer;
  slot.offset_bytes = operand.offset_bytes;
  // A looped launch advances the caller's buffers; the workspace is reused.
  if (operand.buffer != kWorkspaceBuffer) slot.int_value = row_bytes;
  return slot;
}

int64_t RowBytesOf(const TensorType& type, const std::vector<Stride>& strides) {
  return SymbolicAxis(type.dims) == 0 ? strides[0].value * SizeOf(type.dtype) : 0;
}

absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const StitchBinding& binding) {
  const StitchSchedule& s = code.schedule;
  SINTER_RETURN_IF_ERROR(CheckStitchFields(s));
  SINTER_RETURN_IF_ERROR(CheckOperands(*code.body, binding.operands));
  LaunchRecipe recipe;
  recipe.entry = kStitchEntry;
  recipe.grid = {static_cast<uint32_t>(binding.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(s.block_threads), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.LaunchCluster()), 1, 1};
  recipe.pdl = true;
  recipe.grid_rows = GridRows(code, binding.grid);
  SINTER_ASSIGN_OR_RETURN(const int64_t shared, SharedBytes(code));
  recipe.shared_bytes = static_cast<uint32_t>(shared);
  recipe.cooperative = code.program != nullptr && code.program->phases.size() > 1;
  recipe.args = PointersOf(*code.body, binding.operands);
  if (recipe.cooperative) {
    recipe.args.push_back(PointerSlot({kWorkspaceBuffer, binding.scratch_offset}, 0));
    recipe.args.push_back(PointerSlot({kWorkspaceBuffer, binding.flags_offset}, 0));
  }
  ArgSlot rows;
  rows.kind = ArgKind::kSymbolM;
  recipe.args.push_back(rows);
  return recipe;
}

}  // namespace sinter
