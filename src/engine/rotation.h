// Rotation: copies of a chain's constants, so that repeated runs read them from memory as a model's
// layers do; of a chain without products, whose inputs and outputs are what it moves, copies of
// all.
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

// Median of `rounds` times of each of `count` things: each round times every one once, one right
// behind the other. A GPU that comes from idling runs above the clock that its power limit allows,
// and under load its clock wanders for seconds: what is timed by itself shows when it was timed,
// in turns all see the same. Errors are `time`'s. Empty when `go_on` was false before the first
// round was over; later ends what rounds there are.
absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on = [] { return true; });

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ROTATION_H_
