// Where C lies between the products of one kernel, level by level: the mapping that FlashFuser's
// Algorithm 1 makes of a reused tensor (dataflow_analyzer.h), read off a schedule of the shipping
// space.
#ifndef SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_
#define SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_

#include <string>

#include "src/plan/plan.h"
#include "src/product/paper/dataflow_analyzer.h"

namespace sinter {

// Bytes of the C that one M tile's second product reads (of one range of N, where clusters share an
// M tile), by the level that the first block of its cluster reads them from: its own shared memory,
// distributed shared memory (what peers sent), L2. All zero for one product.
LevelBytes IntermediateSplit(const ProductSequence& sequence, const Schedule& schedule);

// "C of an M tile: 3 KiB shared memory + 9 KiB DSM + 12 KiB L2"; "" for one product.
std::string IntermediateText(const ProductSequence& sequence, const Schedule& schedule);

// "registers", "shared memory", "DSM", "L2", "global memory".
absl::string_view NameOf(MemoryLevel level);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_
