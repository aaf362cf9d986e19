// Makes an explanation (src/explain) of a prepared plan.
#ifndef SINTER_SRC_ENGINE_EXPLAIN_H_
#define SINTER_SRC_ENGINE_EXPLAIN_H_

#include <vector>

#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"
#include "src/explain/explain.h"

namespace sinter {

// A summary has only planning's runners-up, and nothing about fusion, which would need a search.
enum class Detail { kSummary, kWhole };
Explanation ExplanationOf(const LoadedPlan& plan, const EngineCore& core, Detail detail,
                          const BufferNames& names);

// Names of the plan's buffers, from the inputs that `chain`, equal to the plan's, names.
BufferNames NamesIn(const Chain& chain, const LoadedPlan& plan);

// Every plan that was considered and does not run: planning's runners-up, and what the engine
// passed over. The engine's reason is given where it knows more.
std::vector<Candidate> NotChosen(const LoadedPlan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_EXPLAIN_H_
