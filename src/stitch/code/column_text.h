// Column reductions in generated source: accumulators before a phase's units, the join of all
// blocks' parts after them.
#ifndef SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_
#define SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_

#include <string>
#include <vector>

#include "src/stitch/code.h"
#include "src/stitch/code/pass_writer.h"
#include "src/stitch/columns.h"

namespace sinter {

class ColumnText {
 public:
  ColumnText(const StitchCode& code, const StitchProgram& program);

  // Of the phase's column reductions, in front of its units.
  std::string Declarations(const StitchPhase& phase) const;
  // Whether who joins the columns stores this root.
  bool Stores(const StitchRoot& root) const;
  // Behind its units: parts are left, blocks meet, parts are joined, and where blocks share that
  // out they meet again; "" without column reductions. Later phases find the results through
  // `emitter`.
  std::string Join(const StitchPhase& phase, StitchEmitter& emitter) const;

 private:
  // Whether phases behind `phase` read what other blocks have joined.
  bool ReadBehind(const StitchPhase& phase) const;
  // The phase's loop that makes `column`; null when another phase does.
  static const StitchLoop* LoopIn(const StitchPhase& phase, ValueId column);
  PassShape ShapeOfColumn(ValueId column) const;
  std::string Declaration(const ColumnPlace& place) const;
  std::string Leave(const ColumnPlace& place) const;
  std::string Gather(const ColumnPlace& place) const;
  std::string JoinOne(const ColumnPlace& place) const;
  // Where a part lies: of the launch, of the block for its cluster's peers; where the results do.
  std::string OwnPart(const ColumnPlace& place) const;
  std::string BlockPart(const ColumnPlace& place) const;
  std::string Results(int64_t offset, int output) const;
  std::string ResultsObject(const ColumnPlace& place) const;
  // What a part holds of a column, and how two parts join.
  const char* WordOf(const ColumnPlace& place) const;
  const char* JoinOf(const ColumnPlace& place) const;

  const StitchCode& code_;
  const StitchProgram& program_;
  const std::vector<ColumnPlace> places_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_COLUMN_TEXT_H_
