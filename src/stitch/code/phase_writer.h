// PhaseWriter: the phases of one kernel: their unit loops and flat loops, the values kept between
// passes, the join of column reductions after them.
#ifndef SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_
#define SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/hand_text.h"
#include "src/stitch/code/pass_writer.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/sizes.h"
#include "src/stitch/spec.h"

namespace sinter {

// Values that a thread keeps in registers, in generated source: those that a unit's passes read or
// compute twice, and those that are the same for all units.

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
  // The text after the expression of turn j's pack: "" or the statement that holds it.
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
  // `units`, their reads go to `batch`. One condition chooses between taking all values and reading
  // all values. With one condition for each, reads would wait for one another.
  void Preload(const Kept& kept, bool flat, size_t phase, int units = 1,
               BatchReads* batch = nullptr);
  // Computes values that are the same for every unit once, before the units, for all of a thread's
  // elements; adds their names to `kept`.
  absl::Status ComputeAlike(const Used& used, Kept& kept);

 private:
  absl::Status ComputeAlikeOf(const ElementLoop& loop, const Used& used,
                              std::map<ElementKey, std::string>& names);
  // The expression that reads a pack from memory.
  std::string PackRead(const ElementKey& key, const ElementLoop& loop);
  bool OfUnit(const ElementKey& key);

  const StitchCode& code_;
  const StitchProgram& program_;
  const ElementLoops& loops_;
  StitchEmitter& emitter_;
  HoldText holds_;
};

// Column reductions in generated source: accumulators before a phase's units, and the join of all
// blocks' parts after them.

class ColumnText {
 public:
  ColumnText(const StitchCode& code, const StitchProgram& program);

  // Accumulators of the phase's column reductions, declared before its units.
  std::string Declarations(const StitchPhase& phase) const;
  // Whether the threads that join the columns store this root.
  bool Stores(const StitchRoot& root) const;
  // How many elements a column has, as text.
  static std::string CountOf(const Chain& body, const StitchProgram& program, ValueId column);
  // After the units: each block writes its part, blocks meet at a barrier, parts are joined, and
  // blocks meet again where the joining was shared. "" without column reductions. Later phases find
  // the results through `emitter`.
  std::string Join(const StitchPhase& phase, StitchEmitter& emitter) const;

 private:
  const StitchCode& code_;
  const StitchProgram& program_;
  const std::vector<ColumnPlace> places_;
};

class PhaseWriter {
 public:
  PhaseWriter(const StitchCode& code, const StitchProgram& program, const FrameNames& names = {});

  // All phases, each in braces. FAILED_PRECONDITION when the schedule's vectors cannot express the
  // body.
  absl::StatusOr<std::string> Write();

 private:
  // `uses`: by phase, from a first run, which finds what passes share; null in that run.
  absl::StatusOr<std::string> Run(const std::vector<Used>* uses);
  absl::StatusOr<std::string> Phase(size_t number, const Used* used);
  absl::Status Units(size_t number, const Used* used);
  absl::Status Flat(const StitchLoop& loop, const Used* used);
  // A flat loop whose threads make several results of windows at once (WindowText).
  absl::Status Windows(const StitchLoop& loop);
  std::string FlatLoopText(const PassShape& shape, const std::string& inside) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  const FrameNames names_;
  StitchEmitter emitter_;
  const ColumnText columns_;
  const HandText hands_;
  const StagedText staged_;
  ElementLoops loops_;
  KeepText keep_;
  std::vector<Used> uses_;
  int passes_ = 0;
};

// WindowText: the loop of a kernel whose threads make several results of windows at once
// (src/stitch/shared_reads.h), in generated source: accumulators for each result, a loop over the
// rows of taps, in which each pixel and each factor is read once, and then the loop's roots.

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

#endif  // SINTER_SRC_STITCH_CODE_PHASE_WRITER_H_
