// PreparedPlan over a LoadedPlan: maps the caller's order of buffers to the canonical one. What is
// told of a loaded plan, as src/explain has it.
#ifndef SINTER_SRC_ENGINE_PREPARED_PLAN_H_
#define SINTER_SRC_ENGINE_PREPARED_PLAN_H_

#include <memory>
#include <vector>

#include "src/chain/chain.h"
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

// `chain` is the caller's: its canonical form equals the plan's, its order of inputs may differ.
std::shared_ptr<const PreparedPlan> MakePreparedPlan(std::shared_ptr<EngineCore> core,
                                                     LoadedPlanPtr plan, const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PREPARED_PLAN_H_
