// What tests of stitched kernels include: bodies, random graphs, schedules, programs.
#pragma once

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_search.h"
#include "src/stitch/sizes.h"
#include "src/stitch/spec.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {

using testing::ColumnsThenRows;
using testing::FirstReduction;
using testing::FromText;
using testing::OpsOf;

}  // namespace sinter
