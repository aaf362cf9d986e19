// Where the column reductions of a kernel leave their parts and results: in the workspace's scratch
// and in a block's shared memory.
#ifndef SINTER_SRC_STITCH_COLUMNS_H_
#define SINTER_SRC_STITCH_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Offsets in bytes. A result has 4 of them a column.
struct ColumnPlace {
  ValueId value = -1;
  ValueId mean = -1;  // made along with it (program.h)
  int64_t columns = 0;
  int64_t part_bytes = 4;  // of a column
  uint64_t parts = 0;      // in the scratch
  int64_t block_part = 0;  // in shared memory: what peers of a column cluster read
  // In shared memory where each block joins for itself, else in the scratch; or outputs have them.
  int64_t results = 0, mean_results = 0;
  int output = -1, mean_output = -1;
};

struct ColumnLayout {
  std::vector<ColumnPlace> places;
  uint64_t scratch_bytes = 0;
  // Of a block's shared memory; it begins with room for the block's own joins.
  int64_t shared_bytes = 0;
};

// The output that column reduction `value` is, as it lies in memory: who joins the parts may store
// it. -1: none, or it has to be converted or placed.
int ColumnOutput(const Chain& body, ValueId value);

// Whether `phase` does nothing but store such outputs.
bool OnlyStoresColumns(const Chain& body, const StitchProgram& program, const StitchPhase& phase);

ColumnLayout LayOutColumns(const Chain& body, const StitchProgram& program,
                           const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_COLUMNS_H_
