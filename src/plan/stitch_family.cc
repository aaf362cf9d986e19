#include "src/plan/stitch_family.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/code/packed_source.h"
#include "src/stitch/launch_check.h"

namespace sinter {
namespace {

// A memory-bound kernel with few register spills loses less than the kernels that would replace it.
constexpr int kMostSpillBytes = 1024;

// Whether it numbers rows: a piece's rows would begin at 0 again.
bool CountsRows(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kIota && op.type.dims[static_cast<size_t>(op.axis)].symbolic;
  });
}

// Whether it takes rows by ids from all M of them, or writes them.
bool TakesAnyRow(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), [&](const Op& op) {
    if (op.kind == OpKind::kScatter) return true;
    return op.kind == OpKind::kGather && op.axis == 0 &&
           SymbolicAxis(body.op(op.operands[0]).type.dims) == 0;
  });
}

}  // namespace

const KernelFamily& StitchFamily() {
  static const StitchKernels family;
  return family;
}

StitchBinding StitchBindingOf(const KernelSpec& spec) {
  const StitchSpec& stitch = *spec.stitch;
  return {stitch.operands, stitch.schedule.grid, spec.workspace_flags_offset,
          stitch.scratch_offset};
}

bool StitchKernels::Equal(const KernelSpec& a, const KernelSpec& b) const {
  if (a.stitch == nullptr || b.stitch == nullptr) return a.stitch == b.stitch;
  return *a.stitch == *b.stitch;
}

void StitchKernels::WriteExecuted(const KernelSpec& spec, ByteWriter& w) const {
  w.Bytes(spec.stitch->body.CanonicalBytes());
  w.U64(spec.stitch->scratch_offset);
  for (const StitchOperand& operand : spec.stitch->operands) {
    w.I64(operand.buffer);
    w.U64(operand.offset_bytes);
  }
}

// Not the kernel's code: that needs its program.
void StitchKernels::WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const {
  w.Raw(spec.stitch->body.CanonicalDigest().View());
}

bool StitchKernels::MixesRows(const KernelSpec& spec) const {
  const StitchSpec& stitch = *spec.stitch;
  if (CountsRows(stitch.body) || TakesAnyRow(stitch.body)) return true;
  const absl::StatusOr<StitchProgram> program =
      MakeStitchProgram(stitch.body, stitch.schedule.owner, stitch.schedule.handed);
  return program.ok() && program->units_symbolic && program->phases.size() > 1;
}

ConstantPlaces StitchKernels::PlacesOf(const KernelSpec& spec) const {
  ConstantPlaces places;
  const Chain& body = spec.stitch->body;
  for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) {
    const int output = i - body.num_inputs();
    const TensorType& type = output < 0 ? body.input_op(i).type : body.output_type(output);
    if (SymbolicAxis(type.dims) >= 0) continue;
    const StitchOperand& operand = spec.stitch->operands[static_cast<size_t>(i)];
    (output < 0 ? places.reads : places.writes).emplace_back(operand.buffer, operand.offset_bytes);
  }
  return places;
}

// All blocks compute every unit by the same text, so the grid is left out.
std::string StitchKernels::RowOrder(const KernelSpec& spec) const {
  StitchSpec any_grid = *spec.stitch;
  any_grid.schedule.grid = any_grid.schedule.LaunchCluster();
  return absl::StrCat("stitch ", any_grid.body.CanonicalDigest().Hex(), " ",
                      absl::BytesToHexString(any_grid.ScheduleCanonical()), "\n");
}

absl::StatusOr<KernelLaunch> StitchKernels::Check(const KernelSpec& spec, const KernelCode& code,
                                                  const DeviceModel& model,
                                                  StitchBudget* budget) const {
  SINTER_ASSIGN_OR_RETURN(const StitchLaunch launch,
                          CheckStitchLaunch(*spec.stitch, *code.stitch, model, budget));
  return KernelLaunch{launch.cooperative, launch.scratch_bytes};
}

bool StitchKernels::LeavesInWorkspace(const KernelSpec& spec) const {
  const StitchSpec& stitch = *spec.stitch;
  return std::any_of(stitch.operands.begin() + stitch.body.num_inputs(), stitch.operands.end(),
                     [](const StitchOperand& result) { return result.buffer == kWorkspaceBuffer; });
}

absl::StatusOr<KernelCode> StitchKernels::Code(const KernelSpec& spec) const {
  if (spec.stitch == nullptr) return absl::InvalidArgumentError("a stitch kernel has no body");
  KernelCode code;
  code.family = spec.family;
  code.batch_invariant = spec.batch_invariant;
  SINTER_ASSIGN_OR_RETURN(StitchCode stitch, CodeOf(spec.stitch));
  code.stitch = std::make_shared<const StitchCode>(std::move(stitch));
  return code;
}

absl::Status StitchKernels::WriteRequest(const KernelSpec&, const KernelCode& code,
                                         CompileRequest* request) const {
  const bool packed = !code.stitch->parts.empty();
  SINTER_ASSIGN_OR_RETURN(request->source,
                          packed ? PackedSource(*code.stitch) : StitchSource(*code.stitch));
  request->name = absl::StrCat(kStitchEntry, ".cu");
  request->most_spill_bytes = kMostSpillBytes;
  return absl::OkStatus();
}

std::string StitchKernels::Entry(const KernelCode&) const { return kStitchEntry; }

void StitchKernels::WriteCode(const KernelCode& code, ByteWriter& w) const {
  w.Bytes(code.stitch->body->CanonicalBytes());
  w.U8(!code.stitch->parts.empty());
}

absl::Status StitchKernels::ReadCode(ByteReader& r, absl::string_view schedule,
                                     KernelCode* code) const {
  SINTER_ASSIGN_OR_RETURN(Chain body, ChainFromCanonicalBytes(r.Bytes()));
  auto stitch = std::make_shared<StitchCode>();
  stitch->body = std::make_shared<const Chain>(std::move(body));
  const uint8_t packed = r.U8();
  if (packed > 1) return LostCode("packed");
  ByteReader s(schedule);
  SINTER_ASSIGN_OR_RETURN(stitch->schedule, StitchSchedule::FromCanonical(s.Bytes()));
  if (packed == 1) {
    SINTER_ASSIGN_OR_RETURN(stitch->parts, ReadParts(s));
  }
  SINTER_RETURN_IF_ERROR(s.Finish("kernel code"));
  code->stitch = std::move(stitch);
  return absl::OkStatus();
}

void StitchKernels::Decide(const KernelSpec& spec, KernelDecision* decision) const {
  decision->stitch = spec.stitch->schedule;
  decision->parts = spec.stitch->parts;
}

uint32_t StitchKernels::ChoiceFlags(const KernelDecision& decision) const {
  return decision.parts.empty() ? 0 : kPackedChoice;
}

void StitchKernels::WriteChoice(const KernelDecision& decision, ByteWriter& w) const {
  w.Bytes(decision.stitch.Canonical());
  if (!decision.parts.empty()) WriteParts(decision.parts, w);
}

absl::Status StitchKernels::ReadChoice(uint32_t flags, ByteReader& r,
                                       KernelDecision* decision) const {
  if (decision->ops.first != 0) return LostDecision("a first product of a stitched kernel");
  SINTER_ASSIGN_OR_RETURN(decision->stitch, StitchSchedule::FromCanonical(r.Bytes()));
  if ((flags & kPackedChoice) == 0) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(decision->parts, ReadParts(r));
  return decision->parts.empty() ? LostDecision("a packed kernel without parts") : absl::OkStatus();
}

bool StitchKernels::SameSource(const KernelDecision& a, const KernelDecision& b) const {
  StitchSchedule x = a.stitch, y = b.stitch;
  x.grid = y.grid = 1;
  return x == y && a.parts == b.parts;
}

}  // namespace sinter
