// Engine: turns a chain into a prepared plan, and tunes. Only the engine calls planning, building,
// cache and device in their order. Only Launch is on the launch path.
#ifndef SINTER_SRC_ENGINE_ENGINE_H_
#define SINTER_SRC_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/config.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/chain/chain.h"
#include "src/engine/control.h"
#include "src/plan/plan.h"

namespace sinter {

// PlanUse: what the callers of a plan rely on, whatever its kernels are.

// A value.
struct PlanUse {
  Digest chain;                      // canonical
  std::vector<int32_t> input_order;  // Chain::InputOrder of the caller's chain
  int64_t bucket = 0;
  bool batch_invariant = false;  // of a plan: it is; of a request: the plan must be
  Digest chip;                   // ChipDigest
  int ordinal = -1;              // of the GPU; -1: none, or a test's
  bool launches = false;         // whether there is a GPU
};

// OK when a plan of `given` may take the place of one made for `wanted`; else INVALID_ARGUMENT
// naming the first thing that differs.
absl::Status CheckUse(const PlanUse& wanted, const PlanUse& given);

class CacheTools;
class KnownTimes;
struct Explanation;  // src/explain/explain.h
class RankGroup;
class TuningSet;
struct TuningEntry;

// What an engine is connected to. wiring.cc makes it from a device ordinal or a target's name,
// tests from fakes.
struct Ports {
  std::unique_ptr<Store> store;
  std::unique_ptr<Compiler> compiler;
  std::unique_ptr<Loader>
      loader;  // null: no GPU; prepare works for the target, launch is UNAVAILABLE
  std::unique_ptr<Measurer> measurer;  // null without a GPU
  DeviceModel model;
  std::string no_gpu_reason;  // one line, when loader is null
  std::string device_name;
  std::string driver_name;                  // "CUDA 13.0"; "" without a GPU
  int ordinal = -1;                         // of the GPU; -1 without one
  std::shared_ptr<CacheTools> cache_tools;  // null for a store that has none
  std::shared_ptr<const TuningSet> tuning;  // null: no plan is chosen by measurement
  std::shared_ptr<KnownTimes> known_times;  // null: the engine's own, which no other engine sees
  // The machine code of a stand-in by its name (src/standin/stand_in.h); "" if there is none of
  // that name. Unset: there are no stand-ins.
  std::function<absl::StatusOr<absl::string_view>(absl::string_view name)> stand_ins;
};

// `ordinal` >= 0: that GPU. `target` not empty: the built-in model of that name (or a model file's
// text), no GPU needed.
absl::StatusOr<Ports> MakePorts(const Config& config, int ordinal, absl::string_view target,
                                const LogSink& log);

// Measures the GPU of `ports` for some seconds, and of Hopper its link to another one that it
// reaches, if there is one; nothing else should run on them. Returns the text of a model file,
// which says of each figure whether it was measured or which model it comes from. UNAVAILABLE
// without a GPU.
absl::StatusOr<std::string> MeasureDevice(const Ports& ports, const Config& config);

// Whether a measured choice decides, and whether plans are measured where no choice is kept yet.
struct Measuring {
  enum class Mode : uint8_t {
    kOff,    // prediction decides, or the tuning set
    kKept,   // a measured choice that is kept decides, else prediction
    kFirst,  // the same; where none is kept, candidates are measured first
    // The same, in small pieces while the program works. Errors of measuring are returned.
    kWhileServing
  };
  Mode mode = Mode::kOff;
  int top_k = 11;  // candidates, without the plain plan
  // The time that kFirst measures for, once no other plan is being measured. At its end, the plans
  // that were measured decide.
  int64_t budget_us = 20'000'000;
  // Whether kFirst fails where no choice is kept and none can be measured; else the predicted plan
  // serves. FAILED_PRECONDITION for a chain that is split over ranks, or if times decide nothing;
  // kCacheMiss if it must hit; UNAVAILABLE without a GPU; RESOURCE_EXHAUSTED without memory.
  bool required = false;
};

struct PrepareOptions {
  int64_t deadline_us = 0;  // 0: none. DEADLINE_EXCEEDED; what was finished by then stays cached
  const std::atomic<bool>* cancel = nullptr;                               // true: CANCELLED
  std::function<void(absl::string_view stage, double fraction)> progress;  // any thread
  bool batch_invariant = false;  // a row's bits do not depend on the number of rows
  // A miss is kCacheMiss naming the key, the reason, the nearest entry and what differs.
  bool must_hit = false;
  // A miss is answered at once: by a plan of stand-ins where there can be one, else NOT_FOUND
  // naming the key and the reason. Wins over must_hit.
  bool no_build = false;
  bool verify =
      false;  // check a kernel without a verified mark against the unfused plan, on the GPU
  enum class Choice { kBest, kFused, kUnfused } choice = Choice::kBest;  // for benches and explain
  // Builds only on the calling thread, and takes no stand-in.
  bool background = false;
  // No effect with another choice than kBest, or where a tuning set decides.
  Measuring measuring;
};

struct EngineStats {
#define SINTER_COUNTER(name) uint64_t name = 0;
#include "src/engine/counters.def"
  bool nvrtc_loaded = false;
  double search_us = 0, compile_us = 0;
  double compile_saved_us = 0;  // what compiling the kernels found in the cache took once
  // Time of the unfused plan minus the time of the plan that runs, over all launches; by measured
  // times where both have them, else by predicted ones. Replays of captured graphs are not counted.
  double gpu_time_saved_us = 0;
  uint64_t compiles_in_flight = 0;
  uint64_t stand_ins = 0;  // plans of stand-ins that were handed out
  uint64_t slots_building = 0, slots_measuring = 0;
  uint64_t modules_loaded = 0, module_bytes = 0, modules_unloaded = 0;
  LatencyCounts prepare_times, failed_prepare_times;
  StoreStats store;
};

// The nodes that one AddToGraph made. A value; it does not keep the graph.
struct PlanNodes {
  std::shared_ptr<const void> plan;    // the plan whose kernels they run
  std::shared_ptr<const void> group;   // over whose ranks, if any
  std::vector<GraphNodeHandle> nodes;  // in the order in which they run, one at least
  int64_t passes = 0;                  // runs of the plan's kernels; 0: one node that does nothing
};

// A plan with its kernels loaded. Immutable and thread-safe. It may outlive the engine, but not the
// engine's device.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;
  virtual const Plan& plan() const = 0;
  // Digest of the plan that planning chose, and of the tuning set it was chosen with, if any. It is
  // equal wherever keys are equal. After a fallback (not resident, refused, found wrong) plan() is
  // the plan that runs instead.
  virtual Digest ChosenDigest() const { return plan().PlanDigest(); }
  virtual PlanUse Use() const = 0;
  virtual std::string Explain() const = 0;    // plan, drawings, search, cache, what lost and why
  virtual std::string Summary() const = 0;    // the same in a few lines
  virtual Explanation Explained() const = 0;  // all of it as data (src/explain)
  virtual std::string Svg() const = 0;        // the drawings as one document
  virtual std::string SourceOf(int kernel) const = 0;  // generated source, regenerated on demand
  // The most rows that a launch takes, in one pass or several; 0 of a chain without M.
  virtual int64_t MostRows() const = 0;
  virtual uint64_t WorkspaceBytes() const = 0;
  virtual absl::Status InitWorkspace(DevicePtr workspace, uint64_t bytes,
                                     StreamHandle stream) const = 0;
  // `buffers` in the caller's order: inputs as added to the chain, then outputs as declared;
  // aligned to 16 bytes, the workspace to 128. INVALID_ARGUMENT naming the buffer otherwise.
  // `no_rows`: for launches with m = 0 alone; buffers of rows may be null then.
  // FAILED_PRECONDITION for a chain that is split over ranks, which BindGroup takes.
  virtual absl::StatusOr<std::shared_ptr<const class PlanBinding>> Bind(
      const std::vector<DevicePtr>& buffers, DevicePtr workspace, bool no_rows = false) const = 0;
  // Binds a chain that is split over the ranks of `group`. The first time that the group meets the
  // plan, the call is collective: all ranks bind their plans in one order, and FAILED_PRECONDITION
  // where they differ. Launches then fail once the group has ended or is closed. An error passed
  // instead of `buffers` is returned once the ranks agree, as an error of Bind is: no rank waits
  // for this one.
  virtual absl::StatusOr<std::shared_ptr<const class PlanBinding>> BindGroup(
      const absl::StatusOr<std::vector<DevicePtr>>& /*buffers*/, DevicePtr /*workspace*/,
      std::shared_ptr<RankGroup>) const {
    return absl::UnimplementedError("this plan takes no group");
  }
  // Enqueues only. During capture the graph keeps the plan alive. `binding` is one of this plan.
  // `pdl_edge`: the plan may start while the work before it on the stream ends. A chain without M
  // ignores m. m = 0 writes the outputs without M and nothing else. OUT_OF_RANGE for m below 0 or
  // above MostRows().
  virtual absl::Status Launch(const PlanBinding& binding, StreamHandle stream, int64_t m,
                              bool pdl_edge) const = 0;
  // Adds what Launch would enqueue as nodes of `graph` after `edges`. The graph, and graphs made
  // from it, keep the plan and its group alive. On failure the graph has no new node.
  virtual absl::StatusOr<PlanNodes> AddToGraph(const PlanBinding& binding, GraphHandle graph,
                                               NodeEdges edges, int64_t m) const = 0;
  // Gives `nodes`, in an instance of their graph, the buffers of `binding`, which is one of this
  // plan, and `m` rows. FAILED_PRECONDITION if the graph must be rebuilt: `nodes` belong to another
  // plan or group, or `m` rows take another number of passes.
  virtual absl::Status UpdateInGraph(const PlanNodes& nodes, GraphExecHandle exec,
                                     const PlanBinding& binding, int64_t m) const = 0;
};

// What a prepare would choose, by prediction or by what was measured. Nothing of it is built: a
// prepare runs another plan where a compiler or a GPU refuses a kernel.
struct SearchedPlan {
  Plan plan;
  double unfused_us = 0;  // predicted, of the plain plan; 0 if it is not known
  bool measured = false;  // a tuning set or a measured choice named the plan
};

class PlanBinding {
 public:
  virtual ~PlanBinding() = default;
};

// How plans are timed.
struct TuneProtocol {
  int replays = 15;          // of a plan's graph at a time, at most
  int rounds = 7;            // of the fastest, in turns
  bool swap_kernels = true;  // kernels of near plans take one another's schedules
  // Only times in turns decide, and a plan beats the predicted choice only if it is faster in all
  // rounds but one.
  bool only_in_turns = false;
};

struct TuneOptions {
  int64_t deadline_us = 0;  // 0: none. At the deadline, what was measured decides
  int top_k = 11;
  double switch_margin = 0.02;  // a measured choice beats the predicted one by this fraction
  bool batch_invariant = false;
  TuneProtocol protocol;
  // If it has an entry that can still be used, that is the result and nothing is measured. Null:
  // measure.
  std::shared_ptr<const TuningSet> keep;
};

struct TuneResult {
  std::string report;  // a table for people
  std::shared_ptr<const TuningEntry> entry;
  bool predicted = false;  // the entry is of the plan that prediction chose
};

// What happened to a slot, a place for the best plan so far, that had no plan when it was made.
enum class SlotStep : uint8_t {
  kBuildBegun,
  kBuildEnded,   // however it ended
  kBuildFailed,  // reported after kBuildEnded
  kUpgraded      // the slot took a plan that was built or offered
};

// Thread-safe. One building thread per key; others wait for its result.
class Engine {
 public:
  static std::shared_ptr<Engine> Create(Ports ports, const Config& config, LogSink log);
  virtual ~Engine() = default;
  virtual absl::StatusOr<std::shared_ptr<const PreparedPlan>> Prepare(
      const Chain& chain, int64_t m, const PrepareOptions& options) = 0;
  // What such a prepare would choose. A plan of the cache, else one that is searched for, which a
  // prepare of this engine then does not do again. Compiles nothing and asks no GPU; `verify`,
  // `background` and a measuring that is not kept have no effect.
  virtual absl::StatusOr<SearchedPlan> Search(const Chain& chain, int64_t m,
                                              const PrepareOptions& options) = 0;
  // Builds and measures the best of the ranking. Each is checked against the unfused plan, and the
  // winner against the reference. No plan changes: the entry takes effect in a tuning set that
  // holds it.
  virtual absl::StatusOr<TuneResult> Tune(const Chain& chain, int64_t m,
                                          const TuneOptions& options) = 0;
  // The use of a plan that Prepare gives for these arguments.
  virtual PlanUse UseFor(const Chain& chain, int64_t m, bool batch_invariant) const = 0;
  // Whether such a prepare takes a measured choice that is kept: it asks for that, no tuning set
  // decides instead, and the caller leaves the choice open. With `now`, whether plans may also be
  // measured here: on a GPU, unless misses must not be built.
  virtual bool Measures(const PrepareOptions& options, bool now) const = 0;
  virtual EngineStats Stats() const = 0;
  // Counts the step; a failure is logged with `why`. `plan` is the slot's plan, null while it has
  // none.
  virtual void NoteSlot(SlotStep step, const PreparedPlan* plan, absl::string_view why) = 0;
  // Calls `callback` for every event from now on, on the thread where it happens. Once:
  // ALREADY_EXISTS.
  virtual absl::Status TellEvents(std::function<void(const EngineEvent&)> callback) = 0;
  // From now on kernels of these toolchains are misses, and such a compiler compiles nothing; plans
  // already held stay. INVALID_ARGUMENT as ToolchainDenyList::Add.
  virtual absl::Status DenyToolchains(absl::string_view entries) = 0;
  virtual const Ports& ports() const = 0;
  // Writes the trace so far into its file, if a trace was asked for. Failures are logged.
  virtual void WriteTraceNow() const noexcept = 0;
  // OK when a record, from any tier, is what its key says, as far as a look-up would check: a plan
  // fits its chain, a kernel belongs to its key. Otherwise says why not; FAILED_PRECONDITION also
  // where only another library version or device model can tell. Slow: nothing is remembered.
  virtual absl::Status CheckStored(RecordKind kind, absl::string_view key,
                                   absl::string_view payload) const = 0;
  // An error with code kStreamCapturing when `stream` captures. OK for a null stream that does not
  // capture, and without a GPU.
  virtual absl::Status RefuseDuringCapture(StreamHandle stream) const = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ENGINE_H_
