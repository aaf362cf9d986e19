#include "src/codegen/stitch/stitch_source.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/codegen/stitch/kernel_frame.h"
#include "src/codegen/stitch/phase_writer.h"

namespace sinter {

absl::StatusOr<std::string> StitchSource(const StitchSpec& spec, const StitchProgram& program) {
  SINTER_ASSIGN_OR_RETURN(const std::string phases, PhaseWriter(spec, program).Write());
  const StitchSchedule& s = spec.schedule;
  return absl::StrCat(
      "// ", s.ToString(), "\n#include \"stitch/stitch.cuh\"\n\nnamespace sinter {\n\n",
      "extern __shared__ __align__(16) unsigned char dynamic_shared[];\n\n",
      "extern \"C\" __global__ void __launch_bounds__(", s.block_threads, ", ", s.blocks_per_sm,
      ")\n", kStitchEntry, "(", StitchParameters(spec, program.phases.size() > 1), ") {\n",
      StitchPrologue(spec, program), phases, "}\n\n}  // namespace sinter\n");
}

}  // namespace sinter
