// Where C lies between the products of one kernel, level by level: the mapping of a reused tensor
// in FlashFuser's Algorithm 1 (dataflow_analyzer.h), derived from a schedule of the shipping space.
#ifndef SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_
#define SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_

#include <string>

#include "src/plan/plan.h"
#include "src/product/paper/dataflow_analyzer.h"

namespace sinter {

// Bytes of the C that the second product of one row tile (or of one range of N, where clusters
// share a row tile) reads, by the level that the cluster's first block reads them from: its own
// shared memory, distributed shared memory (sent by peers), L2. All zero for one product.
LevelBytes IntermediateSplit(const ProductSequence& sequence, const Schedule& schedule);

// "c of a row tile: 3 KiB shared memory + 9 KiB DSM + 12 KiB L2"; "" for one product.
std::string IntermediateText(const ProductSequence& sequence, const Schedule& schedule);

// "registers", "shared memory", "DSM", "L2", "global memory".
absl::string_view NameOf(MemoryLevel level);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_INTERMEDIATE_SPLIT_H_
