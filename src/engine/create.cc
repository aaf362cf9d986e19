// Engine::Create: the engine on the real planner and the real code generator.
#include <utility>

#include "src/engine/core.h"
#include "src/explain/explain.h"
#include "src/fusion/fusion.h"
#include "src/fusion/replacement.h"
#include "src/normal/normal_form.h"
#include "src/plan/codegen.h"
#include "src/plan/family.h"

namespace sinter {

std::shared_ptr<Engine> Engine::Create(Ports ports, const Config& config, LogSink log) {
  PlanningHooks hooks;
  hooks.normal = NormalFormOf;
  hooks.plan = PlanChain;
  hooks.explain = ExplainFusion;
  hooks.assembly = MakePlanAssembly;
  hooks.replace = ReplaceKernels;
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  hooks.recipe = [](const KernelSpec& spec) { return RecipeOf(spec); };
  hooks.entry = [](const KernelCode& code) { return code.family->Entry(code); };
  hooks.device_headers = DeviceHeadersDigest(DeviceHeaderMap());
  return CreateEngine(std::move(ports), config, std::move(log), std::move(hooks));
}

}  // namespace sinter
