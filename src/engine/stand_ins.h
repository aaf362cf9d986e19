// StandIns: a plan of kernels that come with the library, for a prepare that must not wait for a
// compiler or has none.
#ifndef SINTER_SRC_ENGINE_STAND_INS_H_
#define SINTER_SRC_ENGINE_STAND_INS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/engine/assembler.h"

namespace sinter {

// Thread-safe. Nothing is stored: planning it again takes some milliseconds. Plans and kernels that
// are alive are shared.
class StandIns {
 public:
  // `assembler` outlives it.
  StandIns(std::shared_ptr<EngineCore> core, PlanAssembler* assembler)
      : core_(std::move(core)), assembler_(assembler) {}

  // `why`: what the caller would have waited for. Precondition: there are a loader and stand-ins.
  // kNoLegalPlan naming what stand-ins cannot take; errors of the loader.
  absl::StatusOr<LoadedPlanPtr> Get(const PlanRequest& request, absl::string_view why,
                                    const BuildControl& control);

 private:
  absl::StatusOr<LoadedPlanPtr> Make(const PlanRequest& request, absl::string_view why,
                                     const BuildControl& control);
  absl::StatusOr<BuiltKernelPtr> Load(const KernelSpec& spec, LaunchRecipe* recipe,
                                      const BuildControl& control);

  const std::shared_ptr<EngineCore> core_;
  PlanAssembler* const assembler_;
  WeakCache<LoadedPlan> plans_;
  WeakCache<BuiltKernel> kernels_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_STAND_INS_H_
