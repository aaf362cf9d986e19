// What tests of fusion include: plans, chains from text, graphs to fuse.
#pragma once

#include "src/base/launch_recipe.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/recipes/recipe_check.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter::testing {

inline Chain ChainOfLine(const std::string& line) { return Got(ParseProblem(line)).chain; }

// The plan computes the chain with the buffers that it names, reads back from its decisions, and
// has sources.
inline void ExpectReadsBack(const Plan& plan, const Chain& chain, const DeviceModel& model) {
  EXPECT_EQ(FindMisbinding(chain, plan), "");
  const absl::StatusOr<Plan> read = Reassembled(plan, chain, model);
  EXPECT_TRUE(read.ok()) << read.status();
  if (read.ok()) {
    EXPECT_EQ(read->PlanDigest(), plan.PlanDigest());
  }
  for (const PlannedKernel& kernel : plan.kernels) {
    const absl::StatusOr<GeneratedKernel> made = Generate(kernel.spec, model);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) {
      EXPECT_TRUE(made->recipe.Check().ok()) << made->recipe.Check();
    }
  }
}

}  // namespace sinter::testing
