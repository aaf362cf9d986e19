// Explain: one screen about a prepared plan.
#ifndef SINTER_SRC_ENGINE_EXPLAIN_H_
#define SINTER_SRC_ENGINE_EXPLAIN_H_

#include <string>

#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

// The plan, how many schedules were weighed, where each kernel came from, what does not run and
// why.
std::string ExplainPlan(const LoadedPlan& plan, const Ports& ports);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_EXPLAIN_H_
