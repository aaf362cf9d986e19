// Values that a unit's threads hand over through shared memory, in generated source (hand_over.h).
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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_HAND_TEXT_H_
