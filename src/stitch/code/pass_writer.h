// PassWriter: one pass through the elements of a unit, or of everything: its roots' statements and
// the loop around them.
#ifndef SINTER_SRC_STITCH_CODE_PASS_WRITER_H_
#define SINTER_SRC_STITCH_CODE_PASS_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/code.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/hand_text.h"

namespace sinter {

// How a pass's threads take its elements.
struct PassShape {
  bool flat = false;
  int64_t elements = 1;  // of a unit; flat: of everything, not counting M
  bool symbolic = false;
  bool known = true;          // the text knows how many there are; parts of a packed kernel share
                              // theirs, each with its own number
  int width = 1;              // elements of a vector
  int split = 1;              // neighbouring lanes that take a vector together
  int64_t turns = 1;          // vectors of a thread; flat: before it moves on by the whole grid
  bool whole_unroll = false;  // registers hold something for each turn
};
PassShape ShapeOf(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop,
                  bool flat);

// Whether every thread has an element in each of its turns, however many rows there are.
bool IsWhole(const PassShape& shape, const StitchSchedule& schedule);

// "for (int j ..) { const int i = ..; if (i < n) {", and what closes it, around `inside`. A pass
// that is whole has no condition: a compiler moves no read over one, and waits for those inside.
std::string AroundElements(const PassShape& shape, const StitchSchedule& schedule,
                           const std::string& inside);

class PassWriter {
 public:
  // `hands` and the phase's number: for what its roots hand over.
  PassWriter(const StitchCode& code, const StitchProgram& program, StitchEmitter& emitter,
             const HandText& hands, size_t phase)
      : code_(code), program_(program), emitter_(emitter), hands_(hands), phase_(phase) {}

  // Appends the pass to the unit's scope and makes its row reductions known to later passes.
  absl::Status Write(const StitchLoop& loop, const PassShape& shape, IndexVar element, int number);

 private:
  absl::StatusOr<Position> PositionOf(const StitchRoot& root, const PassShape& shape,
                                      IndexVar element);
  absl::Status WriteRoot(const StitchRoot& root, const Position& at);
  absl::Status Store(const StitchRoot& root, const Position& at);
  absl::Status Row(const StitchRoot& root, const Position& at);
  absl::Status Column(const StitchRoot& root, const Position& at);
  absl::Status Moments(const StitchRoot& root, const Position& at);
  absl::Status Segment(const StitchRoot& root, const Position& at);
  absl::Status Hand(const StitchRoot& root, const Position& at);
  // Of what one thread does for an element: the first of the lanes that share it, of a live unit.
  std::string Once() const;
  void JoinRows(const StitchLoop& loop);

  const StitchCode& code_;
  const StitchProgram& program_;
  StitchEmitter& emitter_;
  const HandText& hands_;
  const size_t phase_;
  int split_ = 1;  // of the pass
};

// Names of the accumulators of reductions of rows, columns and segments.
std::string RowName(ValueId id);
std::string ColumnName(ValueId id);
std::string SegmentName(ValueId id);
// Of the units that a thread has taken into its moments of columns.
std::string SeenName(ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_PASS_WRITER_H_
