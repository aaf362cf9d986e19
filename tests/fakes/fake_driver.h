// FakeDriver: a CUDA driver without a GPU. An in-process table that keeps contexts, capture modes,
// graphs and user objects as the real one does, records what it is asked, and can fail any call.
#pragma once

#include "runtime/driver/driver.h"
#include "tests/support/common.h"

namespace sinter {

struct FakeChip {
  std::string name = "NVIDIA H200";
  int cc_major = 9, cc_minor = 0;
  int sm_count = 132;
  int l2_bytes = 62914560;
  int clock_khz = 1980000;
  int shared_bytes = 232448;
  size_t memory_bytes = size_t{140} << 30;
  std::array<int, 5> resident_clusters = {132, 66, 30, 15, 7};  // by cluster size 1 2 4 8 16
};

// What every function of every loaded module looks like.
struct FakeKernel {
  std::vector<size_t>
      param_sizes;  // empty: the driver has no cuFuncGetParamInfo, params are not recorded
  int static_shared_bytes = 0;
  int max_threads = 1024;
};

// One launch, with everything copied.
struct FakeLaunch {
  std::string entry;
  CUlaunchConfig config{};  // attrs is null: see `attributes`
  std::vector<CUlaunchAttribute> attributes;
  std::vector<std::string> params;
  CUcontext context = nullptr;
  bool captured = false;
  uintptr_t module = 0;
};

// A node of a graph: a kernel, captured or added, or one that does nothing.
struct FakeNode {
  CUgraphNode node = nullptr;
  bool kernel = false;
  FakeLaunch launch;  // of a kernel; `attributes` are the node's
  std::vector<CUgraphNode> from;
  std::vector<bool> programmatic;  // of the edges from them
};

// The content that the fake's encoders write into a CUtensorMap. The box of an im2col map is
// {channels, pixels}.
struct FakeMap {
  uint64_t address;
  uint64_t dims[5];
  uint64_t strides[4];
  uint32_t box[5];
  uint32_t rank;
  uint16_t type;
  uint16_t swizzle;
  int8_t im2col;  // 1: it is one
  int8_t lower[2], upper[2];
  uint8_t element_strides[3];  // of dimensions 1 to 3
};
FakeMap DecodeFakeMap(const std::string& param);

// Objects that are alive and should not be once everything is released.
struct FakeLive {
  int contexts = 0, modules = 0, streams = 0, events = 0, graphs = 0, execs = 0, allocations = 0,
      user_objects = 0, opened_handles = 0;
  uint64_t module_bytes = 0;  // of the images of the loaded modules; not in Total
  int Total() const {
    return contexts + modules + streams + events + graphs + execs + allocations + user_objects +
           opened_handles;
  }
};

// At most one lives in a process at a time: a table of C functions has no other way to find its
// state. Thread-safe.
class FakeDriver {
 public:
  explicit FakeDriver(std::vector<FakeChip> chips = {FakeChip()});
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // The fake as a table. Reads `kernel`.
  DriverTable Table() const;
  absl::StatusOr<std::shared_ptr<const Driver>> Make() const { return Driver::FromTable(Table()); }

  // Knobs; set them before the calls they concern.
  FakeKernel kernel;
  // Whether a device reaches another's memory.
  std::function<bool(int device, int peer)> reaches_peer = [](int, int) { return true; };
  bool ipc_works = true;        // handles of memory can be opened
  bool copies_to_peers = true;  // off: a copy into an opened handle's memory is lost
  double launch_us = 5;         // what a kernel takes on the fake clock
  std::function<CUresult(const FakeLaunch&)> on_launch;  // runs when a launch would, not in capture
  // Fails the n-th call from now, once (1 is the next). Error-name queries do not count. A call
  // that releases something releases it though it fails.
  void FailCall(int n, CUresult result);
  // Off: calls are neither logged nor launches kept, and nothing is allocated.
  void SetRecording(bool on) { recording_ = on; }

  // Observations.
  int calls() const;
  std::vector<std::string> CallNames() const;
  std::vector<FakeLaunch> launches() const;
  std::vector<FakeNode> NodesOf(CUgraph graph) const;
  std::vector<FakeNode> NodesOf(CUgraphExec exec) const;
  // What the real driver forbids: calls in a callback, unsafe ones that broke another thread's
  // capture, and running a kernel whose module was unloaded.
  std::vector<std::string> violations() const;
  FakeLive live() const;
  // State of the calling thread.
  std::vector<CUcontext> ContextStack();
  CUstreamCaptureMode CaptureMode();

 private:
  friend struct FakeCalls;
  struct ThreadState {
    std::vector<CUcontext> stack;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  };
  struct ModuleState {
    CUcontext context;
    uint64_t bytes;
    std::vector<uintptr_t> functions;
  };
  struct Function {
    uintptr_t module;
    std::string entry;
    std::map<int, int> attributes;
  };
  struct StreamState {
    uintptr_t graph = 0;  // capturing into, 0 when not
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    bool invalidated = false;
  };
  struct GraphState {
    std::vector<FakeNode> nodes;
    std::map<uintptr_t, int> objects;
  };
  struct UserObject {
    void* pointer;
    CUhostFn destroy;
    int references;
  };
  using Callbacks = std::vector<std::pair<CUhostFn, void*>>;

  CUresult Enter(int function);
  void BreakCaptures(const char* name);
  ThreadState& Thread() { return threads_[std::this_thread::get_id()]; }
  CUcontext Current();
  void Release(uintptr_t object, int count, Callbacks* callbacks);
  static void Run(const Callbacks& callbacks);
  CUgraphNode AddNode(GraphState& graph, FakeNode node);
  // Searches all graphs; null if there is none.
  FakeNode* FindNode(CUgraphNode node);
  // A launch of `function` as the driver would copy it; an error where it cannot be made.
  CUresult Describe(CUfunction function, void** params, FakeLaunch* launch);
  bool AllLoaded(const std::vector<FakeNode>& nodes);
  void Advance(const std::vector<FakeNode>& nodes);
  bool Allocated(CUdeviceptr pointer, size_t bytes) const;

  const std::vector<FakeChip> chips_;
  mutable std::recursive_mutex mutex_;  // guards everything below
  std::map<std::thread::id, ThreadState> threads_;
  std::map<int, int> retained_;  // device -> references of its primary context
  std::map<uintptr_t, ModuleState> modules_;
  std::map<uintptr_t, Function> functions_;
  std::map<uintptr_t, StreamState> streams_;
  std::map<uintptr_t, double> events_;  // event -> fake time of its record
  std::map<uintptr_t, GraphState> graphs_;
  std::map<uintptr_t, GraphState> execs_;
  std::map<uintptr_t, UserObject> objects_;
  std::map<CUdeviceptr, size_t> allocations_;             // of devices and pinned
  std::map<CUdeviceptr, int> opened_;                     // handles of memory, how often
  std::map<uintptr_t, std::pair<int, size_t>> created_;   // memory to be mapped: its file, bytes
  std::map<CUdeviceptr, size_t> reserved_;                // addresses
  std::map<std::pair<CUcontext, CUcontext>, int> peers_;  // access that was enabled
  std::vector<const char*> log_;
  std::vector<FakeLaunch> launches_;
  std::vector<std::string> violations_;
  bool recording_ = true;
  int calls_ = 0;
  int fail_at_ = 0;
  CUresult fail_with_ = CUDA_SUCCESS;
  uintptr_t next_handle_ = 0x1000;
  double clock_us_ = 0;
};

}  // namespace sinter
