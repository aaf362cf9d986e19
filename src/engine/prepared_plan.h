// PreparedPlan over a LoadedPlan: the caller's buffer order on top of the canonical one.
#ifndef SINTER_SRC_ENGINE_PREPARED_PLAN_H_
#define SINTER_SRC_ENGINE_PREPARED_PLAN_H_

#include <memory>

#include "src/chain/chain.h"
#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

// `chain` is the caller's: equal in canonical form to the plan's, with its own order of inputs.
std::shared_ptr<const PreparedPlan> MakePreparedPlan(std::shared_ptr<EngineCore> core,
                                                     LoadedPlanPtr plan, const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PREPARED_PLAN_H_
