// PhaseWriter: the phases of one kernel: their unit loops and flat loops, the values kept between
// passes, the join of column reductions after them.
#ifndef SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_
#define SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/code/column_text.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/hand_text.h"
#include "src/stitch/code/keep_text.h"
#include "src/stitch/code/kernel_frame.h"
#include "src/stitch/code/pass_writer.h"
#include "src/stitch/spec.h"

namespace sinter {

class PhaseWriter {
 public:
  PhaseWriter(const StitchCode& code, const StitchProgram& program, const FrameNames& names = {});

  // All phases, each in braces. FAILED_PRECONDITION when the schedule's vectors cannot express the
  // body.
  absl::StatusOr<std::string> Write();

 private:
  // `uses`: by phase, from a first run, which finds what passes share; null in that run.
  absl::StatusOr<std::string> Run(const std::vector<Used>* uses);
  absl::StatusOr<std::string> Phase(size_t number, const Used* used);
  absl::Status Units(size_t number, const Used* used);
  absl::Status Flat(const StitchLoop& loop, const Used* used);
  // A flat loop whose threads make several results of windows at once (window_text.h).
  absl::Status Windows(const StitchLoop& loop);
  std::string FlatLoopText(const PassShape& shape, const std::string& inside) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  const FrameNames names_;
  StitchEmitter emitter_;
  const ColumnText columns_;
  const HandText hands_;
  const StagedText staged_;
  ElementLoops loops_;
  KeepText keep_;
  std::vector<Used> uses_;
  int passes_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_
