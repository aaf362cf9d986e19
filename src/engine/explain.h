// Explain: what is known of a prepared plan, for people and for tools.
#ifndef SINTER_SRC_ENGINE_EXPLAIN_H_
#define SINTER_SRC_ENGINE_EXPLAIN_H_

#include <string>
#include <vector>

#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {

// The plan on one screen: drawings, bytes and time per level, where each kernel came from; below it
// the best plans that were not chosen, each once and with the reason. `picture` is what the planner
// tells of stitch kernels.
std::string ExplainPlan(const LoadedPlan& plan, const Ports& ports,
                        const FusionPicture& picture = {});

// The plan in a few lines: schedules, times, search, where each kernel came from.
std::string SummarizePlan(const LoadedPlan& plan, const Ports& ports);

// The same as JSON (ReportJson), with every plan that was not chosen and the source of each
// constant of the device model.
std::string ExplainJson(const LoadedPlan& plan, const Ports& ports,
                        const FusionPicture& picture = {});

// The same as a drawing (PlanSvg).
std::string ExplainSvg(const LoadedPlan& plan, const FusionPicture& picture);

// Every plan that was considered and does not run: the runners-up of planning, and what the engine
// passed over, which says why where it knows more.
std::vector<Candidate> NotChosen(const LoadedPlan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_EXPLAIN_H_
