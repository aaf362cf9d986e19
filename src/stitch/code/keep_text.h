// Values that a thread keeps in registers, in generated source: those that a unit's passes read or
// compute twice, and those that are the same for all units.
#ifndef SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_
#define SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/kernel_frame.h"
#include "src/stitch/code/pass_writer.h"
#include "src/stitch/spec.h"

namespace sinter {

// Packs that a phase holds in shared memory for later phases, in generated source: a thread has
// read or stored them and needs them again after a grid barrier. Blocks take the same units in
// every phase, so each pack is in its thread's own place and nobody waits for it.

class HoldText {
 public:
  HoldText(const StitchCode& code, const StitchProgram& program) : code_(code), program_(program) {}

  // `keys`: the packs that each phase's units keep. Packs of several phases are held for a block's
  // first rounds of units, as many as the schedule's bytes have room for.
  void Choose(const std::vector<std::vector<ElementKey>>& keys, const ElementLoops& loops,
              const IndexSpace& space);

  // Whether the phase's units count rounds.
  bool Counts(size_t phase) const;
  // The number of rounds when all are held (a unit that is not live may be beyond it); 0: some are
  // not held.
  int64_t MostRounds() const { return whole_ ? rounds_ : 0; }
  // Behind the expression of turn j's pack: "" or the statement that holds it.
  std::string Leave(const ElementKey& key, size_t phase, const std::string& pack) const;
  // The expression that takes turn j's held pack in a round below HeldRounds(); "": none is held.
  std::string Take(const ElementKey& key, size_t phase) const;
  int64_t HeldRounds() const { return rounds_; }
  // Whether every round is held.
  bool IsWhole() const { return whole_; }

 private:
  struct Held {
    size_t first = 0, last = 0;  // phases
    PassShape shape;
    int64_t offset = 0;  // bytes
  };
  int64_t RoundBytes(const ElementKey& key, const PassShape& shape) const;
  std::string Place(const Held& held) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  std::map<ElementKey, Held> held_;
  int64_t rounds_ = 0;
  bool whole_ = false;  // every round is held
};

// Whether an element's position depends on a loop variable.
bool Walks(const IndexSpace& space, const ElementKey& key, IndexVar var);

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
  // `units`, their reads go to `batch`. One condition chooses between all that is taken and all
  // that is read: behind one for each, reads would wait for one another.
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
  std::string PackRead(const ElementKey& key, const ElementLoop& loop);
  bool OfUnit(const ElementKey& key);

  const StitchCode& code_;
  const StitchProgram& program_;
  const ElementLoops& loops_;
  StitchEmitter& emitter_;
  HoldText holds_;
};

// Values that several passes compute, that are read by something only one pass computes, and that
// are expensive to compute again from what is read or kept. Operands come before the values made
// from them.
std::vector<ElementKey> ValuesWorthKeeping(const Chain& body, const Used& used);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_KEEP_TEXT_H_
