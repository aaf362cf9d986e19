// StitchEmitter: statements that compute values of a body, each in the outermost scope where what
// it reads is known. What several results share is computed once.
#ifndef SINTER_SRC_STITCH_CODE_EMITTER_H_
#define SINTER_SRC_STITCH_CODE_EMITTER_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/code/serial_text.h"
#include "src/stitch/program.h"

namespace sinter {

// Where the results of a column reduction lie.
struct ColumnResults {
  std::string first;    // a pointer
  bool shared = false;  // in the block's shared memory; else in L2, where other blocks wrote them
};

// Where a value that a unit's threads hand over lies.
struct HandedResult {
  std::string element;           // "ElementF32"
  std::string first;             // a pointer
  std::vector<int64_t> strides;  // of its axes behind the unit's
};

// What outlives a pass through a unit's elements, by the name that holds it for every turn `j` of
// the unit's threads: packs read from memory, values computed in the first pass that needs them.
struct Kept {
  std::map<ElementKey, std::string> inputs, values;
  std::map<ElementKey, std::string> alike;  // the same for every unit: computed before the first
};

// What a pass used: the choice of what is kept is made from it.
struct Used {
  std::map<ElementKey, std::set<int>> inputs, values;  // passes that read it as a vector
  std::map<ElementKey, std::set<ElementKey>> reads;    // of each value: what is computed from it
  std::map<ElementKey, std::set<int>>
      alike;  // passes where a unit's values meet one that all share
};

class StitchEmitter : public ScopedText {
 public:
  StitchEmitter(const Chain& body, const StitchProgram& program);
  StitchEmitter(const StitchEmitter&) = delete;
  StitchEmitter& operator=(const StitchEmitter&) = delete;

  IndexVar unit() const { return unit_; }

  // A pass through elements: loop variable `element` counted in vectors of `width`; `number` tells
  // passes apart. Lanes of `split` share each element's own reductions.
  void BeginPass(IndexVar element, int width, int number, int split = 1);
  // For the passes of one unit; forgets what earlier units' passes computed.
  void SetKept(const Kept& kept);
  // Since StartUses.
  const Used& used() const { return used_; }
  void StartUses() { used_ = Used(); }

  // A result of an earlier pass or phase.
  void SetRow(ValueId row, const std::string& name) { rows_[row] = name; }
  // What belongs to a unit.
  void ForgetRows() {
    rows_.clear();
    segments_.clear();
    handed_.clear();
  }
  // Of the segments that loop `element` walks: `name[j]` in turn j.
  void SetSegment(ValueId id, IndexVar element, const std::string& name) {
    segments_[{id, element}] = name;
  }
  void SetHanded(ValueId id, const HandedResult& result) { handed_[id] = result; }
  void SetColumn(ValueId column, const ColumnResults& results) { columns_[column] = results; }

  // Element `at` of `id`. FAILED_PRECONDITION when the pass's vectors cannot express it.
  absl::StatusOr<Emitted> Pull(ValueId id, const Position& at);
  // The operand of reduction `id` at the place that the pass stands at.
  absl::StatusOr<Emitted> PullOperand(ValueId id, const Position& at);

  // Where element `at` of a handed-over value lies; the element is of the unit.
  absl::StatusOr<Index> HandedAddress(ValueId id, const Position& at, const HandedResult& result);
  // Where element `at` of a tensor with `strides` lies.
  Index Address(const Position& at, const std::vector<Stride>& strides);

 private:
  Position Canonical(const Position& at);
  absl::StatusOr<Emitted> Compute(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Load(ValueId id, const Position& at);
  bool MovesWithUnit(const Index& index);
  absl::StatusOr<Emitted> Elementwise(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Counted(const Op& op, const Position& at);
  absl::StatusOr<Emitted> Joined(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Column(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Handed(ValueId id, const Position& at, const HandedResult& result);
  void NoteUse(std::map<ElementKey, std::set<int>>& uses, const ElementKey& key);

  const Chain& body_;
  const StitchProgram& program_;
  const IndexVar unit_;
  const std::vector<bool> exact_;  // ExactOps
  SerialText serial_;
  int pass_ = 0;
  std::map<ValueId, std::string> rows_;
  std::map<ValueId, ColumnResults> columns_;
  std::map<ValueId, HandedResult> handed_;  // by earlier passes of the unit
  std::map<std::pair<ValueId, IndexVar>, std::string> segments_;
  Kept kept_;
  std::set<ElementKey> computed_;  // of kept_.values: an earlier pass has filled them
  Used used_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_EMITTER_H_
