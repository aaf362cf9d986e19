// PreparedPlan over a LoadedPlan: maps the caller's order of buffers to the canonical one.
#ifndef SINTER_SRC_ENGINE_PREPARED_PLAN_H_
#define SINTER_SRC_ENGINE_PREPARED_PLAN_H_

#include <memory>

#include "src/chain/chain.h"
#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

// `chain` is the caller's: its canonical form equals the plan's, its order of inputs may differ.
std::shared_ptr<const PreparedPlan> MakePreparedPlan(std::shared_ptr<EngineCore> core,
                                                     LoadedPlanPtr plan, const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PREPARED_PLAN_H_
