// Column reductions in generated source: accumulators before a phase's units, and the join of all
// blocks' parts after them.
#ifndef SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_
#define SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_

#include <string>
#include <vector>

#include "src/stitch/code/pass_writer.h"
#include "src/stitch/columns.h"
#include "src/stitch/spec.h"

namespace sinter {

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
  // Whether later phases read what other blocks have joined.
  bool ReadBehind(const StitchPhase& phase) const;
  // The loop of the phase that makes `column`; null when another phase makes it.
  static const StitchLoop* LoopIn(const StitchPhase& phase, ValueId column);
  PassShape ShapeOfColumn(ValueId column) const;
  // Whether all that a thread holds of it are parts of one column: the program's units are parts of
  // reductions over everything, and this is one. Others beside it have a column an element.
  static bool JoinsHeld(const Chain& body, const StitchProgram& program, ValueId column);
  static int64_t LoopElements(const StitchProgram& program, ValueId column);  // of a unit
  std::string Declaration(const ColumnPlace& place) const;
  std::string Leave(const ColumnPlace& place) const;
  std::string Gather(const ColumnPlace& place) const;
  std::string JoinOne(const ColumnPlace& place) const;
  // Addresses of a block's part: in the launch's scratch, in shared memory for its cluster; and of
  // the results.
  std::string OwnPart(const ColumnPlace& place) const;
  std::string BlockPart(const ColumnPlace& place) const;
  std::string Results(int64_t offset, int output) const;
  std::string ResultsObject(const ColumnPlace& place) const;
  // The type of a column in a part, and the operation that joins two.
  const char* WordOf(const ColumnPlace& place) const;
  const char* JoinOf(const ColumnPlace& place) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  const std::vector<ColumnPlace> places_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_
