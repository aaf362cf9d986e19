// MeasuredChoices: measures plans for slots while a program serves, and stores the choice.
#ifndef SINTER_SRC_ENGINE_MEASURED_CHOICE_H_
#define SINTER_SRC_ENGINE_MEASURED_CHOICE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/keep_going.h"
#include "src/base/ports.h"
#include "src/engine/core.h"
#include "src/engine/plan_builder.h"
#include "src/engine/tune.h"

namespace sinter {

// Thread-safe. Measure one plan at a time, since each measurement takes its share of the GPU.
class MeasuredChoices {
 public:
  // `plans` and `tuner` outlive it.
  MeasuredChoices(std::shared_ptr<EngineCore> core, PlanBuilder* plans, Tuner* tuner)
      : core_(std::move(core)), plans_(plans), tuner_(tuner) {}

  // OK once the store has a plan for `request` with `measured` set, either found there or measured
  // now. The predicted choice, the next two plans and the plain one are timed and checked as in
  // tuning, at the pace of a PacedMeasurer; the predicted choice is stored too if it stays the
  // choice. One process measures; others that share the store wait for it. RESOURCE_EXHAUSTED,
  // FAILED_PRECONDITION, errors of tuning. Failures are counted, except when `control` ends a wait.
  absl::Status Measure(const PlanRequest& request, const BuildControl& control);

 private:
  bool IsKept(const PlanRequest& measured, const BuildControl& control);
  absl::Status MeasureNow(const PlanRequest& request, const PlanRequest& measured,
                          const BuildControl& control);

  const std::shared_ptr<EngineCore> core_;
  PlanBuilder* const plans_;
  Tuner* const tuner_;
};

// Thread-safe. Self-checks, tuning and the caller's own measuring share one device, so calls wait
// for one another. What is enqueued inside TimeGraph and RunAndWait must not call the measurer.
// Null gives null.
std::unique_ptr<Measurer> MakeSerialMeasurer(std::unique_ptr<Measurer> inner);

// PacedMeasurer: measures beside a program that serves, in short pieces with long pauses.

struct GpuShare {
  double share = 0.02;   // of the time, in which the GPU may work for the measurer
  double slice_us = 50;  // of GPU work at a time, unless one call takes longer
  // Called in place of sleeping so many microseconds.
  std::function<void(double us)> sleep;
};

// One thread. It pauses after each piece of work, so that it uses no more than its share of the
// GPU's time; other work waits for one piece at most. Errors are those of `inner` and of
// `keep_going`, which is asked before each piece and during pauses.
class PacedMeasurer : public Measurer {
 public:
  // `keep_going` outlives it.
  PacedMeasurer(std::unique_ptr<Measurer> inner, GpuShare share, const KeepGoing* keep_going);
  ~PacedMeasurer() override;

  // Free keeps the buffer and Allocate reuses it where it fits; the destructor frees all. The
  // driver would wait for all work of the device at each free.
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override;
  void Free(DeviceBuffer buffer) override;
  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override;
  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override;
  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override;
  // Times graphs of as many calls as a slice has time for, of the first 16 calls, and returns the
  // lower quartile: work beside a slice makes it longer, never shorter.
  absl::StatusOr<double> TimeGraph(const GraphCalls& calls, int count, int replays) override;
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override;

 private:
  // Runs a piece, which keeps the GPU for at most `most_us`.
  absl::Status Run(double most_us, const std::function<absl::Status()>& piece);
  absl::StatusOr<double> Replay(TimedGraph& graph);
  absl::Status Rest(double busy_us);

  const std::unique_ptr<Measurer> inner_;
  const GpuShare share_;
  const KeepGoing* const keep_going_;
  std::vector<DeviceBuffer> kept_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_MEASURED_CHOICE_H_
