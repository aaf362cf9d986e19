// StitchEmitter: statements that compute the values of a body. Each statement stands in the
// outermost scope where its operands are known; a value that several results share is computed
// once.
#ifndef SINTER_SRC_STITCH_CODE_EMITTER_H_
#define SINTER_SRC_STITCH_CODE_EMITTER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/precision.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"

namespace sinter {

// Address of a column reduction's results.
struct ColumnResults {
  std::string first;    // a pointer
  bool shared = false;  // in the block's shared memory; else in L2, written by other blocks
};

// Address of a value that a unit's threads hand over.
struct HandedResult {
  std::string element;           // "ElementF32"
  std::string first;             // a pointer
  std::vector<int64_t> strides;  // of the axes after the unit's
};

// Where a unit's threads find a staged input: `place`, after which the first element follows.
struct StagedResult {
  std::string first, place;
};

// Values that outlive a pass, by the name of the array that holds them for every turn `j` of the
// unit's threads: packs read from memory, values computed by the first pass that needs them.
struct Kept {
  std::map<ElementKey, std::string> inputs, values;
  std::map<ElementKey, std::string> alike;  // equal for all units: computed before the first
};

// Values that passes used; the choice of kept values is made from it.
struct Used {
  std::map<ElementKey, std::set<int>> inputs, values;  // passes that read it as a vector
  std::map<ElementKey, std::set<ElementKey>> reads;  // for each value: the values computed from it
  std::map<ElementKey, std::set<int>>
      alike;                  // passes where a unit's value meets one that all units share
  std::set<ElementKey> left;  // stored, and read back by a later phase
};

// A tensor in memory.
struct MemoryPlace {
  std::string first;  // a pointer
  const std::vector<Stride>* strides = nullptr;
};

class StitchEmitter : public ScopedText {
 public:
  StitchEmitter(const Chain& body, const StitchProgram& program);
  StitchEmitter(const StitchEmitter&) = delete;
  StitchEmitter& operator=(const StitchEmitter&) = delete;

  IndexVar unit() const { return unit_; }

  // Begins a pass: loop variable `element` counts vectors of `width`, `number` is the pass's own.
  // `split` lanes share each element's own reductions.
  void BeginPass(IndexVar element, int width, int number, int split = 1);
  // Sets the kept values of one unit; forgets what passes of earlier units computed.
  void SetKept(const Kept& kept);
  // Values used since StartUses.
  const Used& used() const { return used_; }
  void StartUses() { used_ = Used(); }

  // Sets the name of a result of an earlier pass or phase.
  void SetRow(ValueId row, const std::string& name) { rows_[row] = name; }
  // Forgets the values of a unit.
  void ForgetRows() {
    rows_.clear();
    segments_.clear();
    handed_.clear();
  }
  // Sets the results of the segments that loop `element` walks: `name[j]` in turn j.
  void SetSegment(ValueId id, IndexVar element, const std::string& name) {
    segments_[{id, element}] = name;
  }
  void SetHanded(ValueId id, const HandedResult& result) { handed_[id] = result; }
  // Sets the text that reads a staged input at the element where the pass stands.
  void SetStaged(ValueId input, const StagedResult& result) { staged_[input] = result; }
  // Forgets them; returns the addresses in memory of those that were read, of element `i` of unit
  // `u`.
  std::map<ValueId, std::string> TakeStaged();
  void SetColumn(ValueId column, const ColumnResults& results) { columns_[column] = results; }
  // Sets the phase whose units read back what earlier ones stored; null: none.
  void SetReadsBack(const StitchPhase* phase) { reads_back_ = phase; }
  // Notes that the pass stores a value that a later phase reads back; the key of that.
  ElementKey NoteLeft(ValueId id, const Position& at);
  // Where an input or an output of the body lies.
  MemoryPlace PlaceOf(ValueId id) const;

  // Emits element `at` of `id`. FAILED_PRECONDITION when the pass's vectors cannot express it.
  absl::StatusOr<Emitted> Pull(ValueId id, const Position& at);
  // Emits the operand of reduction `id` at the pass's current element.
  absl::StatusOr<Emitted> PullOperand(ValueId id, const Position& at);

  // Address of element `at` of a handed-over value. Precondition: the element is of this unit.
  absl::StatusOr<Index> HandedAddress(ValueId id, const Position& at, const HandedResult& result);
  bool MovesWithUnit(const Index& index);
  // Address of element `at` of a tensor with `strides`.
  Index Address(const Position& at, const std::vector<Stride>& strides);

 private:
  absl::StatusOr<Emitted> Compute(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Load(ValueId id, const Position& at);
  Emitted Read(ValueId id, const Position& at);
  // The compound of `id`, unless a part of it was handed over and is read instead.
  Compound Compounded(ValueId id) const;
  absl::StatusOr<Emitted> Elementwise(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Counted(const Op& op, const Position& at);
  absl::StatusOr<Emitted> Joined(ValueId id, const Position& at);
  // What a side of a concat reads of an input.
  struct SideRead {
    ElementKey key;
    Index address;
    Along along = Along::kUniform;
  };
  bool FindReads(ValueId id, const Position& at, std::vector<SideRead>* reads, double* issue);
  static bool PairReads(const std::vector<SideRead>& first, std::vector<SideRead>* second);
  absl::StatusOr<Emitted> JoinedByChoice(ValueId id, const std::vector<Position>& places,
                                         const std::string& is_first,
                                         const std::vector<SideRead>& first,
                                         const std::vector<SideRead>& second);
  // Where the elements of a vector lie in more than one operand, or not side by side.
  absl::StatusOr<Emitted> JoinedOneByOne(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Gathered(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Windowed(ValueId id, const Position& at);
  std::optional<Emitted> ReadWhere(const std::string& where, const std::string& fill, ValueId id,
                                   Position at, Emitted value);
  absl::StatusOr<Emitted> Drawn(const Op& op, const Position& at);
  // Whether pixel `place` of an axis of an image lies inside of it; computed once a scope.
  Emitted Inside(ValueId window, const Index& place, size_t axis);
  absl::StatusOr<Emitted> ReadIfRows(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Column(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Handed(ValueId id, const Position& at, const HandedResult& result);
  void NoteUse(std::map<ElementKey, std::set<int>>& uses, const ElementKey& key);

  const Chain& body_;
  const StitchProgram& program_;
  const IndexVar unit_;
  const std::vector<Precision>& precisions_;
  const std::vector<bool> alone_;  // SubtractsAlone
  SerialText serial_;
  int pass_ = 0;
  std::map<ValueId, std::string> rows_;
  std::map<ValueId, ColumnResults> columns_;
  std::map<ValueId, HandedResult> handed_;  // by earlier passes of the unit
  std::map<std::pair<ValueId, IndexVar>, std::string> segments_;
  std::map<ValueId, StagedResult> staged_;
  std::map<ValueId, std::string> staged_from_;  // addresses in memory
  std::map<ElementKey, Emitted> chosen_;        // reads of the side of a concat where it stands
  const StitchPhase* reads_back_ = nullptr;
  Kept kept_;
  std::set<ElementKey> computed_;  // keys of kept_.values that an earlier pass has filled
  Used used_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_EMITTER_H_
