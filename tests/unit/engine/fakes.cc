#include "tests/unit/engine/fakes.h"

#include "src/engine/keys.h"
#include "src/engine/loaded_plan.h"
#include "src/reference/reference.h"
#include "tests/support/product_in.h"
#include "tests/support/read_chain.h"
#include "tests/support/recipes/recipe_check.h"
#include "tests/support/sequences.h"
#include "tests/support/small_cubin.h"

namespace sinter::testing {
namespace {

// ---------------------------------------------------------------- planner
ProductSequence ProblemFor(int64_t bucket) {
  return MakeSequence(bucket, MakeProduct(kN, kK, Activation::kRelu), kL);
}

Schedule BaseSchedule(Dataflow dataflow, int cluster, int64_t grid) {
  return Schedule{.dataflow = dataflow,
                  .block_m = 64,
                  .warpgroups_m = 1,
                  .block_k = 64,
                  .stages = 2,
                  .cluster = cluster,
                  .grid = static_cast<int>(grid)};
}

PlannedKernel Kernel(const ProductSequence& problem, const Schedule& schedule, double us) {
  PlannedKernel kernel;
  ProductIn(&kernel.spec).sequence = problem;
  ProductIn(&kernel.spec).schedule = schedule;
  kernel.prediction.total_us = us;
  kernel.prediction.bound = "hbm";
  return kernel;
}

void Bind(PlannedKernel& kernel, Role role, int buffer, int64_t stride) {
  const uint64_t offset = buffer == kWorkspaceBuffer ? kWorkspaceFlagBytes : 0;
  ProductIn(&kernel.spec).operands.push_back({role, buffer, offset, stride});
}

Plan Fused(int64_t bucket, const Schedule& schedule, double us) {
  Plan plan{.fused = true, .bucket = bucket};
  PlannedKernel kernel = Kernel(ProblemFor(bucket), schedule, us);
  Bind(kernel, Role::kA, 0, kK);
  Bind(kernel, Role::kW, 1, kK);
  Bind(kernel, Role(Role::kW, 1), 2, kN);
  Bind(kernel, Role::kOut, 3, kL);
  if (WritesC(schedule)) {
    Bind(kernel, Role::kC, kWorkspaceBuffer, kN);
    plan.workspace_bytes = kWorkspaceFlagBytes + static_cast<uint64_t>(bucket * kN * 2);
  }
  plan.kernels.push_back(kernel);
  return plan;
}

// `split`: blocks that share K. Stages tell the code of one power of two from another's, where
// `per_bucket`.
Plan FusedByGrid(int64_t bucket, int split, bool per_bucket) {
  Schedule s = BaseSchedule(Dataflow::kGridExchange, split, 15 * split);
  for (int64_t b = bucket; per_bucket && b > 1; b /= 2) ++s.stages;
  s.first = {64, split};
  s.second = {64, split};
  return Fused(bucket, s, 10);
}

Plan FusedByCluster(int64_t bucket, double us) {
  Schedule s = BaseSchedule(Dataflow::kClusterExchange, 8, (bucket + 63) / 64 * 8);
  s.first = {64, 1};
  s.second = {8, 1};
  return Fused(bucket, s, us);
}

Plan FusedBySlab(int64_t bucket, double us) {
  Schedule s = BaseSchedule(Dataflow::kClusterSlab, 8, (bucket + 63) / 64 * 8);
  s.cut = kN / 2;
  s.first = {64, 1};
  s.second = {8, 1};
  return Fused(bucket, s, us);
}

Plan Unfused(int64_t bucket, std::pair<int, int> stages, double us, int split) {
  Plan plan{.bucket = bucket,
            .workspace_bytes = kWorkspaceFlagBytes + static_cast<uint64_t>(bucket * kN * 2)};
  const int64_t row_tiles = (bucket + 63) / 64;
  Schedule first = BaseSchedule(Dataflow::kProduct, 1, row_tiles * 8);
  first.first = {64, 1};
  first.stages = stages.first;
  Schedule second = BaseSchedule(Dataflow::kProduct, split, row_tiles * split);
  second.first = {64, split};
  second.stages = stages.second;
  const ProductSequence chain = ProblemFor(bucket);
  PlannedKernel one = Kernel(FirstOf(chain), first, us / 2);
  Bind(one, Role::kA, 0, kK);
  Bind(one, Role::kW, 1, kK);
  Bind(one, Role::kOut, kWorkspaceBuffer, kN);
  PlannedKernel two = Kernel(SecondOf(chain), second, us / 2);
  Bind(two, Role::kA, kWorkspaceBuffer, kN);
  Bind(two, Role::kW, 2, kN);
  Bind(two, Role::kOut, 3, kL);
  plan.kernels = {one, two};
  return plan;
}

absl::StatusOr<FusionResult> FakePlan(FakeWorld& world, const Chain& chain, int64_t bucket,
                                      const FusionOptions& options) {
  ++world.plans;
  if (world.plan_failures > 0 && world.plan_failures-- > 0) {
    return MakeError(ErrorCode::kNoLegalPlan, "no plan on order");
  }
  FusionResult result{.considered = 1000, .legal = 100};
  std::vector<Plan> plans;
  const int split = options.batch_invariant ? 1 : 8;
  if (options.allow_cooperative) plans.push_back(FusedByGrid(bucket, split, world.code_per_bucket));
  plans.push_back(FusedByCluster(bucket, world.cluster_us));
  if (options.for_tuning && world.slab_us > 0) plans.push_back(FusedBySlab(bucket, world.slab_us));
  double us = world.unfused_us;
  for (const auto& stages : world.unfused_stages) {
    plans.push_back(Unfused(bucket, stages, us++, split));
  }
  world.batch_invariant_plans += options.batch_invariant ? 1 : 0;
  for (Plan& plan : plans) {
    int product = 0;
    for (PlannedKernel& kernel : plan.kernels) {
      kernel.spec.batch_invariant = options.batch_invariant;
      kernel.ops = {{chain.outputs()[0].value}, false, product++};
    }
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const Plan& a, const Plan& b) { return a.PredictedUs() < b.PredictedUs(); });
  if (world.unfused_is_best) std::swap(plans.front(), plans.back());
  result.chosen = plans.front();
  result.alternatives.assign(plans.begin() + 1, plans.end());
  return result;
}

// "grid", "cluster", "first", "second", the last two with their stages if not 2.
std::string NameOfSpec(const KernelSpec& spec) {
  if (ProductOf(spec).sequence.size() == 2) {
    if (ProductOf(spec).schedule.dataflow == Dataflow::kClusterSlab) return "slab";
    return WritesC(ProductOf(spec).schedule) ? "grid" : "cluster";
  }
  const std::string stages =
      ProductOf(spec).schedule.stages == 2 ? "" : absl::StrCat(ProductOf(spec).schedule.stages);
  for (const OperandBinding& b : ProductOf(spec).operands) {
    if (b.role == Role::kOut && b.buffer == kWorkspaceBuffer) return "first" + stages;
  }
  return "second" + stages;
}

absl::StatusOr<GeneratedKernel> FakeGenerate(const FakeWorld& world, const KernelSpec& spec) {
  GeneratedKernel kernel;
  SINTER_ASSIGN_OR_RETURN(kernel.code, CodeOf(spec));
  const std::string name = NameOfSpec(spec);
  kernel.request.name = name;
  kernel.request.source = absl::StrCat("// kernel ", name, "\n#include \"all.cuh\"\n");
  if (name == "cluster") kernel.request.source += "#include \"cluster.cuh\"\n";
  kernel.request.headers = {{"all.cuh", world.header}, {"cluster.cuh", world.cluster_header}};
  kernel.request.options = CompileOptionsOf(spec);
  kernel.request.arch = "sm_90a";
  kernel.request.entry = name;
  kernel.recipe.entry = name;
  kernel.recipe.grid[0] = static_cast<uint32_t>(ProductOf(spec).schedule.grid);
  kernel.recipe.cluster[0] = static_cast<uint32_t>(ProductOf(spec).schedule.cluster);
  kernel.recipe.block[0] = 256;
  kernel.recipe.cooperative = name == "grid";
  kernel.recipe.pdl = ProductOf(spec).schedule.dataflow == Dataflow::kProduct;
  return kernel;
}

// ---------------------------------------------------------------- store
class FakeStore : public Store {
 public:
  explicit FakeStore(std::shared_ptr<FakeDisk> disk) : disk_(std::move(disk)) {}

  Lookup Get(RecordKind kind, absl::string_view key) override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    Lookup lookup;
    const auto buried = disk_->quarantined.find(std::string(key));
    const auto record = disk_->records.find({kind, std::string(key)});
    if (buried != disk_->quarantined.end()) {
      lookup.reason = MissReason::kQuarantined;
      lookup.detail = buried->second;
    } else if (record != disk_->records.end()) {
      lookup.hit = true;
      lookup.payload = record->second;
      lookup.tier = "local";
      ++disk_->stats.local_hits;
    }
    if (!lookup.hit) ++disk_->stats.misses[static_cast<int>(lookup.reason)];
    return lookup;
  }

  void Put(RecordKind kind, absl::string_view key, absl::string_view payload) override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    disk_->records[{kind, std::string(key)}] = std::string(payload);
    ++disk_->stats.puts;
  }

  void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    disk_->quarantined[std::string(key)] = std::string(why);
    disk_->records.erase({kind, std::string(key)});
    ++disk_->stats.quarantined;
  }

  std::shared_ptr<void> LockForBuild(RecordKind, absl::string_view key,
                                     int64_t budget_us) override {
    const std::string name(key);
    std::unique_lock<std::mutex> lock(disk_->mutex);
    const bool free = disk_->unlocked.wait_for(lock, std::chrono::microseconds(budget_us),
                                               [&] { return disk_->locked.count(name) == 0; });
    if (!free) return nullptr;
    disk_->locked.insert(name);
    std::shared_ptr<FakeDisk> disk = disk_;
    return std::shared_ptr<void>(disk.get(), [disk, name](void*) {
      std::lock_guard<std::mutex> unlock(disk->mutex);
      disk->locked.erase(name);
      disk->unlocked.notify_all();
    });
  }

  void Used(RecordKind, absl::string_view key) override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    ++disk_->used[std::string(key)];
  }

  std::string ExplainMiss(RecordKind, absl::string_view) override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    ++disk_->explained;
    return std::string();
  }

  StoreStats Stats() const override {
    std::lock_guard<std::mutex> lock(disk_->mutex);
    return disk_->stats;
  }

 private:
  const std::shared_ptr<FakeDisk> disk_;
};

// ---------------------------------------------------------------- compiler
class FakeCompiler : public Compiler {
 public:
  explicit FakeCompiler(FakeWorld* world) : world_(world) {}

  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request, const KeepGoing*) override {
    SINTER_RETURN_IF_ERROR(ToolchainId().status());
    ++world_->compiles;
    {
      std::lock_guard<std::mutex> lock(world_->mutex);
      ++world_->compiled[request.name];
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(world_->compile_ms));
    const bool fails = world_->compile_failures > 0 && world_->compile_failures-- > 0;
    const bool spills = world_->spills && world_->spills(request);
    if (fails || spills || world_->refused.count(request.name) > 0) {
      absl::Status status =
          MakeError(ErrorCode::kCompileFailed, absl::StrCat("registers spill in ", request.name));
      AttachCompileLog(status, "spill log");
      return status;
    }
    CompiledKernel kernel;
    const bool wrong = world_->wrong.count(request.name) > 0;
    // The source stands for the code: the fake loader looks for words in it.
    kernel.cubin = SmallCubin(absl::StrCat(request.source, wrong ? "WRONG" : ""));
    kernel.log = "ptxas info";
    kernel.compile_us = 1000.0 * world_->compile_ms;
    kernel.registers = 168;
    return kernel;
  }

  absl::StatusOr<std::string> ToolchainId() override {
    if (!world_->has_compiler) return absl::UnavailableError("libnvrtc was not found");
    world_->opened = true;
    return world_->toolchain;
  }
  std::string PeekBuildId() override { return world_->build_id; }
  bool Loaded() const override { return world_->opened; }
  uint64_t Compiles() const override { return static_cast<uint64_t>(world_->compiles.load()); }

 private:
  FakeWorld* const world_;
};

// ---------------------------------------------------------------- device
// The plan whose kernels this thread binds, in order.
struct BindingNow {
  const LoadedPlan* plan = nullptr;
  int next = 0;
};
thread_local BindingNow binding_now;

// What a launch of real recipes binds is what the chain says. Equal binds are checked once.
absl::Status CheckBind(FakeWorld* world, const LoadedPlan& plan, int64_t at_once) {
  binding_now = {&plan, 0};
  if (plan.plan.IsStandIn()) return absl::OkStatus();
  {
    std::lock_guard<std::mutex> lock(world->mutex);
    const std::string what =
        absl::StrCat(plan.chain().CanonicalDigest().Hex(), plan.plan.PlanDigest().Hex(), at_once);
    if (!world->binds_checked.insert(what).second) return absl::OkStatus();
  }
  std::string wrong = FindMisplacedInput(*plan.form);
  if (wrong.empty()) {
    wrong = FindMisbinding(*plan.form->chain, plan.plan, plan.recipes,
                           {plan.fixed_rows, at_once, plan.rows.most});
  }
  return wrong.empty() ? absl::OkStatus() : absl::InternalError(wrong);
}

struct FakeBound : BoundKernel {
  BindingNow place;  // its plan, which outlives it, and its number there
  std::string name;
  std::vector<DevicePtr> pointers;
  DevicePtr workspace = 0;
  DevicePtr room = 0;
  uint64_t plan = 0;
};

absl::StatusOr<GraphNodeHandle> AddFakeNode(FakeWorld* world, FakeGraphNode node) {
  if (world->good_nodes-- <= 0) return MakeError(ErrorCode::kDriver, "no node, on order");
  std::lock_guard<std::mutex> lock(world->mutex);
  const uintptr_t id =
      world->nodes.empty() ? 1 : reinterpret_cast<uintptr_t>(world->nodes.rbegin()->first) + 1;
  const auto handle = reinterpret_cast<GraphNodeHandle>(id);
  world->nodes[handle] = std::move(node);
  return handle;
}

absl::Status FaultError() {
  absl::Status status = MakeError(ErrorCode::kDriver, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  AttachDriverResult(status, 700);
  return status;
}

class FakeKernel : public LoadedKernel {
 public:
  FakeKernel(FakeWorld* world, std::string entry, bool wrong)
      : world_(world), entry_(std::move(entry)), wrong_(wrong) {
    ++world_->loaded;
  }
  ~FakeKernel() override { --world_->loaded; }

  absl::Status CheckRecipe(const LaunchRecipe& recipe) const override {
    return recipe.entry == entry_ ? absl::OkStatus()
                                  : absl::InvalidArgumentError("a recipe of another entry");
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const LaunchRecipe& recipe,
                                                    const BufferList& buffers) const override {
    auto bound = std::make_unique<FakeBound>();
    bound->place = binding_now;
    ++binding_now.next;
    bound->name = world_->name ? world_->name(recipe) : recipe.entry;
    bound->pointers.assign(buffers.pointers, buffers.pointers + buffers.count);
    bound->workspace = buffers.workspace;
    bound->room = buffers.room;
    bound->plan = buffers.plan;
    return std::unique_ptr<BoundKernel>(std::move(bound));
  }

  absl::Status Launch(const BoundKernel& bound, StreamHandle, int64_t m, int64_t row_offset,
                      bool pdl_edge) const override {
    if (world_->faulted) return FaultError();
    const auto& fake = static_cast<const FakeBound&>(bound);
    if (world_->record_launches) {
      std::lock_guard<std::mutex> lock(world_->mutex);
      world_->launches.push_back({fake.name, m, row_offset, pdl_edge});
    }
    const std::vector<DevicePtr>& p = fake.pointers;
    if (world_->run) {
      Poison(fake, m, &HeldBytes::first);
      const absl::Status status = world_->run(
          fake.name, {p.data(), static_cast<int>(p.size()), fake.workspace, fake.room, fake.plan},
          m);
      Poison(fake, m, &HeldBytes::last);
      return status;
    }
    if (!world_->compute || absl::StartsWith(entry_, "first")) return absl::OkStatus();
    const auto at = [&](size_t i) { return reinterpret_cast<void*>(p[i]); };
    if (wrong_) {
      std::memset(at(3), 0, static_cast<size_t>(m * kL * 2));
      return absl::OkStatus();
    }
    return RunReference(world_->chain, m, {at(0), at(1), at(2)}, {at(3)}, {.threads = 1});
  }

  absl::StatusOr<GraphNodeHandle> AddNode(const BoundKernel& bound, GraphHandle,
                                          const NodeEdges& edges, int64_t m,
                                          int64_t row_offset) const override {
    const auto& fake = static_cast<const FakeBound&>(bound);
    return AddFakeNode(world_, {fake.name, m, row_offset, edges, fake.pointers});
  }
  absl::Status UpdateNode(GraphExecHandle, GraphNodeHandle node, const BoundKernel& bound,
                          int64_t m, int64_t row_offset) const override {
    if (world_->good_nodes-- <= 0) return MakeError(ErrorCode::kDriver, "no update, on order");
    const auto& fake = static_cast<const FakeBound&>(bound);
    std::lock_guard<std::mutex> lock(world_->mutex);
    FakeGraphNode& own = world_->nodes.at(node);
    if (own.kernel != fake.name) return absl::InternalError("a node of another kernel");
    own.m = m;
    own.row_offset = row_offset;
    own.pointers = fake.pointers;
    return absl::OkStatus();
  }

  absl::StatusOr<int> MaxActiveClusters(const LaunchRecipe&) const override {
    return world_->resident_clusters;
  }

 private:
  // What the workspace holds from or up to this kernel, as `edge` says.
  void Poison(const FakeBound& fake, int64_t m, int HeldBytes::*edge) const {
    const LoadedPlan* const plan = fake.place.plan;
    if (!world_->poisons || plan == nullptr || plan->plan.IsStandIn()) return;
    for (const HeldBytes& held : HeldBy(*plan->form->chain, plan->plan, plan->recipes, m)) {
      if (held.*edge != fake.place.next) continue;
      std::memset(reinterpret_cast<void*>(fake.workspace + static_cast<DevicePtr>(held.begin)),
                  0xff, static_cast<size_t>(held.end - held.begin));
    }
  }

  FakeWorld* const world_;
  const std::string entry_;
  const bool wrong_;
};

class FakeLoader : public Loader {
 public:
  explicit FakeLoader(FakeWorld* world) : world_(world) {}

  absl::StatusOr<std::shared_ptr<LoadedKernel>> Load(absl::string_view cubin,
                                                     const LaunchRecipe& recipe) override {
    ++world_->loads;
    if (absl::StrContains(cubin, "UNLOADABLE")) {
      return MakeError(ErrorCode::kDriver, "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE (200)");
    }
    return std::shared_ptr<LoadedKernel>(
        std::make_shared<FakeKernel>(world_, recipe.entry, absl::StrContains(cubin, "WRONG")));
  }
  absl::Status MemsetAsync(DevicePtr ptr, uint8_t value, uint64_t bytes, StreamHandle) override {
    ++world_->memsets;
    std::memset(reinterpret_cast<void*>(ptr), value, bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> IsCapturing(StreamHandle) override { return world_->capturing.load(); }
  absl::Status TieToCapture(StreamHandle, std::shared_ptr<const void> object) override {
    if (!world_->capturing || object == nullptr) return absl::OkStatus();
    ++world_->ties;
    std::lock_guard<std::mutex> lock(world_->mutex);
    world_->graph.push_back(std::move(object));
    return absl::OkStatus();
  }
  absl::StatusOr<GraphNodeHandle> AddEmptyNode(GraphHandle, const NodeEdges& edges) override {
    return AddFakeNode(world_, {"", 0, 0, edges, {}});
  }
  void RemoveNode(GraphNodeHandle node) override {
    std::lock_guard<std::mutex> lock(world_->mutex);
    world_->nodes.erase(node);
  }
  absl::Status TieToGraph(GraphHandle, std::shared_ptr<const void> object) override {
    if (world_->good_nodes-- <= 0) return MakeError(ErrorCode::kDriver, "no tie, on order");
    ++world_->ties;
    std::lock_guard<std::mutex> lock(world_->mutex);
    world_->graph.push_back(std::move(object));
    return absl::OkStatus();
  }

 private:
  FakeWorld* const world_;
};

class FakeTimedGraph : public TimedGraph {
 public:
  FakeTimedGraph(FakeWorld* world, double us) : world_(world), us_(us) {}
  absl::StatusOr<double> Replay() override {
    ++world_->timings;
    world_->background_us = world_->background_us + us_;
    return us_;
  }

 private:
  FakeWorld* const world_;
  const double us_;
};

class FakeMeasurer : public Measurer {
 public:
  explicit FakeMeasurer(FakeWorld* world, bool background = false)
      : world_(world), background_(background) {}

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    if (background_) {
      if (world_->background_bytes + bytes > world_->most_background_bytes) {
        return absl::ResourceExhaustedError("no memory in the background, on order");
      }
      world_->background_bytes += bytes;
    }
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    return DeviceBuffer{reinterpret_cast<DevicePtr>(memory), bytes};
  }
  void Free(DeviceBuffer buffer) override {
    if (background_) world_->background_bytes -= buffer.bytes;
    std::free(reinterpret_cast<void*>(buffer.ptr));
  }
  // Large uploads are a rotation's copies, which no fake kernel reads.
  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override {
    world_->uploaded += bytes;
    if (bytes >= (uint64_t{4} << 20)) return absl::OkStatus();
    std::memcpy(reinterpret_cast<void*>(to.ptr), from, bytes);
    return absl::OkStatus();
  }
  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override {
    std::memcpy(to, reinterpret_cast<void*>(from.ptr), bytes);
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override {
    std::memset(reinterpret_cast<void*>(buffer.ptr), byte, buffer.bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<double> TimeGraph(const GraphCalls& of, int calls, int) override {
    if (world_->timings >= world_->most_timings) return absl::InternalError("not timed, on order");
    SINTER_ASSIGN_OR_RETURN(const double us, TimeOf(of));
    ++world_->timings;
    world_->calls = calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(world_->ms_per_timing));
    return us;
  }
  absl::StatusOr<std::unique_ptr<TimedGraph>> MakeGraph(const GraphCalls& of, int calls) override {
    SINTER_ASSIGN_OR_RETURN(const double us, TimeOf(of));
    return std::unique_ptr<TimedGraph>(std::make_unique<FakeTimedGraph>(world_, us * calls));
  }
  absl::StatusOr<std::unique_ptr<Measurer>> MakeBackground() override {
    ++world_->backgrounds;
    return std::unique_ptr<Measurer>(std::make_unique<FakeMeasurer>(world_, true));
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    SINTER_RETURN_IF_ERROR(enqueue(nullptr));
    return world_->faulted ? FaultError() : absl::OkStatus();
  }

 private:
  // By the names of the kernels that one call adds, or launches in a measurer that may capture.
  absl::StatusOr<double> TimeOf(const GraphCalls& of) {
    return background_ ? Added(of) : Launched(of);
  }
  absl::StatusOr<double> Added(const GraphCalls& of) {
    SINTER_ASSIGN_OR_RETURN(const NodeEdges end, of.add(world_, {}, 0));
    std::lock_guard<std::mutex> lock(world_->mutex);
    double us = 0;
    std::vector<GraphNodeHandle> left = end.from;
    while (!left.empty()) {  // from the last node on
      const auto node = world_->nodes.extract(left.back());
      left.pop_back();
      if (node.empty()) return absl::InternalError("an edge from no node");
      const std::vector<GraphNodeHandle>& from = node.mapped().edges.from;
      left.insert(left.end(), from.begin(), from.end());
      const auto known = world_->times.find(node.mapped().kernel);
      if (known != world_->times.end()) us += known->second;
    }
    return us > 0 ? us : 11.5;
  }
  absl::StatusOr<double> Launched(const GraphCalls& of) {
    size_t before;
    {
      std::lock_guard<std::mutex> lock(world_->mutex);
      before = world_->launches.size();
    }
    SINTER_RETURN_IF_ERROR(of.enqueue(nullptr, 0));
    std::lock_guard<std::mutex> lock(world_->mutex);
    double us = 0;
    for (size_t i = before; i < world_->launches.size(); ++i) {
      const auto known = world_->times.find(world_->launches[i].kernel);
      if (known != world_->times.end()) us += known->second;
    }
    return us > 0 ? us : 11.5;
  }

  FakeWorld* const world_;
  const bool background_;
};

}  // namespace

// ---------------------------------------------------------------- chains
Chain TestChain(int64_t rows) {
  return ReadChain(
      "a: bf16[$3,$0]; w1: const bf16[$1,$0]; w2: const bf16[$2,$1];"
      "out gemm_chain(a, w1, none, w2, none, relu)",
      kK, kN, kL, ExtentText(rows));
}
Chain TestChainInOtherOrder() {
  return ReadChain(
      "w2: const bf16[$2,$1]; a: bf16[M,$0]; w1: const bf16[$1,$0];"
      "out gemm_chain(a, w1, none, w2, none, relu)",
      kK, kN, kL);
}

// ---------------------------------------------------------------- world
int FakeDisk::Count(RecordKind kind) { return static_cast<int>(Keys(kind).size()); }

std::vector<std::string> FakeDisk::Keys(RecordKind kind) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> keys;
  for (const auto& record : records) {
    if (record.first.first == kind) keys.push_back(record.first.second);
  }
  return keys;
}

Digest FakeWorld::HeadersOf(const KernelSpec& spec) const {
  const bool cluster = NameOfSpec(spec) == "cluster";
  return Sha256(absl::StrCat(header, cluster ? cluster_header : ""));
}

Ports FakeWorld::MakePorts() {
  Ports ports{.store = std::make_unique<FakeStore>(disk),
              .compiler = std::make_unique<FakeCompiler>(this),
              .model = model,
              .tuning = tuning,
              .known_times = known_times};
  if (has_gpu) {
    ports.loader = std::make_unique<FakeLoader>(this);
    ports.measurer = std::make_unique<FakeMeasurer>(this);
    ports.device_name = "Fake H200";
    ports.driver_name = driver;
  } else {
    ports.no_gpu_reason = "no GPU: on order";
  }
  return ports;
}

std::shared_ptr<Engine> FakeWorld::MakeEngine(const Config& config) {
  PlanningHooks hooks;
  hooks.normal = normal;
  hooks.plan = plan;
  if (!plan) {
    hooks.plan = [this](const Chain& of, int64_t bucket, const DeviceModel&,
                        const FusionOptions& options) {
      return FakePlan(*this, of, bucket, options);
    };
  }
  hooks.generate = generate;
  hooks.recipe = recipe;
  if (!generate) {
    hooks.generate = [this](const KernelSpec& spec, const DeviceModel&) {
      ++generated;
      return FakeGenerate(*this, spec);
    };
    hooks.recipe = [this](const KernelSpec& spec) -> absl::StatusOr<LaunchRecipe> {
      SINTER_ASSIGN_OR_RETURN(GeneratedKernel kernel, FakeGenerate(*this, spec));
      return std::move(kernel.recipe);
    };
  }
  hooks.assembly = [this](const Chain& c, int64_t bucket, const DeviceModel& m,
                          const AssemblyRequest& request) -> PlanAssembly {
    return [this, assemble = MakePlanAssembly(c, bucket, m, request)](const Decisions& decisions) {
      ++assembled;
      return assemble(decisions);
    };
  };
  if (replaces) hooks.replace = ReplaceKernels;
  hooks.device_headers = device_headers;
  if (!device_headers) {
    hooks.device_headers = [this](const KernelSpec& spec) { return HeadersOf(spec); };
  }
  hooks.pause = [this](double us) {
    paused_us = paused_us + us;
    if (on_pause) on_pause();
  };
  hooks.format = format;
  if (plan && generate) {
    hooks.check_bind = [this](const LoadedPlan& loaded, int64_t at_once) {
      return CheckBind(this, loaded, at_once);
    };
  }
  LogSink sink(LogLevel::kDebug, [this](LogLevel, absl::string_view line) {
    std::lock_guard<std::mutex> lock(mutex);
    log.emplace_back(line);
  });
  return CreateEngine(MakePorts(), config, sink, std::move(hooks));
}

std::vector<DevicePtr> FarApart(int count) {
  std::vector<DevicePtr> pointers;
  for (int i = 1; i <= count; ++i) pointers.push_back(static_cast<DevicePtr>(i) << 40);
  return pointers;
}

FakeBuffers::FakeBuffers(const std::vector<int64_t>& bytes) {
  for (const int64_t size : bytes) {
    const size_t rounded = (static_cast<size_t>(size) + 255) / 256 * 256;
    void* memory = std::aligned_alloc(256, rounded);
    std::memset(memory, 0xff, rounded);
    pointers_.push_back(reinterpret_cast<DevicePtr>(memory));
  }
}

FakeBuffers::~FakeBuffers() {
  for (const DevicePtr pointer : pointers_) std::free(reinterpret_cast<void*>(pointer));
}

}  // namespace sinter::testing
