// StitchEmitter: statements that compute values of a body, each in the outermost scope where what
// it reads is known. What several results share is computed once.
#ifndef SINTER_SRC_CODEGEN_STITCH_EMITTER_H_
#define SINTER_SRC_CODEGEN_STITCH_EMITTER_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/plan/stitch/program.h"

namespace sinter {

// A value in source: a scalar, or a vector of which `name[e]` is one element.
struct Emitted {
  std::string name;
  bool vector = false;
  int depth = 0;        // of the scope that declares it
  bool of_unit = true;  // false: the same for every unit

  std::string Each() const { return vector ? name + "[e]" : name; }
};

// An element (or a vector of elements) of a value.
using ElementKey = std::pair<ValueId, Position>;

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

constexpr int kPhaseDepth = 0, kUnitDepth = 1, kElementDepth = 2;

class StitchEmitter {
 public:
  StitchEmitter(const Chain& body, const StitchProgram& program);

  IndexSpace& space() { return space_; }
  IndexVar unit() const { return unit_; }

  // Scopes, from the kernel's down. Text of a closed scope belongs to its parent.
  void OpenScope(bool branch = false);
  std::string CloseScope();
  void Add(int depth, const std::string& line);
  // To the innermost scope: a line, or text as it stands.
  void Append(const std::string& text) { scopes_.back().text += text; }
  void Add(const std::string& line) { Add(static_cast<int>(scopes_.size()) - 1, line); }

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
  std::string NewName(const char* prefix);
  int width() const { return width_; }
  IndexVar element() const { return element_; }
  // "SINTER_EACH(8) ".
  std::string EachText() const;

 private:
  struct Scope {
    std::string text;
    std::map<ElementKey, Emitted> known;
    bool branch = false;
  };

  Position Canonical(const Position& at);
  const Emitted* Find(const ElementKey& key) const;
  int LoadDepth(const Index& index) const;
  absl::StatusOr<Emitted> Compute(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Load(ValueId id, const Position& at);
  Emitted Declare(const char* word, const std::string& expression, bool vector, int depth,
                  bool of_unit);
  bool MovesWithUnit(const Index& index);
  absl::StatusOr<Emitted> Elementwise(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Counted(const Op& op, const Position& at);
  absl::StatusOr<Emitted> Joined(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Serial(ValueId id, const Position& at);
  // In the innermost scope, shared by `lanes`.
  absl::StatusOr<Emitted> SerialHere(ValueId id, const Position& at, int lanes);
  // What is reduced, where `k` counts.
  absl::StatusOr<Emitted> Reduced(ValueId id, const Position& at, IndexVar k);
  absl::StatusOr<Emitted> Product(ValueId id, const Position& at, const Index& k);
  // The loop of a reduction of `count` that `lanes` share, and `counter` in it, for `inside`.
  void OpenSerialLoop(const std::string& counter, int64_t count, int lanes,
                      const std::string& inside);
  absl::StatusOr<Emitted> Column(ValueId id, const Position& at);
  absl::StatusOr<Emitted> Handed(ValueId id, const Position& at, const HandedResult& result);
  void NoteUse(std::map<ElementKey, std::set<int>>& uses, const ElementKey& key);

  const Chain& body_;
  const StitchProgram& program_;
  IndexSpace space_;
  const IndexVar unit_;
  IndexVar element_ = -1;
  int width_ = 1, pass_ = 0, split_ = 1, names_ = 0;
  bool in_serial_ = false;
  const std::vector<bool> exact_;  // ExactOps
  std::vector<Scope> scopes_;
  std::map<ValueId, std::string> rows_;
  std::map<ValueId, ColumnResults> columns_;
  std::map<ValueId, HandedResult> handed_;  // by earlier passes of the unit
  std::map<std::pair<ValueId, IndexVar>, std::string> segments_;
  Kept kept_;
  std::set<ElementKey> computed_;  // of kept_.values: an earlier pass has filled them
  Used used_;
};

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_STITCH_EMITTER_H_
