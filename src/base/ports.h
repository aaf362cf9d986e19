// Ports: the four interfaces between the engine and the world. runtime/ and cache/ implement them,
// tests fake them, only src/engine/wiring.cc plugs them together.
#ifndef SINTER_SRC_BASE_PORTS_H_
#define SINTER_SRC_BASE_PORTS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "src/base/codec.h"
#include "src/base/compile_request.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/base/keep_going.h"
#include "src/base/latency.h"
#include "src/base/launch_recipe.h"

namespace sinter {

// ---------------------------------------------------------------- Store
enum class RecordKind : uint8_t { kPlan = 1, kKernel = 2 };

// Why a lookup missed; counted per reason.
enum class MissReason : uint8_t {
  kAbsent = 0,
  kDamaged,
  kForeignArch,
  kOtherFormat,
  kOtherToolchain,
  kRefusedOwner,
  kQuarantined,
  kDisabled,
  kIoError,
  kRemoteDown,
  kCount
};
inline absl::string_view NameOf(MissReason reason) {
  constexpr const char* kNames[] = {
      "absent",        "damaged",     "foreign_arch", "other_format", "other_toolchain",
      "refused_owner", "quarantined", "disabled",     "io_error",     "remote_down"};
  static_assert(std::size(kNames) == static_cast<size_t>(MissReason::kCount), "a name each");
  return reason < MissReason::kCount ? kNames[static_cast<size_t>(reason)] : "invalid";
}

// Lookups and puts of one kind of record.
struct KindStats {
  // A hit of the local tier on a record that this process prefetched counts only as prefetched.
  uint64_t memory_hits = 0, local_hits = 0, prefetched_hits = 0, pack_hits = 0, remote_hits = 0;
  uint64_t misses[static_cast<int>(MissReason::kCount)] = {};
  uint64_t puts = 0;
  uint64_t hit_bytes = 0, put_bytes = 0;  // of payloads
  LatencyCounts lookups;
  uint64_t stored = 0, stored_bytes = 0;  // in the local tier, at the last count
};

struct StoreStats {
  const KindStats& Of(RecordKind kind) const { return kind == RecordKind::kPlan ? plans : kernels; }
  KindStats plans, kernels;
  bool counted = false;         // whether the records of the local tier were counted
  uint64_t prefetched = 0;      // records that this process fetched before anyone asked
  uint64_t remote_skipped = 0;  // questions not asked while the remote store was given up
  uint64_t remote_withdrawn = 0;
  // Sums over both kinds; local_hits has prefetched ones too.
  uint64_t memory_hits = 0, local_hits = 0, puts = 0, put_failures = 0, quarantined = 0;
  uint64_t misses[static_cast<int>(MissReason::kCount)] = {};
  uint64_t puts_dropped = 0;  // the queue of pending writes was full
  uint64_t evicted = 0;       // records removed to keep the local tier under its cap
  uint64_t pack_hits = 0;     // of all packs
  uint64_t packs_open = 0, packs_refused = 0;
  uint64_t remote_hits = 0, remote_puts = 0;
  uint64_t remote_errors = 0;  // failed or late answers, and values that nobody trusted wrote
  uint64_t remote_opened = 0;  // times the breaker opened
};

struct Lookup {
  bool hit = false;
  SharedBytes payload;                      // on a hit: exactly the bytes that were put
  MissReason reason = MissReason::kAbsent;  // on a miss
  std::string detail;     // on a miss other than absent: file and cause, for the log
  const char* tier = "";  // "memory", "local", "pack", "remote"

  static Lookup Miss(MissReason reason, std::string detail) {
    Lookup lookup;
    lookup.reason = reason;
    lookup.detail = std::move(detail);
    return lookup;
  }
};

// Key-value store of verified records. Thread-safe. No method fails: damage and I/O trouble are
// counted misses.
class Store {
 public:
  virtual ~Store() = default;
  // `key` is the full canonical key (not its digest): it is echoed in the envelope and compared
  // byte for byte.
  virtual Lookup Get(RecordKind kind, absl::string_view key) = 0;
  virtual void Put(RecordKind kind, absl::string_view key, absl::string_view payload) = 0;
  // Moves the entry aside with `why` (a wrong kernel: device, seed, error). It is a kQuarantined
  // miss from then on.
  virtual void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) = 0;
  // Single flight across processes: returns once this process may build `key`, or `budget_us`
  // passed. The caller looks up again afterwards. The lock is released when the returned handle
  // dies; losing it costs a duplicate build only.
  virtual std::shared_ptr<void> LockForBuild(RecordKind kind, absl::string_view key,
                                             int64_t budget_us) = 0;
  virtual StoreStats Stats() const = 0;
  // Says that the record is in use although nobody looked it up, so that it counts as used.
  virtual void Used(RecordKind /*kind*/, absl::string_view /*key*/) {}
  // For the error of a look-up that had to hit: the entry nearest to `key` and what differs; ""
  // when nothing is near. Slow.
  virtual std::string ExplainMiss(RecordKind kind, absl::string_view key) { return std::string(); }
};

// ---------------------------------------------------------------- Compiler
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Opens the compiler library at the first call. UNAVAILABLE when there is none; kCompileFailed
  // with the log attached when the source is refused, spills, or draws a C75xx remark. Soon after
  // the status of `keep_going` (may be null) is no longer OK, the call returns that status.
  // Thread-safe.
  virtual absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request,
                                                 const KeepGoing* keep_going) = 0;
  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request) {
    return Compile(request, nullptr);
  }
  // NVRTC version and the ELF build id of the library file; opens the library. Part of the kernel
  // key.
  virtual absl::StatusOr<std::string> ToolchainId() = 0;
  // The ELF build id that ToolchainId() would name, read from the library file without loading it;
  // "" when it cannot be read. A warm start notices by it that the compiler was replaced.
  virtual std::string PeekBuildId() { return std::string(); }
  virtual bool Loaded() const = 0;  // whether the library was opened
  virtual uint64_t Compiles() const = 0;
};

// ---------------------------------------------------------------- Loader
// A device pointer or handle of the driver, as an integer: no CUDA type crosses a port.
using DevicePtr = uint64_t;
using StreamHandle = void*;     // CUstream
using GraphHandle = void*;      // CUgraph
using GraphNodeHandle = void*;  // CUgraphNode
using GraphExecHandle = void*;  // CUgraphExec

struct BufferList {
  const DevicePtr* pointers = nullptr;  // inputs then outputs, canonical order of the plan
  int count = 0;
  DevicePtr workspace = 0;
  DevicePtr room = 0;  // of the rank's group; 0: no kernel takes one
  uint64_t plan = 0;   // equal on ranks that run the same plan
};

// The edges of a new graph node: the nodes that it depends on, and their kind.
struct NodeEdges {
  std::vector<GraphNodeHandle> from;
  // The node may start while the kernels that it depends on are ending. Only for a kernel that
  // waits by itself.
  bool programmatic = false;
};

// One kernel's recipe bound to buffers: tensor maps encoded. Immutable, thread-safe.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
};

// One loaded kernel on one device. Immutable, thread-safe.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  // OK when the kernel may be launched by `recipe`, which may be another than it was loaded with:
  // entry, threads, shared memory, cluster, count and sizes of arguments.
  virtual absl::Status CheckRecipe(const LaunchRecipe& recipe) const = 0;
  virtual absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const LaunchRecipe& recipe,
                                                            const BufferList& buffers) const = 0;
  // Enqueues. `row_offset` moves every M-dependent tensor by that many rows (M above the largest
  // bucket is looped). Tensor maps that depend on M are encoded for `m` here. No allocation, no
  // synchronisation.
  virtual absl::Status Launch(const BoundKernel& bound, StreamHandle stream, int64_t m,
                              int64_t row_offset, bool pdl_edge) const = 0;
  // Adds to `graph` the node that runs what Launch would enqueue, m > 0. It keeps copies of all
  // arguments. UNIMPLEMENTED naming the driver's function where it is older than 12.3.
  virtual absl::StatusOr<GraphNodeHandle> AddNode(const BoundKernel&, GraphHandle, const NodeEdges&,
                                                  int64_t /*m*/, int64_t /*row_offset*/) const {
    return absl::UnimplementedError("this loader makes no nodes");
  }
  // Gives `node`, in an instance of the graph that it was added to and is still in, the arguments
  // of `bound` for `m` rows. `bound` has the recipe that the node was made with.
  virtual absl::Status UpdateNode(GraphExecHandle, GraphNodeHandle, const BoundKernel&,
                                  int64_t /*m*/, int64_t /*row_offset*/) const {
    return absl::UnimplementedError("this loader makes no nodes");
  }
  // Clusters of the recipe that the driver says fit at once; a check only, never an input of a
  // plan.
  virtual absl::StatusOr<int> MaxActiveClusters(const LaunchRecipe& recipe) const = 0;
};

class Loader {
 public:
  virtual ~Loader() = default;
  // Forces the module load (no lazy loading later). Works from a thread with no current context;
  // restores the caller's.
  virtual absl::StatusOr<std::shared_ptr<LoadedKernel>> Load(absl::string_view cubin,
                                                             const LaunchRecipe& recipe) = 0;
  // Enqueues: `bytes` bytes at `ptr` become `value`. Legal in capture.
  virtual absl::Status MemsetAsync(DevicePtr ptr, uint8_t value, uint64_t bytes,
                                   StreamHandle stream) = 0;
  virtual absl::StatusOr<bool> IsCapturing(StreamHandle stream) = 0;
  // Keeps `object` alive as long as the graph that `stream` captures into (and graphs made from
  // it). No-op when not capturing.
  virtual absl::Status TieToCapture(StreamHandle stream, std::shared_ptr<const void> object) = 0;
  // A node that does nothing; its errors are LoadedKernel::AddNode's.
  virtual absl::StatusOr<GraphNodeHandle> AddEmptyNode(GraphHandle, const NodeEdges&) {
    return absl::UnimplementedError("this loader makes no nodes");
  }
  virtual void RemoveNode(GraphNodeHandle) {}
  // As TieToCapture, to a graph that is given.
  virtual absl::Status TieToGraph(GraphHandle, std::shared_ptr<const void> /*object*/) {
    return absl::UnimplementedError("this loader makes no nodes");
  }
  // Says that no Load follows. Objects that dying graphs let go are released by a Load; those
  // waiting for one are released here, later ones at once. Not to be called from a CUDA callback.
  virtual void Retire() {}
};

// ---------------------------------------------------------------- Measurer
struct DeviceBuffer {
  DevicePtr ptr = 0;
  uint64_t bytes = 0;
};

// Calls that a measurer makes one graph of.
struct GraphCalls {
  // Call i, on a stream that captures.
  std::function<absl::Status(StreamHandle, int)> enqueue;
  // The same as nodes after `edges`; returns the edges for the nodes that follow. Preferred:
  // while a stream of a context captures, waiting for the context fails and breaks the capture.
  std::function<absl::StatusOr<NodeEdges>(GraphHandle, const NodeEdges& edges, int)> add = nullptr;
};

// A graph of calls, to be replayed and timed. The measurer outlives it.
class TimedGraph {
 public:
  virtual ~TimedGraph() = default;
  // Microseconds of one replay of all calls. The first one uploads the graph.
  virtual absl::StatusOr<double> Replay() = 0;
};

// Device memory and timing for tuning, self-check, the CLI and the bench. Slow path only.
class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) = 0;
  virtual void Free(DeviceBuffer buffer) = 0;
  virtual absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) = 0;
  virtual absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) = 0;
  virtual absl::Status Fill(DeviceBuffer buffer, uint8_t byte) = 0;
  // Median microseconds of one of the calls 0 to `count` - 1 of one graph, of `replays` replays.
  virtual absl::StatusOr<double> TimeGraph(const GraphCalls& calls, int count, int replays) = 0;
  // The calls 0 to `count` - 1 as one graph.
  virtual absl::StatusOr<std::unique_ptr<TimedGraph>> MakeGraph(const GraphCalls&, int /*count*/) {
    return absl::UnimplementedError("this measurer keeps no graphs");
  }
  // Runs `enqueue` on an own stream and waits for it; a launch that faults is an error here.
  virtual absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) = 0;
  // Another one, with its own stream, for work while a program serves: it allocates
  // only if a GiB of the device's memory stays free, RESOURCE_EXHAUSTED otherwise, and captures
  // nothing: UNIMPLEMENTED where calls cannot be added as nodes.
  virtual absl::StatusOr<std::unique_ptr<Measurer>> MakeBackground() {
    return absl::UnimplementedError("this measurer has none for the background");
  }
};

// RemoteBackend: what the remote tier needs of a store that a fleet shares. Redis is one; a site
// can plug in its own through the C interface.

using Deadline = std::chrono::steady_clock::time_point;

// Every call returns by its deadline, whatever the other side does: DEADLINE_EXCEEDED then,
// UNAVAILABLE for any other trouble. Names are printable ASCII without spaces. One thread at a time
// uses an instance.
class RemoteBackend {
 public:
  virtual ~RemoteBackend() = default;
  // In the order asked; nullopt: absent.
  virtual absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) = 0;
  // `replace` false: the first value stays.
  virtual absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s,
                           bool replace, Deadline deadline) = 0;
  // False: somebody else holds it.
  virtual absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token,
                                        int64_t ttl_ms, Deadline deadline) = 0;
  // Only if `token` still holds it.
  virtual absl::Status Release(const std::string& name, const std::string& token,
                               Deadline deadline) = 0;
  // Sets of names, for prefetching.
  virtual absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                                 Deadline deadline) = 0;
  virtual absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                           Deadline deadline) = 0;
  // Which of the names have a value, in the order asked.
  virtual absl::StatusOr<std::vector<bool>> HaveMany(const std::vector<std::string>& names,
                                                     Deadline deadline) {
    std::vector<bool> have;
    for (const std::string& name : names) {  // one value at a time: together they may be too large
      auto values = GetMany({name}, deadline);
      if (!values.ok()) return values.status();
      have.push_back(values->size() == 1 && values->front().has_value());
    }
    return have;
  }
  // Looks the host's name up, which may take long: only ever called in the background. Returns soon
  // after `stop` is set.
  virtual void Resolve(const std::atomic<bool>& stop) { (void)stop; }
};

// A backend with several owners. `below` is thread-safe.
class SharedBackend : public RemoteBackend {
 public:
  explicit SharedBackend(std::shared_ptr<RemoteBackend> below) : below_(std::move(below)) {}
  absl::StatusOr<std::vector<absl::optional<std::string>>> GetMany(
      const std::vector<std::string>& names, Deadline deadline) override {
    return below_->GetMany(names, deadline);
  }
  absl::Status Put(const std::string& name, const std::string& value, int64_t ttl_s, bool replace,
                   Deadline deadline) override {
    return below_->Put(name, value, ttl_s, replace, deadline);
  }
  absl::StatusOr<bool> TryLease(const std::string& name, const std::string& token, int64_t ttl_ms,
                                Deadline deadline) override {
    return below_->TryLease(name, token, ttl_ms, deadline);
  }
  absl::Status Release(const std::string& name, const std::string& token,
                       Deadline deadline) override {
    return below_->Release(name, token, deadline);
  }
  absl::Status AddMember(const std::string& set, const std::string& member, int64_t ttl_s,
                         Deadline deadline) override {
    return below_->AddMember(set, member, ttl_s, deadline);
  }
  absl::StatusOr<std::vector<std::string>> Members(const std::string& set,
                                                   Deadline deadline) override {
    return below_->Members(set, deadline);
  }
  absl::StatusOr<std::vector<bool>> HaveMany(const std::vector<std::string>& names,
                                             Deadline deadline) override {
    return below_->HaveMany(names, deadline);
  }

 private:
  const std::shared_ptr<RemoteBackend> below_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_PORTS_H_
