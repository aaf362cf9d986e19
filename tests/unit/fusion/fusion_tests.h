// What tests of fusion include: plans, chains from text, graphs to fuse.
#pragma once

#include "src/base/launch_recipe.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {}  // namespace sinter
