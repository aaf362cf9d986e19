// Rotation: copies of a chain's constants, so that repeated runs read them from memory as a model's
// layers do.
#ifndef SINTER_SRC_ENGINE_ROTATION_H_
#define SINTER_SRC_ENGINE_ROTATION_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/bound_plan.h"
#include "src/engine/device_arena.h"
#include "src/engine/verify.h"

namespace sinter {

// One thread. The verifier, whose data set is the first of the rotation, outlives it.
class Rotation {
 public:
  // As many sets as hold more constants than any second-level cache here.
  static absl::StatusOr<std::unique_ptr<Rotation>> Make(Measurer* measurer, const Chain& chain,
                                                        const Verifier& data);

  // The plan bound to every set, with one cleared workspace of its own that lives as long as the
  // rotation.
  absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Bind(const LoadedPlanPtr& plan,
                                                                     Loader& loader);

 private:
  explicit Rotation(Measurer* measurer) : measurer_(measurer), arena_(measurer) {}
  absl::Status AddSet(const Chain& chain, const Verifier& data);

  Measurer* const measurer_;
  DeviceArena arena_;
  std::vector<std::vector<DevicePtr>> sets_;  // canonical order, inputs then outputs
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ROTATION_H_
