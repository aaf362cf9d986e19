// DeviceTensors: a chain's inputs, outputs and workspaces on the device, and plans bound to them.
#pragma once

#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/engine/verify.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type

// A plan bound to a chain's buffers and to a workspace.
struct BoundRun {
  std::function<absl::Status(StreamHandle, int64_t m, bool pdl)> launch;
  DeviceBuffer workspace;  // {0, 0} when the plan needs none
  // The plan as nodes of a graph, which BindOver leaves empty.
  std::function<absl::StatusOr<PlanNodes>(GraphHandle, NodeEdges, int64_t m)> add;
  std::function<absl::Status(const PlanNodes&, GraphExecHandle, int64_t m)> update;
};

// Every buffer lies between poison, so that a read outside it spoils the result. One thread. The
// ports outlive it.
class DeviceTensors {
 public:
  // `inputs`: canonical, for M up to `rows`. Each output has room for as many rows, followed by a
  // guard.
  static absl::StatusOr<std::unique_ptr<DeviceTensors>> Make(const Ports& ports, const Chain& chain,
                                                             int64_t rows,
                                                             std::vector<std::string> inputs);

  const Chain& chain() const { return chain_; }
  int64_t rows() const { return rows_; }
  const std::vector<std::string>& inputs() const { return inputs_; }  // canonical
  DeviceBuffer input_buffer(int canonical) const { return buffers_[canonical]; }
  DeviceBuffer output_buffer(int output = 0) const { return buffers_[inputs_.size() + output]; }

  // With a workspace of its own, all poison but the header, which is initialised here.
  absl::StatusOr<BoundRun> Bind(std::shared_ptr<const PreparedPlan> plan);
  absl::StatusOr<BoundRun> Bind(LoadedPlanPtr plan);
  // The output takes the place of an input (canonical) of its extents and strides.
  absl::StatusOr<BoundRun> BindOver(LoadedPlanPtr plan, int input);
  // On a workspace that the caller has initialised.
  absl::StatusOr<BoundRun> BindOn(std::shared_ptr<const PreparedPlan> plan, DeviceBuffer workspace);
  absl::StatusOr<DeviceBuffer> MakeWorkspace(uint64_t bytes);  // all poison

  // Poisons the outputs and the workspace past its header.
  absl::Status Poison(const BoundRun& run);
  // Poison, one launch, wait; the whole buffer of the first output, or of each, with its guard.
  absl::StatusOr<std::string> Run(const BoundRun& run, int64_t m, bool pdl = false);
  absl::StatusOr<std::vector<std::string>> RunAll(const BoundRun& run, int64_t m);
  absl::StatusOr<std::string> DownloadOutput(int output = 0);
  absl::StatusOr<std::vector<std::string>> DownloadOutputs();
  // Other bytes for an input (canonical), which inputs() does not have.
  absl::Status Replace(int input, const std::string& bytes);
  // For a plan that BindOver bound: restores the input, launches once, waits; returns the whole
  // buffer of the input.
  absl::StatusOr<std::string> RunOver(const BoundRun& run, int input, int64_t m);

  // OK when nothing outside the buffers and workspaces was written, ever.
  absl::Status CheckSurroundings();
  // OK when nothing of an output's `bytes` from byte `begin` on was written.
  static absl::Status CheckGuard(const std::string& bytes, size_t begin);

 protected:
  DeviceTensors(const Ports& ports, const Chain& chain, int64_t rows);
  absl::Status Upload(std::vector<std::string> inputs);

 private:
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes);  // all poison
  std::vector<DevicePtr> Pointers() const;
  absl::StatusOr<DeviceBuffer> HeadedWorkspace(const LoadedPlan& plan);
  absl::Status LaunchOnce(const BoundRun& run, int64_t m, bool pdl = false);

  const Ports& ports_;
  Measurer* const measurer_;
  const Chain chain_;
  const int64_t rows_;
  DeviceArena arena_;
  std::vector<std::string> inputs_;
  std::vector<DeviceBuffer> buffers_;    // canonical inputs, then the outputs
  std::vector<DeviceBuffer> allocated_;  // these, and workspaces
};

}  // namespace sinter::gpu_testing
