// Rotation: copies of a chain's constants, so that repeated runs read them from memory, as the
// layers of a model do. A chain without products mostly moves its inputs and outputs, so all its
// buffers are copied.
#ifndef SINTER_SRC_ENGINE_ROTATION_H_
#define SINTER_SRC_ENGINE_ROTATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/bound_plan.h"
#include "src/engine/device_arena.h"
#include "src/engine/verify.h"

namespace sinter {

// How many sets of `set_bytes` exceed 240 MB, four times the largest second-level cache here.
// Bounded: a chain of less than 15 KB is mostly launch time anyway.
int RotationSets(uint64_t set_bytes);

// One thread. The first set of the rotation is the verifier's data; the verifier outlives the
// rotation.
class Rotation {
 public:
  static absl::StatusOr<std::unique_ptr<Rotation>> Make(Measurer* measurer, const Chain& chain,
                                                        const Verifier& data);

  // Binds the plan to every set, with one cleared workspace for all, which lives as long as the
  // rotation.
  absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Bind(const LoadedPlanPtr& plan,
                                                                     Loader& loader);

 private:
  // Where one set's rotating buffers lie, each aligned. An output needs no contents; each has its
  // own buffer, even where it might share an input's.
  struct Layout {
    std::string inputs;
    uint64_t output_bytes = 0;
    size_t num_inputs = 0;         // buffers of the chain
    std::vector<int64_t> offsets;  // among the inputs or outputs; -1: does not rotate
  };

  explicit Rotation(Measurer* measurer) : measurer_(measurer), arena_(measurer) {}
  absl::Status AddSets(int count, const Layout& layout);
  absl::Status UploadInputs(DevicePtr to, uint64_t total, const std::string& inputs);

  Measurer* const measurer_;
  DeviceArena arena_;
  std::vector<std::vector<DevicePtr>> sets_;  // canonical order, inputs then outputs
};

// For each of `count` things, the median of its times in `rounds` rounds. A round times each thing
// once, one right after the other. The order matters: a GPU that was idle first runs above the
// clock that its power limit allows, and under load its clock wanders for seconds, so that things
// timed one by one would differ by when they were timed. Errors are those of `time`. Once `go_on`
// is false, the rounds done so far count; empty if there is none.
absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on = [] { return true; });

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ROTATION_H_
