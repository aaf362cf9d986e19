// Values that a thread keeps in registers, in generated source: those that a unit's passes read or
// compute twice, and those that are the same for all units.
#ifndef SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_
#define SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/code.h"
#include "src/stitch/code/element_loops.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/hold_text.h"
#include "src/stitch/code/kernel_frame.h"

namespace sinter {

class KeepText {
 public:
  KeepText(const StitchCode& code, const StitchProgram& program, const ElementLoops& loops,
           StitchEmitter& emitter)
      : code_(code), program_(program), loops_(loops), emitter_(emitter), holds_(code, program) {}

  // Chooses what is held between phases, from the uses in a first writing of all phases.
  void ChooseHeld(const std::vector<Used>& uses);
  const HoldText& holds() const { return holds_; }

  // Names the values of a phase that are worth keeping; of inputs, those that each unit reads for
  // itself.
  Kept Choose(const Used& used, bool inputs, bool values);
  // Declares the kept values and reads inputs, all of a thread's reads at once; takes what an
  // earlier phase holds and holds what a later one needs. Where units are read in batches of
  // `units`, their reads go to `batch`.
  void Preload(const Kept& kept, bool flat, size_t phase, int units = 1,
               BatchReads* batch = nullptr);
  // Computes values that are the same for every unit once, before the units, for all of a thread's
  // elements; adds their names to `kept`.
  absl::Status ComputeAlike(const Used& used, Kept& kept);

 private:
  absl::Status ComputeAlikeOf(const ElementLoop& loop, const Used& used,
                              std::map<ElementKey, std::string>& names);
  static std::string PackDeclaration(const Op& input, const std::string& name,
                                     const PassShape& shape);
  // The expression that reads a pack from memory.
  std::string PackRead(const ElementKey& key, const Op& input, const ElementLoop& loop);
  bool OfUnit(const ElementKey& key);

  const StitchCode& code_;
  const StitchProgram& program_;
  const ElementLoops& loops_;
  StitchEmitter& emitter_;
  HoldText holds_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_
