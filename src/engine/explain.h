// What is known of a prepared plan, as an explanation (src/explain).
#ifndef SINTER_SRC_ENGINE_EXPLAIN_H_
#define SINTER_SRC_ENGINE_EXPLAIN_H_

#include <vector>

#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"
#include "src/explain/explain.h"

namespace sinter {

// A summary has the runners-up of planning alone, and nothing of fusion, which is searched for.
enum class Detail { kSummary, kWhole };
Explanation ExplanationOf(const LoadedPlan& plan, const EngineCore& core, Detail detail,
                          const BufferNames& names);

// What the plan's buffers are called where `chain`, which equals the plan's, names its inputs.
BufferNames NamesIn(const Chain& chain, const LoadedPlan& plan);

// Every plan that was considered and does not run: the runners-up of planning, and what the engine
// passed over, which says why where it knows more.
std::vector<Candidate> NotChosen(const LoadedPlan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_EXPLAIN_H_
