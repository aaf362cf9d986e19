#include "src/stitch/spec.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/stitch/columns.h"

namespace sinter {
namespace {

constexpr int kMaxBuffers = 1024;
constexpr uint32_t kPartsFollow = uint32_t{1} << 31;  // a flag in the number of operands
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

absl::Status Lost(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("stitch spec: ", what));
}

absl::StatusOr<uint64_t> ScratchBytes(const Chain& body, const StitchSchedule& schedule,
                                      StitchBudget* budget) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed, budget));
  return LayOutColumns(body, program, schedule).scratch_bytes;
}

absl::StatusOr<StitchOperand> ReadOperand(ByteReader& r) {
  const int64_t buffer = r.I64();
  const uint64_t offset = r.U64();
  if (!r.ok() || buffer < kWorkspaceBuffer || buffer >= kMaxBuffers) {
    return Lost(absl::StrCat("buffer ", buffer, " is not in -1..", kMaxBuffers - 1));
  }
  if (offset > kMaxBytes) return Lost(absl::StrCat("offset ", offset));
  return StitchOperand{static_cast<int>(buffer), offset};
}

// Checks that the body can be computed as the schedule says, and returns the scratch bytes.
absl::StatusOr<uint64_t> CheckBody(const StitchSpec& spec, StitchBudget* budget) {
  if (!spec.parts.empty()) {
    const absl::Status packed = CheckParts(spec.body, spec.schedule, spec.parts, budget);
    if (!packed.ok()) return Lost(packed.message());
    return 0;
  }
  const absl::StatusOr<uint64_t> scratch = ScratchBytes(spec.body, spec.schedule, budget);
  if (!scratch.ok()) return Lost(scratch.status().message());
  return scratch;
}

}  // namespace

bool StitchSpec::operator==(const StitchSpec& o) const {
  return body == o.body && schedule == o.schedule && operands == o.operands &&
         scratch_offset == o.scratch_offset && parts == o.parts;
}

std::string StitchSpec::ScheduleText() const {
  if (parts.empty()) return schedule.ToString();
  return absl::StrCat("block ", schedule.block_threads, " x", schedule.blocks_per_sm, " grid ",
                      schedule.grid, " ", PartsText(parts));
}

std::string StitchSpec::ScheduleCanonical() const {
  if (parts.empty()) return schedule.Canonical();
  ByteWriter w;
  w.Bytes(schedule.Canonical());
  WriteParts(parts, w);
  return w.Take();
}

absl::StatusOr<uint64_t> StitchScratchBytes(const Chain& body, const StitchSchedule& schedule) {
  return ScratchBytes(body, schedule, nullptr);
}

void WriteStitch(const StitchSpec& spec, ByteWriter& w) {
  w.Bytes(spec.body.CanonicalBytes());
  w.Bytes(spec.schedule.Canonical());
  w.U32(static_cast<uint32_t>(spec.operands.size()) | (spec.parts.empty() ? 0 : kPartsFollow));
  for (const StitchOperand& operand : spec.operands) {
    w.I64(operand.buffer);
    w.U64(operand.offset_bytes);
  }
  w.U64(spec.scratch_offset);
  if (!spec.parts.empty()) WriteParts(spec.parts, w);
}

absl::StatusOr<StitchSpec> ReadStitch(ByteReader& r, StitchBudget* budget,
                                      uint64_t* scratch_bytes) {
  StitchSpec spec;
  absl::StatusOr<Chain> body = ChainFromCanonicalBytes(r.Bytes());
  if (!body.ok()) return Lost(body.status().message());
  spec.body = *std::move(body);
  SINTER_ASSIGN_OR_RETURN(spec.schedule, StitchSchedule::FromCanonical(r.Bytes()));
  const uint32_t word = r.U32(), operands = word & ~kPartsFollow;
  const size_t want = static_cast<size_t>(spec.body.num_inputs() + spec.body.num_outputs());
  if (operands != want) return Lost(absl::StrCat(operands, " operands, the body has ", want));
  for (uint32_t i = 0; i < operands; ++i) {
    SINTER_ASSIGN_OR_RETURN(const StitchOperand operand, ReadOperand(r));
    spec.operands.push_back(operand);
  }
  spec.scratch_offset = r.U64();
  if (!r.ok() || spec.scratch_offset > kMaxBytes) return Lost("scratch offset");
  if (word != operands) {
    SINTER_ASSIGN_OR_RETURN(spec.parts, ReadParts(r));
  }
  SINTER_ASSIGN_OR_RETURN(const uint64_t scratch, CheckBody(spec, budget));
  if (scratch_bytes != nullptr) *scratch_bytes = scratch;
  return spec;
}

}  // namespace sinter
