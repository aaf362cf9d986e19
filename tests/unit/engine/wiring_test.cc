// The engine plugged in: real planner, code generator, compiler and cache, for a named target.
#include "cache/record/record.h"
#include "src/chain/problem.h"
#include "src/engine/cache_tools.h"
#include "src/engine/core.h"
#include "src/engine/engine.h"
#include "src/engine/keys.h"
#include "src/engine/measured_choice.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "tests/support/no_compiler.h"
#include "tests/support/small_cubin.h"

namespace sinter {
namespace {

Config ConfigIn(const std::string& folder) {
  Config config;
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / folder;
  std::filesystem::remove_all(dir);
  config.cache_dir = dir.string();
  if (const char* nvrtc = std::getenv("SINTER_NVRTC")) config.nvrtc_path = nvrtc;
  return config;
}

std::shared_ptr<Engine> TargetEngine(const Config& config) {
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  return Engine::Create(std::move(ports), config, LogSink());
}

PlanningHooks RealHooks() {
  PlanningHooks hooks{.plan = PlanChain};
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  hooks.assembly = MakePlanAssembly;
  hooks.device_headers = DeviceHeadersDigest();
  return hooks;
}

// Compiles to the least that passes for a cubin, without a compiler.
class SmallCompiler : public Compiler {
 public:
  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request, const KeepGoing*) override {
    return CompiledKernel{.cubin = SmallCubin(request.source)};
  }
  absl::StatusOr<std::string> ToolchainId() override { return std::string("small-1"); }
  bool Loaded() const override { return true; }
  uint64_t Compiles() const override { return 0; }
};

std::shared_ptr<Engine> SmallEngine(const Config& config) {
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  ports.compiler = std::make_unique<SmallCompiler>();
  return Engine::Create(std::move(ports), config, LogSink());
}

// What `sinter warm --pack` and `sinter cache export` do.
PackReport ExportFrom(Engine& engine, const std::string& path, bool used_only) {
  ExportRequest request{.path = path, .used_only = used_only};
  request.wanted = [&](RecordKind kind, absl::string_view key, absl::string_view payload) {
    return engine.CheckStored(kind, key, payload).ok();
  };
  return engine.ports().cache_tools->Export(request).value();
}

// Changes the plan record under `key` in the engine's store.
void Falsify(Engine& engine, const std::string& key) {
  Store& store = *engine.ports().store;
  PlanRecord record = DecodePlanRecord(store.Get(RecordKind::kPlan, key).payload).value();
  record.variants.front().decisions.kernels[0].schedule.stages = 1000;
  store.Put(RecordKind::kPlan, key, EncodePlanRecord(record));
  engine.ports().cache_tools->Flush();
}

TEST(WiringTest, NoPackTakesAPlanThatDoesNotFit) {
  const Config config = ConfigIn("wiring_seal");
  const Problem problem =
      ParseProblem("gemm_chain m=16 n=512 k=256 l=256 act=relu layout=oi dtype=bf16").value();
  const std::string pack = config.cache_dir + "/all.pack";
  const auto first = SmallEngine(config);
  const uint64_t kernels = first->Prepare(problem.chain, 16, {}).value()->plan().kernels.size();
  const PackReport sound = ExportFrom(*first, pack, false);
  EXPECT_EQ(sound.plans, 1u);
  EXPECT_EQ(sound.kernels, kernels);
  EXPECT_EQ(sound.skipped, 0u);

  PlanRequest request{.form = IdentityForm(std::make_shared<const Chain>(problem.chain)),
                      .bucket = 16};
  const EngineCore core(MakePorts(ConfigIn("wiring_key"), -1, "h200", LogSink()).value(), Config(),
                        LogSink(), RealHooks());
  Falsify(*first, PlanKeyBytes(request, core));
  const PackReport lying = ExportFrom(*SmallEngine(config), pack, false);
  EXPECT_EQ(lying.plans, 0u);
  EXPECT_EQ(lying.skipped, 1u);

  // `warm` makes the plan again and packs that.
  const auto warm = SmallEngine(config);
  ASSERT_TRUE(warm->Prepare(problem.chain, 16, {}).ok());
  EXPECT_EQ(warm->Stats().searched, 1u);
  const PackReport mended = ExportFrom(*warm, pack, true);
  EXPECT_EQ(mended.plans, 1u);
  EXPECT_EQ(mended.kernels, kernels);
  // As does who cannot write the folder: what lies there is left out.
  Falsify(*warm, PlanKeyBytes(request, core));
  Config reader = config;
  reader.cache_read_only = true;
  const auto reading = SmallEngine(reader);
  ASSERT_TRUE(reading->Prepare(problem.chain, 16, {}).ok());
  EXPECT_EQ(ExportFrom(*reading, pack, true).plans, 0u);
}

constexpr char kSmallProblem[] = "gemm_chain m=16 n=512 k=256 l=256 act=relu layout=oi dtype=bf16";

// Key of a kernel that the engine's store has for kSmallProblem.
std::string KernelOf(Engine& engine) {
  const Problem problem = ParseProblem(kSmallProblem).value();
  PlanRequest request{.form = IdentityForm(std::make_shared<const Chain>(problem.chain)),
                      .bucket = 16};
  const EngineCore core(MakePorts(ConfigIn("wiring_key"), -1, "h200", LogSink()).value(), Config(),
                        LogSink(), RealHooks());
  const Lookup found = engine.ports().store->Get(RecordKind::kPlan, PlanKeyBytes(request, core));
  PlanRecord record = DecodePlanRecord(found.payload).value();
  EXPECT_TRUE(CompletePlanRecord(request, core.ports.model, core, BuildControl(), &record).ok());
  return record.variants.front().kernel_keys.front();
}

// A folder whose kernel under `key` has another entry, and is marked as checked.
void Spoil(const Config& config, const std::string& key) {
  const auto engine = SmallEngine(config);
  Store& store = *engine->ports().store;
  KernelRecord record = DecodeKernelRecord(store.Get(RecordKind::kKernel, key).payload).value();
  record.entry = "of another kernel";
  record.verification = {"NVIDIA H200", 1, 0, 16};
  store.Put(RecordKind::kKernel, key, EncodeKernelRecord(record));
  engine->ports().cache_tools->Flush();
}

TEST(WiringTest, ABadRecordThatIsMarkedAsCheckedIsMendedForGood) {
  const Config config = ConfigIn("wiring_mend");
  const Problem problem = ParseProblem(kSmallProblem).value();
  ASSERT_TRUE(SmallEngine(config)->Prepare(problem.chain, 16, {}).ok());
  const std::string key = KernelOf(*SmallEngine(config));
  Spoil(config, key);
  EXPECT_EQ(SmallEngine(config)->ports().cache_tools->Inspect()->unsound, 1u);
  for (const uint64_t compiled : {1u, 0u, 0u}) {
    const auto engine = SmallEngine(config);
    ASSERT_TRUE(engine->Prepare(problem.chain, 16, {}).ok());
    EXPECT_EQ(engine->Stats().kernels_compiled, compiled);
  }
  EXPECT_EQ(SmallEngine(config)->ports().cache_tools->Inspect()->unsound, 0u);
}

TEST(WiringTest, AStoreThatThereIsNoLongerIsSaidWithTheWayOut) {
  Config config = ConfigIn("wiring_store");
  config.cache_store = "tables";
  EXPECT_TRUE(WireCache(config, "", LogSink()).ok());
  config.cache_store = "leveldb-db";
  const absl::Status gone = WireCache(config, "", LogSink()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(gone)) << gone;
  for (const char* part : {"SINTER_CACHE_STORE", "leveldb-db", "unset it", "v1/db"}) {
    EXPECT_THAT(std::string(gone.message()), testing::HasSubstr(part));
  }
  config.cache_store = "drawer";
  const absl::Status unknown = WireCache(config, "", LogSink()).status();
  EXPECT_THAT(std::string(unknown.message()), testing::HasSubstr("must be tables"));
  config.cache_enabled = false;  // an unused cache cannot be wrong
  EXPECT_TRUE(WireCache(config, "", LogSink()).ok());
}

// If the folder has a bad record, a good pack in a later tier serves, also a process that may not
// build. The folder stays unchanged.
TEST(WiringTest, ABadRecordHidesNoGoodOneOfAFartherTier) {
  Config config = ConfigIn("wiring_hides");
  config.allow_unsigned_packs = true;
  const Problem problem = ParseProblem(kSmallProblem).value();
  const std::string pack = ::testing::TempDir() + "/wiring_hides.pack";
  {
    const auto engine = SmallEngine(config);
    ASSERT_TRUE(engine->Prepare(problem.chain, 16, {}).ok());
    ExportFrom(*engine, pack, false);
  }
  Spoil(config, KernelOf(*SmallEngine(config)));
  PrepareOptions must_hit{.must_hit = true};
  EXPECT_FALSE(SmallEngine(config)->Prepare(problem.chain, 16, must_hit).ok());
  config.packs = {pack};
  const auto engine = SmallEngine(config);
  const auto plan = Got(engine->Prepare(problem.chain, 16, must_hit));
  EXPECT_EQ(engine->Stats().store.pack_hits, 1u);
  EXPECT_EQ(engine->ports().cache_tools->Inspect()->unsound, 1u);
}

TEST(WiringTest, ABadRecordOfAPackIsFoundAndNotImported) {
  Config config = ConfigIn("wiring_import");
  config.allow_unsigned_packs = true;
  const Problem problem = ParseProblem(kSmallProblem).value();
  ASSERT_TRUE(SmallEngine(config)->Prepare(problem.chain, 16, {}).ok());
  Config spoilt = ConfigIn("wiring_import_bad");
  spoilt.allow_unsigned_packs = true;
  std::filesystem::copy(config.cache_dir, spoilt.cache_dir,
                        std::filesystem::copy_options::recursive);
  const std::string pack = ::testing::TempDir() + "/wiring_import.pack";
  Spoil(spoilt, KernelOf(*SmallEngine(spoilt)));
  ExportRequest anything;  // as a program that does not ask the engine
  anything.path = pack;
  ASSERT_TRUE(SmallEngine(spoilt)->ports().cache_tools->Export(anything).ok());
  const auto engine = SmallEngine(config);
  CacheTools& tools = *engine->ports().cache_tools;
  const PackDescription description = tools.Describe(pack, /*read_all=*/true).value();
  EXPECT_EQ(description.unsound, 1u);
  EXPECT_THAT(description.findings, ElementsAre(HasSubstr("of another kernel")));
  EXPECT_EQ(tools.Import(pack)->refused, 1u);
  ASSERT_TRUE(engine->Prepare(problem.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().kernels_compiled, 0u) << "the good one is still there";
}

// The engine knows the options that code generation asks for.
TEST(WiringTest, KeysOfBatchInvariantKernelsHold) {
  const Config config = ConfigIn("wiring_options");
  const Problem problem = ParseProblem(kSmallProblem).value();
  PrepareOptions options{.batch_invariant = true};
  ASSERT_TRUE(SmallEngine(config)->Prepare(problem.chain, 16, options).ok());
  const auto warm = SmallEngine(config);
  ASSERT_TRUE(warm->Prepare(problem.chain, 16, options).ok());
  EXPECT_EQ(warm->Stats().searched, 0u);
}

TEST(WiringTest, ATargetIsABuiltInNameOrAModelsText) {
  const Config config = ConfigIn("wiring_target");
  const Ports named = MakePorts(config, -1, "h200", LogSink()).value();
  EXPECT_EQ(named.model.name, "h200");
  EXPECT_EQ(named.loader, nullptr);
  EXPECT_EQ(named.measurer, nullptr);
  EXPECT_THAT(named.no_gpu_reason, HasSubstr("'h200'"));
  EXPECT_FALSE(named.compiler->Loaded());
  const Ports text = MakePorts(config, -1, named.model.ToText(), LogSink()).value();
  EXPECT_EQ(text.model.ModelDigest(), named.model.ModelDigest());
}

TEST(WiringTest, ATargetThatIsNoModelNamesThoseThatThereAre) {
  const Config config = ConfigIn("wiring_target");
  EXPECT_EQ(MakePorts(config, -1, "H200", LogSink())->model.name, "h200");
  for (const char* target : {"b300", "h200.model", "name = h300", "a = b"}) {
    EXPECT_TRUE(Says(MakePorts(config, -1, target, LogSink()), "built in: h200, h100")) << target;
  }
}

TEST(WiringTest, AModelOfAnotherArchIsRefusedByName) {
  const Config config = ConfigIn("wiring_arch");
  DeviceModel model = BuiltinModel("h200").value();
  model.name = "t4";
  model.arch = "sm_75";
  const absl::Status status = MakePorts(config, -1, model.ToText(), LogSink()).status();
  EXPECT_TRUE(Fails(status, absl::StatusCode::kInvalidArgument,
                    "target: device model t4: arch = \"sm_75\", must be sm_90a, or, for"));
  EXPECT_TRUE(Says(status, "; built in: h200, h100, a100"));
}

TEST(WiringTest, BadTargetsAreRefused) {
  const Config config = ConfigIn("wiring_bad");
  EXPECT_FALSE(MakePorts(config, -1, "b300", LogSink()).ok());
  EXPECT_FALSE(MakePorts(config, -1, "name = x", LogSink()).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(MakePorts(config, -1, "", LogSink()).status()));
}

TEST(WiringTest, ADriverThatIsNotThereIsUnavailable) {
  Config config = ConfigIn("wiring_driver");
  config.driver_path = "/dev/null/libcuda.so.1";
  EXPECT_TRUE(absl::IsUnavailable(MakePorts(config, 0, "", LogSink()).status()));
}

TEST(WiringTest, WithoutACompilerAMissIsUnavailable) {
  Config config = ConfigIn("wiring_compiler");
  config.nvrtc_path = "/dev/null/libnvrtc.so";
  const auto engine = TargetEngine(config);
  const Problem problem =
      ParseProblem("gemm_chain m=16 n=256 k=256 l=256 act=relu layout=oi dtype=bf16").value();
  EXPECT_TRUE(absl::IsUnavailable(engine->Prepare(problem.chain, 16, {}).status()));
}

// With the real planner, checks and code generator: whatever tuning may measure can be recorded and
// taken again.
TEST(WiringTest, EveryPlanOfARankingCanBecomeATuningEntry) {
  Ports ports = MakePorts(ConfigIn("wiring_entries"), -1, "h200", LogSink()).value();
  const EngineCore core(std::move(ports), Config(), LogSink(), RealHooks());
  for (const char* line : {"gated_ffn m=16 n=512 k=256 l=256 act=silu layout=oi dtype=bf16",
                           "gemm_chain m=128 n=768 k=768 l=768 act=relu layout=io dtype=f16"}) {
    const Problem problem = ParseProblem(line).value();
    PlanRequest request{.form = IdentityForm(std::make_shared<const Chain>(problem.chain)),
                        .bucket = BucketOf(*problem.m)};
    const FusionResult ranking =
        PlanChain(problem.chain, request.bucket, core.ports.model, FusionOptions()).value();
    std::vector<Plan> plans = ranking.alternatives;
    plans.push_back(ranking.chosen);
    ASSERT_GT(plans.size(), 2u);
    TuningSet set;
    for (const Plan& plan : plans) {
      set.Add(MakeTuningEntry(request, core, ranking, plan, {}).value());
      set = TuningSet::FromText(set.ToText()).value();
      const PlanRecord again = Got(UsableChoice(set.Find(TuningKeyOf(request, core))->record,
                                                request, BuildControl(), core));
      EXPECT_EQ(again.variants.front().plan.PlanDigest(), plan.PlanDigest());
    }
    EXPECT_EQ(set.entries().size(), 1u);
  }
}

TEST(WiringTest, ASecondEngineOnTheSameFolderSearchesAndCompilesNothing) {
  const Config config = ConfigIn("wiring_warm");
  const Problem problem =
      ParseProblem("gated_ffn m=16 n=512 k=256 l=256 act=silu layout=oi dtype=bf16").value();
  const auto cold = TargetEngine(config);
  const auto first = cold->Prepare(problem.chain, 16, {});
  if (absl::IsUnavailable(first.status())) SINTER_END_WITHOUT_COMPILER(first.status());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(cold->Stats().kernels_compiled, 0u);
  cold->ports().cache_tools->Flush();

  const auto warm = TargetEngine(config);
  const auto second = warm->Prepare(problem.chain, 16, {}).value();
  EXPECT_EQ(second->ChosenDigest(), (*first)->ChosenDigest());
  EXPECT_EQ(second->plan().PlanDigest(), (*first)->plan().PlanDigest());
  const EngineStats stats = warm->Stats();
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_FALSE(stats.nvrtc_loaded);
  EXPECT_EQ(stats.store.local_hits, 1u + second->plan().kernels.size());
}

}  // namespace
}  // namespace sinter
