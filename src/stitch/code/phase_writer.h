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
  // A flat loop whose threads make several results of windows at once (WindowText).
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

// WindowText: the loop of a kernel whose threads make several results of windows at once
// (src/stitch/window_row.h), in generated source: accumulators for each result, a loop over the
// rows of taps, in which each pixel and each factor is read once, and then the loop's roots.

class WindowText {
 public:
  // All must outlive it. `writer` writes to `emitter`.
  WindowText(const StitchCode& code, const StitchProgram& program, StitchEmitter& emitter,
             PassWriter& writer)
      : code_(code), program_(program), emitter_(emitter), writer_(writer) {}

  // The loop over tiles of results and channels, as pass `number`.
  absl::StatusOr<std::string> Write(const StitchLoop& loop, const FrameNames& names, int number);

 private:
  // Result `pixel` of the thread's tile.
  Position At(int64_t pixel) const;
  // Makes reduction `id` for all results; the emitter then knows them.
  absl::Status Reduce(ValueId id);
  absl::Status WriteRoots(const StitchLoop& loop, int64_t pixel);
  std::string AroundTiles(const StitchLoop& loop, const FrameNames& names,
                          const std::string& inside) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  StitchEmitter& emitter_;
  PassWriter& writer_;
  Position first_;  // of the tile
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_
