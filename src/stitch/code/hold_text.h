// What phases hold on chip for later ones, in generated source: packs that a thread has read and
// that the same thread needs again behind a barrier of the grid. Blocks take the same units in the
// same order in every phase, so the place of a pack is the thread's own: nobody waits for it.
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

  // `keys`: by phase, the packs that its units keep. Those of several phases are held, in as many
  // of a block's first rounds of units as the schedule's bytes have room for.
  void Choose(const std::vector<std::vector<ElementKey>>& keys, const ElementLoops& loops,
              const IndexSpace& space);

  // Whether the phase's units count their rounds.
  bool Counts(size_t phase) const;
  // Rounds when all are held: a unit that is not live may stand in a round beyond. 0: some are not.
  int64_t MostRounds() const { return whole_ ? rounds_ : 0; }
  // Behind the reading of turn j's pack `name`: "" or the statement that holds it.
  std::string Leave(const ElementKey& key, size_t phase, const std::string& name) const;
  // `read`, or the expression that takes turn j's held pack in its place.
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
  bool whole_ = false;  // no round is beyond
};

// Whether an element's position moves with a loop variable.
bool Walks(const IndexSpace& space, const ElementKey& key, IndexVar var);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_HOLD_TEXT_H_
