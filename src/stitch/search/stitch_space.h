// The stitch family's space: the schedules of a program that are worth costing. Threads of a unit,
// blocks, clusters, vectors, lanes that share an element, values kept in registers and held in
// shared memory, joins of columns, grids.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_SPACE_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_SPACE_H_

#include <cstdint>
#include <functional>

#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/model/search_options.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// Calls `visit` for every legal schedule of `program`, with its load, in a fixed order. Blocks an
// SM follow from estimated registers (stitch_registers.h). Thread-safe.
void EnumerateStitchSpace(
    const Chain& body, const StitchProgram& program, int64_t bucket, const DeviceModel& model,
    const SearchOptions& options,
    const std::function<void(const StitchSchedule&, const StitchLoad&)>& visit);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_SPACE_H_
