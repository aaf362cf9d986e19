// Rotation: copies of a chain's constants, so that repeated runs read them from memory as a model's
// layers do; of a chain without products, whose inputs and outputs are what it moves, copies of
// all.
#ifndef SINTER_SRC_ENGINE_ROTATION_H_
#define SINTER_SRC_ENGINE_ROTATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/bound_plan.h"
#include "src/engine/device_arena.h"
#include "src/engine/verify.h"

namespace sinter {

// How many sets of `set_bytes` hold more than any second-level cache here: above 240 MB, four times
// the largest. Bounded: below 15 KB a chain is launch time and little else.
int RotationSets(uint64_t set_bytes);

// One thread. The verifier, whose data set is the first of the rotation, outlives it.
class Rotation {
 public:
  static absl::StatusOr<std::unique_ptr<Rotation>> Make(Measurer* measurer, const Chain& chain,
                                                        const Verifier& data);

  // The plan bound to every set, with one cleared workspace of its own that lives as long as the
  // rotation.
  absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Bind(const LoadedPlanPtr& plan,
                                                                     Loader& loader);

 private:
  // What rotates of one set, each buffer aligned. An output needs no contents: each has a buffer of
  // its own, also where it might share an input's.
  struct Layout {
    std::string inputs;
    uint64_t output_bytes = 0;
    size_t num_inputs = 0;         // buffers of the chain
    std::vector<int64_t> offsets;  // of each buffer, among the inputs or outputs; -1: stays
  };

  explicit Rotation(Measurer* measurer) : measurer_(measurer), arena_(measurer) {}
  absl::Status AddSets(int count, const Layout& layout);
  absl::Status UploadInputs(DevicePtr to, uint64_t total, const std::string& inputs);

  Measurer* const measurer_;
  DeviceArena arena_;
  std::vector<std::vector<DevicePtr>> sets_;  // canonical order, inputs then outputs
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ROTATION_H_
