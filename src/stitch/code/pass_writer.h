// PassWriter: one pass through the elements of a unit, or through all elements: the statements of
// its roots and the loop around them.
#ifndef SINTER_SRC_STITCH_CODE_PASS_WRITER_H_
#define SINTER_SRC_STITCH_CODE_PASS_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/hand_text.h"
#include "src/stitch/spec.h"

namespace sinter {

class HoldText;  // phase_writer.h

// How threads share the elements of a pass.
struct PassShape {
  bool flat = false;
  int64_t elements = 1;  // of a unit; flat: of all, not counting M
  bool symbolic = false;
  bool known = true;  // the text holds the number of elements; parts of a packed kernel share a
                      // text, each with its own number
  int width = 1;      // elements of a vector
  int split = 1;      // neighbouring lanes that share an element
  int64_t turns = 1;  // vectors of a thread; flat: before it advances by the whole grid
  bool whole_unroll = false;  // registers hold a value for each turn
};
PassShape ShapeOf(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop,
                  bool flat);

// Whether every thread has an element in each of its turns, for any number of rows.
bool IsWhole(const PassShape& shape, const StitchSchedule& schedule);

// Whether source counts the elements with 32 bits: divisions of an element's number are short.
bool CountsInts(const PassShape& shape);

// What a thread of a flat loop does in a turn in which it has no element: nothing, or the same as
// for the last one, for reads that are not used then.
enum class Beyond { kNothing, kLast };

// "for (int j ..) { const int i = ..; if (i < n) {" and its closing text, around `inside`. A whole
// pass has no condition, nor have reads ahead: compilers move no read across one, and wait for
// reads inside.
std::string AroundElements(const PassShape& shape, const StitchSchedule& schedule,
                           const std::string& inside, Beyond beyond = Beyond::kNothing);

class PassWriter {
 public:
  // `hands` and `phase`: for the values that its roots hand over; `holds`: for those that a later
  // phase reads back, null where none does.
  PassWriter(const StitchCode& code, const StitchProgram& program, StitchEmitter& emitter,
             const HandText& hands, size_t phase, const HoldText* holds = nullptr)
      : code_(code),
        program_(program),
        emitter_(emitter),
        hands_(hands),
        phase_(phase),
        holds_(holds) {}

  // Appends the pass to the unit's scope. Later passes know its row reductions.
  absl::Status Write(const StitchLoop& loop, const PassShape& shape, IndexVar element, int number);

  // Appends the statements of one root at element `at`.
  absl::Status WriteRoot(const StitchRoot& root, const Position& at);

 private:
  absl::StatusOr<Position> PositionOf(const StitchRoot& root, const PassShape& shape,
                                      IndexVar element);
  absl::Status Store(const StitchRoot& root, const Position& at);
  absl::Status StoreOfSegment(const StitchRoot& root, const Index& address,
                              const std::string& words);
  absl::Status Row(const StitchRoot& root, const Position& at);
  absl::Status Column(const StitchRoot& root, const Position& at);
  absl::Status Moments(const StitchRoot& root, const Position& at);
  absl::Status Segment(const StitchRoot& root, const Position& at);
  absl::Status Hand(const StitchRoot& root, const Position& at);
  // Declares a vector of which `each` gives element `e`; its name.
  std::string Words(DType dtype, const std::string& each);
  // The condition for an action that one thread does for an element: a live unit, and the first of
  // the lanes that share it.
  std::string Once() const;
  void JoinRows(const StitchLoop& loop);
  void StepRows(const StitchLoop& loop);

  const StitchCode& code_;
  const StitchProgram& program_;
  StitchEmitter& emitter_;
  const HandText& hands_;
  const size_t phase_;
  const HoldText* const holds_;
  int split_ = 1;  // of the pass
};

// Names of the accumulators of row, column and segment reductions.
std::string RowName(ValueId id);
std::string ColumnName(ValueId id);
std::string SegmentName(ValueId id);
// Name of the count of units in a thread's column moments.
std::string SeenName(ValueId id);

// ElementLoops: the loop variables of a kernel's passes. Passes of one shape share a variable, so
// an element that several of them read has one name.

// A shape of pass and its loop variable.
struct ElementLoop {
  PassShape shape;
  IndexVar var;
};

class ElementLoops {
 public:
  // The variable of passes of `shape`; makes one in `space` if there is none.
  IndexVar Of(const PassShape& shape, IndexSpace& space);
  // In the order of creation.
  const std::vector<ElementLoop>& all() const { return loops_; }

 private:
  std::vector<ElementLoop> loops_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_PASS_WRITER_H_
