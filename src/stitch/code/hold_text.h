// Packs that a phase holds in shared memory for later phases, in generated source: a thread has
// read them and needs them again after a grid barrier. Blocks take the same units in the same order
// in every phase, so each pack is in its thread's own place and nobody waits for it.
#ifndef SINTER_SRC_STITCH_CODE_HOLD_TEXT_H_
#define SINTER_SRC_STITCH_CODE_HOLD_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/stitch/code.h"
#include "src/stitch/code/element_loops.h"
#include "src/stitch/code/emitter.h"

namespace sinter {

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
  // After the read of turn j's pack `name`: "" or the statement that holds it.
  std::string Leave(const ElementKey& key, size_t phase, const std::string& name) const;
  // `read`, or the expression that takes turn j's held pack instead.
  std::string Take(const ElementKey& key, size_t phase, const std::string& read) const;

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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_HOLD_TEXT_H_
