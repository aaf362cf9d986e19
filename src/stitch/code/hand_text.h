// Values that a unit's threads hand over through shared memory, in generated source (phases.h).
#ifndef SINTER_SRC_STITCH_CODE_HAND_TEXT_H_
#define SINTER_SRC_STITCH_CODE_HAND_TEXT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/phases.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/spec.h"

namespace sinter {

class HandText {
 public:
  HandText(const StitchCode& code, const StitchProgram& program);

  // Declares the group's part of shared memory before a phase's units; "" where nothing is handed
  // over.
  std::string Declarations(size_t phase) const;
  // Before loop number `loop` of the phase: "" or a barrier of the group's threads.
  std::string Meet(size_t phase, size_t loop) const;
  // Tells later loops where `loop` has left its values.
  void Publish(size_t phase, size_t loop, StitchEmitter& emitter) const;
  // Where root `value` of the phase is left.
  HandedResult ResultOf(size_t phase, ValueId value) const;

 private:
  const StitchCode& code_;
  const StitchProgram& program_;
  const HandLayout layout_;
};

// StagedText: inputs that a block reads for all its units and leaves in shared memory
// (shared_reads.h).

class StagedText {
 public:
  StagedText(const StitchCode& code, const StitchProgram& program);

  // Tells `emitter` where the passes of a unit find staged inputs.
  void Publish(StitchEmitter& emitter) const;
  // What a block does before its units: reads the inputs at `from`, the addresses in memory.
  std::string Text(const std::map<ValueId, std::string>& from) const;

 private:
  std::string First(const StagedPlace& place) const;

  const StitchCode& code_;
  const bool ints_;  // UnitsAreInts
  const std::vector<StagedPlace> places_;
  const int64_t offset_;  // of all, in the block's shared memory
};

// What the stores of a scatter ask of its ids, in generated source.

class StitchEmitter;

// `body` and `emitter` must outlive it. The emitter pulls ids and takes the statements.
class ScatterText {
 public:
  ScatterText(const Chain& body, StitchEmitter& emitter) : body_(body), emitter_(emitter) {}

  // Where an element is stored, if it is.
  struct Place {
    Emitted stored;  // bool
    Position at;     // in the result
  };
  // Element `at` of the rows: where its id says, unless it names no row, or a later id is equal.
  absl::StatusOr<Place> Written(ValueId scatter, const Position& at);
  // Element `at` of the overwritten operand: in its place, unless an id names its row.
  absl::StatusOr<Place> Left(ValueId scatter, const Position& at);

 private:
  // Declares the answer to `question`, a call without its ids, in the scope of `depth`.
  absl::StatusOr<Emitted> Ask(ValueId ids, const std::string& question, bool vector, int depth,
                              bool of_unit);

  const Chain& body_;
  StitchEmitter& emitter_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_HAND_TEXT_H_
