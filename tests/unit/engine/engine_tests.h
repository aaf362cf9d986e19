// What tests of the engine include: its fakes, and the headers that most of them read.
#pragma once

#include "cache/record/record.h"
#include "src/engine/keys.h"
#include "src/engine/measured_choice.h"
#include "src/engine/tune.h"
#include "src/engine/verify.h"
#include "src/reference/reference.h"
#include "tests/support/files.h"
#include "tests/support/on_threads.h"
#include "tests/support/read_chain.h"
#include "tests/support/sequences.h"
#include "tests/support/test.h"
#include "tests/unit/engine/fakes.h"

namespace sinter {

using testing::FakeBuffers;
using testing::FakeWorld;

// The dataflow of the first kernel; "plain": of an unfused plan.
inline std::string DataflowOf(const Plan& plan) {
  if (!plan.fused) return "plain";
  return std::string(NameOf(ProductOf(plan.kernels[0].spec).schedule.dataflow));
}
inline std::string DataflowOf(const PreparedPlan& plan) { return DataflowOf(plan.plan()); }

// A tuning set of one entry.
inline std::shared_ptr<const TuningSet> SetWith(const TuningEntry& entry) {
  auto set = std::make_shared<TuningSet>();
  set->Add(entry);
  return set;
}

// The options of a prepare that measures, or takes what was measured.
inline PrepareOptions MeasuredBy(Measuring::Mode mode, bool required = false) {
  return {.measuring = {.mode = mode, .required = required}};
}

// Counts the events of a kind that the engine tells. `count` outlives the engine.
inline void CountEvents(Engine& engine, EventKind kind, int* count) {
  EXPECT_OK(engine.TellEvents(
      [kind, count](const EngineEvent& event) { *count += event.kind == kind ? 1 : 0; }));
}

}  // namespace sinter
