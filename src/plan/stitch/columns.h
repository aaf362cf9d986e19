// Where the column reductions of a kernel leave their parts and results: in the workspace's scratch
// and in a block's shared memory.
#ifndef SINTER_SRC_PLAN_STITCH_COLUMNS_H_
#define SINTER_SRC_PLAN_STITCH_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "src/plan/stitch/program.h"
#include "src/plan/stitch/schedule.h"

namespace sinter {

// Offsets in bytes; a word of 4 bytes a column each.
struct ColumnPlace {
  ValueId value = -1;
  int64_t columns = 0;
  uint64_t parts = 0, results = 0;  // in the scratch; no results there where each block joins
  int64_t block_part = 0;           // in shared memory: what peers of a column cluster read
  int64_t block_results = 0;        // in shared memory: where each block joins for itself
};

struct ColumnLayout {
  std::vector<ColumnPlace> places;
  uint64_t scratch_bytes = 0;
  // Of a block's shared memory; it begins with room for the block's own joins.
  int64_t shared_bytes = 0;
};

ColumnLayout LayOutColumns(const Chain& body, const StitchProgram& program,
                           const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_STITCH_COLUMNS_H_
