// WindowText: the loop of a kernel whose threads make several results of windows at once
// (src/stitch/window_row.h), in generated source: accumulators for each result, a loop over the
// rows of taps, in which each pixel and each factor is read once, and then the loop's roots.
#ifndef SINTER_SRC_STITCH_CODE_WINDOW_TEXT_H_
#define SINTER_SRC_STITCH_CODE_WINDOW_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/kernel_frame.h"
#include "src/stitch/code/pass_writer.h"

namespace sinter {

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

#endif  // SINTER_SRC_STITCH_CODE_WINDOW_TEXT_H_
