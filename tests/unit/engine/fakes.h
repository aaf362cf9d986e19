// A world without planner, compiler, disk and GPU: every port of the engine as a fake that counts
// and misbehaves on order.
#pragma once

#include "src/chain/chain.h"
#include "src/engine/core.h"
#include "src/engine/engine.h"
#include "src/engine/tuning_set.h"
#include "tests/support/common.h"

namespace sinter::testing {

constexpr int64_t kK = 512, kN = 512, kL = 64;

// A gemm_chain of the sizes above in bf16, weights constant; its rows are M, or `rows` when that is
// not 0.
Chain TestChain(int64_t rows = 0);
// The same chain with w2 added before a and w1.
Chain TestChainInOtherOrder();

// What a store holds; shared by the stores of several engines, as a folder is by processes.
struct FakeDisk {
  std::mutex mutex;
  std::condition_variable unlocked;
  std::map<std::pair<RecordKind, std::string>, std::string> records;
  std::map<std::string, std::string> quarantined;
  std::set<std::string> locked;
  StoreStats stats;
  std::map<std::string, int> used;  // calls of Used, by key
  int explained = 0;                // misses

  int Count(RecordKind kind);
  std::vector<std::string> Keys(RecordKind kind);
};

struct FakeLaunch {
  std::string kernel;  // FakeWorld::name
  int64_t m = 0, row_offset = 0;
  bool pdl_edge = false;
};

// A node of the one graph that there is.
struct FakeGraphNode {
  std::string kernel;  // FakeWorld::name; "" of one that does nothing
  int64_t m = 0, row_offset = 0;
  NodeEdges edges;
  std::vector<DevicePtr> pointers;
};

// Orders and records. Fields that are neither atomic nor under `mutex` are set before the engine is
// made.
struct FakeWorld {
  std::shared_ptr<FakeDisk> disk = std::make_shared<FakeDisk>();
  Chain chain = TestChain();  // what kernels compute

  // Planner.
  std::atomic<int> plans{0};
  bool unfused_is_best = false;
  std::atomic<int> plan_failures{0};          // the next so many plans fail
  std::atomic<int> batch_invariant_plans{0};  // that were asked for
  double cluster_us = 12;                     // predicted; the other fused plan takes 10
  double slab_us = 0;                         // of the one that tuning is offered; 0: none
  double unfused_us = 20;                     // predicted, of the first unfused plan
  // Stages of the first and the second kernel of each unfused plan; each takes a microsecond more.
  // Kernels of another number than 2 have it in their names: "first3".
  std::vector<std::pair<int, int>> unfused_stages = {{2, 2}};
  bool code_per_bucket = false;  // fused plans of two powers of two share no kernel
  std::shared_ptr<const TuningSet> tuning;
  std::shared_ptr<KnownTimes> known_times;        // of all its engines; null: each has its own
  std::string header = "int shared;\n";           // "all.cuh", which every source includes
  std::string cluster_header = "int cluster;\n";  // "cluster.cuh"
  DeviceModel model = BuiltinModel("h200").value();
  RecordFormat format;  // of the records that the engines read and write

  std::function<absl::StatusOr<std::shared_ptr<const NormalForm>>(std::shared_ptr<const Chain>)>
      normal;  // unset: chains are planned as they are
  // Replace the fake planner, the fake generator, its headers, and the function that a launch
  // computes.
  std::function<absl::StatusOr<FusionResult>(const Chain&, int64_t bucket, const DeviceModel&,
                                             const FusionOptions&)>
      plan;
  std::function<absl::StatusOr<GeneratedKernel>(const KernelSpec&, const DeviceModel&)> generate;
  std::function<absl::StatusOr<LaunchRecipe>(const KernelSpec&)> recipe;  // with `generate`
  std::function<Digest(const KernelSpec&)> device_headers;
  std::function<absl::Status(const std::string& launch, const BufferList& buffers, int64_t m)> run;
  // What `run`, `launches` and `times` call a launch; unset: the entry. Positions of a plan whose
  // kernels have equal code have one entry, and recipes of their own.
  std::function<std::string(const LaunchRecipe&)> name;

  std::atomic<int> generated{0};  // sources made by the fake generator
  std::atomic<int> assembled{0};  // plans made from decisions
  bool replaces = false;  // kernels that the compiler refuses get others, by the real search

  // Compiler.
  std::atomic<int> compiles{0};
  std::atomic<bool> opened{false};
  std::string toolchain = "nvrtc-13.0-aaaa";
  std::string build_id = "aaaa";  // what PeekBuildId says
  bool has_compiler = true;
  int compile_ms = 0;
  std::set<std::string> refused;                      // request names that do not compile
  std::function<bool(const CompileRequest&)> spills;  // requests that do not; unset: none
  std::atomic<int> compile_failures{0};               // the next so many compiles fail

  // Device.
  bool has_gpu = true;
  std::string driver = "CUDA 13.0";
  int resident_clusters = 16;
  bool compute = true;  // launches run the reference
  // Launches of real plans fill with 0xff what a kernel is about to write in the workspace, and
  // what it read as the last one: regions that share bytes are seen in the results.
  bool poisons = false;
  bool record_launches = true;  // false: `launches` stays empty, and a launch allocates nothing
  std::set<std::string> wrong;  // request names whose kernels write garbage
  // Microseconds of a run of the kernels so named, added up; 11.5 if a run has only other kernels.
  std::map<std::string, double> times;
  int ms_per_timing = 0;
  int most_timings = std::numeric_limits<int>::max();  // more fail
  std::atomic<int> timings{0}, calls{0};               // calls: of the last timing
  // For background measurers: their number, the bytes allocated and not freed, the allowed bytes;
  // how long graphs ran; and the function called with each of their pauses.
  std::atomic<int> backgrounds{0};
  std::atomic<uint64_t> background_bytes{0}, most_background_bytes{uint64_t{1} << 40};
  std::atomic<double> background_us{0}, paused_us{0};
  std::function<void()> on_pause;
  std::atomic<int> loads{0}, memsets{0}, ties{0};
  std::atomic<uint64_t> uploaded{0};  // bytes
  std::atomic<int> loaded{0};         // kernels that are alive
  std::atomic<bool> capturing{false};
  std::atomic<bool> faulted{false};  // every launch, and every wait for one, fails as after a fault
  std::mutex mutex;
  std::vector<FakeLaunch> launches;
  std::vector<std::shared_ptr<const void>> graph;  // what captures keep alive; under mutex
  std::map<GraphNodeHandle, FakeGraphNode> nodes;  // in the order of their making; under mutex
  std::atomic<int> good_nodes{1 << 20};            // so many are added or updated; then it fails
  std::map<std::string, int> compiled;             // by request name
  std::set<std::string> binds_checked;             // against their chains; under mutex

  // The digest of the headers that sources of the fake generator include.
  Digest HeadersOf(const KernelSpec& spec) const;
  Ports MakePorts();  // for one engine, or for what works without one
  std::shared_ptr<Engine> MakeEngine(const Config& config = Config());
  std::vector<std::string> log;  // under mutex
};

// Memory that a fake GPU can use, aligned, freed with the object. Poisoned with 0xff.
class FakeBuffers {
 public:
  explicit FakeBuffers(const std::vector<int64_t>& bytes);
  ~FakeBuffers();
  const std::vector<DevicePtr>& pointers() const { return pointers_; }

 private:
  std::vector<DevicePtr> pointers_;
};

// Addresses of `count` buffers of any size that lie apart, where nothing is read or written.
std::vector<DevicePtr> FarApart(int count);

}  // namespace sinter::testing
