// What tests of stitched kernels include: bodies, random graphs, schedules, programs.
#ifndef SINTER_TESTS_UNIT_STITCH_STITCH_TESTS_H_
#define SINTER_TESTS_UNIT_STITCH_STITCH_TESTS_H_

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_search.h"
#include "src/stitch/sizes.h"
#include "src/stitch/spec.h"
#include "tests/support/composed_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {

using testing::Body;
using testing::ColumnsThenRows;
using testing::FirstReduction;
using testing::FromText;

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_STITCH_STITCH_TESTS_H_
