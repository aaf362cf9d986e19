#include "src/stitch/code/stitch_source.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/code/kernel_frame.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"

namespace sinter {

const char* StitchHeader(const Chain& body) {
  if (Scatters(body)) return "stitch/scatter.cuh";
  if (Gathers(body)) return "stitch/gather.cuh";
  return NeedsCodes(body) ? "stitch/codes.cuh" : "stitch/stitch.cuh";
}

absl::StatusOr<std::string> StitchSource(const StitchCode& code) {
  const StitchProgram& program = *code.program;
  if (program.whole && code.schedule.cluster > 1) {
    return absl::FailedPreconditionError(
        "stitch: a cluster shares units that are parts of a reduction over everything");
  }
  SINTER_ASSIGN_OR_RETURN(const std::string phases, PhaseWriter(code, program).Write());
  const StitchSchedule& s = code.schedule;
  return absl::StrCat(
      "// ", code.Text(), "\n#include \"", StitchHeader(*code.body), "\"\n\nnamespace sinter {\n\n",
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n",
      "extern \"C\" __global__ void __launch_bounds__(", s.block_threads, ", ", s.blocks_per_sm,
      ")\n", kStitchEntry, "(", StitchParameters(code, program.phases.size() > 1), ") {\n",
      StitchPrologue(code, program), phases, "}\n\n}  // namespace sinter\n");
}

}  // namespace sinter
