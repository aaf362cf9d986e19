// What a unit's threads hand over through shared memory, in generated source (hand_over.h).
#ifndef SINTER_SRC_STITCH_CODE_HAND_TEXT_H_
#define SINTER_SRC_STITCH_CODE_HAND_TEXT_H_

#include <string>
#include <vector>

#include "src/stitch/code.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/slots.h"

namespace sinter {

class HandText {
 public:
  HandText(const StitchCode& code, const StitchProgram& program);

  // In front of a phase's units: where the group's share of shared memory begins. "" where nothing
  // is handed over.
  std::string Declarations(size_t phase) const;
  // In front of loop number `loop` of the phase: "" or where the group's threads meet.
  std::string Meet(size_t phase, size_t loop) const;
  // Where the loops behind `loop` find what it has left.
  void Publish(size_t phase, size_t loop, StitchEmitter& emitter) const;
  // Where root `value` of the phase lies.
  HandedResult ResultOf(size_t phase, ValueId value) const;

 private:
  const StitchCode& code_;
  const StitchProgram& program_;
  const HandLayout layout_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_HAND_TEXT_H_
