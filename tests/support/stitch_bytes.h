// Stitched kernels as bytes: of tests that write kernels in one program and run them in another,
// and of those that damage them.
#pragma once

#include "src/base/codec.h"
#include "src/base/launch_recipe.h"
#include "src/stitch/sizes.h"
#include "src/stitch/spec.h"
#include "tests/support/common.h"

namespace sinter {

constexpr uint32_t kPartsFollow = uint32_t{1} << 31;  // a flag in the number of operands

// Bytes of the workspace that a kernel without parts uses between grid barriers, for partial and
// whole column reductions; 0 without column reductions. FAILED_PRECONDITION when the body cannot be
// computed with the schedule's owner.
inline absl::StatusOr<uint64_t> StitchScratchBytes(const Chain& body,
                                                   const StitchSchedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  return LayOutColumns(body, program, schedule).scratch_bytes;
}

inline void WriteStitch(const StitchSpec& spec, ByteWriter& w) {
  w.Bytes(spec.body.CanonicalBytes());
  w.Bytes(spec.schedule.Canonical());
  w.U32(static_cast<uint32_t>(spec.operands.size()) | (spec.parts.empty() ? 0 : kPartsFollow));
  for (const BufferPlace& operand : spec.operands) {
    w.I64(operand.buffer);
    w.U64(operand.offset_bytes);
  }
  w.U64(spec.scratch_offset);
  if (!spec.parts.empty()) WriteParts(spec.parts, w);
}

// DATA_LOSS unless the body can be computed as the schedule says.
inline absl::StatusOr<StitchSpec> ReadStitch(ByteReader& r) {
  const auto lost = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("stitch spec: ", what));
  };
  StitchSpec spec;
  absl::StatusOr<Chain> body = ChainFromCanonicalBytes(r.Bytes());
  if (!body.ok()) return lost(body.status().message());
  spec.body = *std::move(body);
  SINTER_ASSIGN_OR_RETURN(spec.schedule, StitchSchedule::FromCanonical(r.Bytes()));
  const uint32_t word = r.U32(), operands = word & ~kPartsFollow;
  const size_t want = static_cast<size_t>(spec.body.num_inputs() + spec.body.num_outputs());
  if (operands != want) return lost(absl::StrCat(operands, " operands, the body has ", want));
  for (uint32_t i = 0; i < operands; ++i) {
    const int64_t buffer = r.I64();
    if (buffer < kWorkspaceBuffer || buffer > 1023) return lost(absl::StrCat("buffer ", buffer));
    spec.operands.push_back({static_cast<int>(buffer), r.U64()});
  }
  spec.scratch_offset = r.U64();
  if (!r.ok()) return lost("truncated");
  if (word != operands) {
    SINTER_ASSIGN_OR_RETURN(spec.parts, ReadParts(r));
  }
  const absl::Status legal = spec.parts.empty()
                                 ? StitchScratchBytes(spec.body, spec.schedule).status()
                                 : CheckParts(spec.body, spec.schedule, spec.parts);
  if (!legal.ok()) return lost(legal.message());
  return spec;
}

}  // namespace sinter
