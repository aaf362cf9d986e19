// MeasuredChoices: measures plans, before a prepare ends or while a program serves, and stores the
// choice.
#ifndef SINTER_SRC_ENGINE_MEASURED_CHOICE_H_
#define SINTER_SRC_ENGINE_MEASURED_CHOICE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/keep_going.h"
#include "src/base/ports.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/plan_builder.h"
#include "src/engine/tune.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"

namespace sinter {

// Whether a measured record serves a request. The cache, packs and tuning sets hold one form of it
// (MeasuredChoice of keys.h), and one rule decides: its kernels are still the measured ones.

TuningKey TuningKeyOf(const PlanRequest& request, const EngineCore& core);

// An entry for `taken`, a plan of `ranked` or of its kernels, measured on the engine's device.
// `choice` has the figures; kernels and device are filled in. The predicted choice becomes the
// record's first alternative. An error if a kernel cannot be generated.
absl::StatusOr<TuningEntry> MakeTuningEntry(const PlanRequest& request, const EngineCore& core,
                                            FusionResult ranked, Plan taken, MeasuredChoice choice);

// FAILED_PRECONDITION unless every kernel of the record's first plan is still the one that was
// measured (KernelIdentity): figures say nothing about a changed kernel, which nobody measured or
// verified.
absl::Status CheckKernels(const PlanRecord& record, const EngineCore& core);

// The measured record in `bytes`, with all its plans. An error with the reason unless it has this
// format, its plans are of the request's chain, and CheckKernels holds.
absl::StatusOr<PlanRecord> UsableChoice(absl::string_view bytes, const PlanRequest& request,
                                        const BuildControl& control, const EngineCore& core);

// Why the engine's tuning set does not choose the request's plan; "" if it may, or without a set.
std::string WhySetIsPassedOver(const PlanRequest& request, EngineCore& core);

// KernelIdentity: whether two generated kernels are the same kernel, even if different library
// versions made them.

// SHA-256 of what the compiler reads (the source and the headers it includes, in that order), the
// options, the arch, and the launch: rows, schedule with its grid, and recipe of `spec`, from which
// `kernel` was generated. The compiler itself is not part of it. Names of headers, comments,
// indentation, empty lines and headers that are not included may change.
Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel);

// Thread-safe. Plans that are measured at full speed take turns in a process. Measure one
// plan at a time while serving, since each measurement takes its share of the GPU.
class MeasuredChoices {
 public:
  // `plans` and `tuner` outlive it.
  MeasuredChoices(std::shared_ptr<EngineCore> core, PlanBuilder* plans, Tuner* tuner)
      : core_(std::move(core)), plans_(plans), tuner_(tuner) {}

  // OK once the store has a plan for `request` with `measured` set, either found there or measured
  // now, as `how` says (not kOff, not kKept). The best `how.top_k` plans by prediction and the
  // plain one are timed and checked as in tuning; while serving, at the pace of a PacedMeasurer.
  // The predicted choice is stored too if it stays the choice. One process measures a plan; others
  // that share the store wait for it. RESOURCE_EXHAUSTED, FAILED_PRECONDITION, errors of tuning.
  // Failures are counted, except when `control` ends a wait.
  absl::Status Measure(const PlanRequest& request, const Measuring& how,
                       const BuildControl& control);

 private:
  class Turn;
  bool IsKept(const PlanRequest& measured, const BuildControl& control);
  absl::Status MeasureNow(const PlanRequest& request, const PlanRequest& measured,
                          const Measuring& how, const BuildControl& control);
  absl::StatusOr<TuneResult> TuneFirst(const PlanRequest& request, const Measuring& how,
                                       const BuildControl& control);
  absl::StatusOr<TuneResult> TuneWhileServing(const PlanRequest& request, const Measuring& how,
                                              const BuildControl& control);

  const std::shared_ptr<EngineCore> core_;
  PlanBuilder* const plans_;
  Tuner* const tuner_;
  ForkLocal<bool, /*kKeep=*/false> busy_;  // whether a plan is being measured at full speed
};

// Thread-safe. Self-checks, tuning and the caller's own measuring share one device, so calls wait
// for one another. The work enqueued inside TimeGraph and RunAndWait must not call the measurer.
// Null gives null.
std::unique_ptr<Measurer> MakeSerialMeasurer(std::unique_ptr<Measurer> inner);

// PacedMeasurer: measures next to a program that serves, in short pieces with long pauses.

struct GpuShare {
  double share = 0.02;   // of the time, in which the GPU may work for the measurer
  double slice_us = 50;  // of GPU work at a time, unless one call takes longer
  // Called in place of sleeping so many microseconds.
  std::function<void(double us)> sleep;
};

// One thread. It pauses after each piece of work, so that it uses no more than its share of the
// GPU's time; other work waits for one piece at most. Returns the errors of `inner` and of
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
  // lower quartile: other work during a slice makes it longer, never shorter.
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
