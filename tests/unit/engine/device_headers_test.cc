// What a change of a device header voids: the keys of kernels that reach it, and nothing else.
#include "src/plan/family.h"
#include "tests/support/header_digests.h"
#include "tests/support/stitch_schedules.h"
#include "tests/unit/engine/engine_tests.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

// Two chains in every dataflow, and stitched kernels.
std::map<std::string, KernelSpec> Samples() {
  std::map<std::string, KernelSpec> all;
  for (const auto& [chain, p] :
       std::map<std::string, ProductSequence>{{"s8", SampleS8()}, {"g7", SampleG7()}}) {
    for (const Dataflow dataflow : DataflowsOf(p)) {
      all[absl::StrCat(NameOf(dataflow), " ", chain)] = SampleSpec(p, dataflow);
    }
  }
  all["stitch softmax"] =
      StitchedSpec("softmax rows=M cols=1024",
                   testing::ScheduleOf(2, "block 128 unit 32 vec 8 keep x4 grid 2048"));
  all["stitch layernorm"] =
      StitchedSpec("layernorm rows=M cols=1024",
                   testing::ScheduleOf(-1, "block 128 vec 8 chunks 2 x5 grid 4096"));
  return all;
}

// Keys of the samples if header `touched` of the library has one line more; "": no header has.
std::map<std::string, std::string> KeysWith(const std::string& touched) {
  FakeWorld world;
  PlanningHooks hooks;
  testing::HeaderMap library = testing::DeviceHeaderMap();
  std::string text;
  if (!touched.empty()) {
    text = absl::StrCat(library.at(touched), "// more\n");
    library[touched] = text;
  }
  hooks.device_headers = DeviceHeadersDigest(testing::DigestOfReached(library));
  const EngineCore core(world.MakePorts(), Config(), LogSink(), std::move(hooks));
  std::map<std::string, std::string> keys;
  for (const auto& [name, spec] : Samples()) {
    const absl::StatusOr<GeneratedKernel> made = Generate(spec, world.model);
    EXPECT_TRUE(made.ok()) << name << ": " << made.status();
    if (!made.ok()) continue;
    keys[name] = KernelKeyOf(spec, made->code, Sha256(made->request.source), "nvrtc-13.0-aaaa",
                             made->request.arch, core);
  }
  return keys;
}

// The first words of the names of samples whose keys change with `header`.
std::multiset<std::string> ChangedBy(const std::string& header) {
  const auto before = KeysWith(""), after = KeysWith(header);
  std::multiset<std::string> changed;
  for (const auto& [name, key] : before) {
    if (after.at(name) != key) changed.insert(name.substr(0, name.find(' ')));
  }
  return changed;
}

using Kinds = std::multiset<std::string>;

TEST(DeviceHeaders, ADataflowsHeaderChangesItsOwnKeysAlone) {
  EXPECT_EQ(KeysWith("").size(), 13u);
  EXPECT_EQ(ChangedBy("kernels/product.cuh"), (Kinds{"product", "product"}));
  EXPECT_EQ(ChangedBy("kernels/grid_exchange.cuh"), (Kinds{"grid-exchange", "grid-exchange"}));
  EXPECT_EQ(ChangedBy("kernels/cluster_ranges.cuh"), (Kinds{"cluster-ranges", "cluster-ranges"}));
  EXPECT_EQ(ChangedBy("kernels/cluster_slab.cuh"), (Kinds{"cluster-slab", "cluster-slab"}));
  EXPECT_EQ(ChangedBy("kernels/spatial_gate.cuh"), (Kinds{"spatial-gate"}));
  EXPECT_EQ(ChangedBy("stitch/group.cuh"), (Kinds{"stitch", "stitch"}));
}

TEST(DeviceHeaders, ASharedHeaderChangesTheKeysOfAllThatReachIt) {
  EXPECT_EQ(ChangedBy("kernels/cluster_exchange.cuh"),
            (Kinds{"cluster-exchange", "cluster-exchange", "cluster-slab", "cluster-slab",
                   "spatial-gate"}));
  Kinds products;
  for (const auto& sample : Samples()) {
    const std::string kind = sample.first.substr(0, sample.first.find(' '));
    if (kind != "stitch") products.insert(kind);
  }
  EXPECT_EQ(products.size(), 11u);
  EXPECT_EQ(ChangedBy("ptx/mbarrier.cuh"), products);
  EXPECT_EQ(ChangedBy("ptx/sync.cuh").size(), 13u);
}

// What its family says of a spec is what its source includes, all of it.
TEST(DeviceHeaders, OfASpecAreThoseOfItsSource) {
  const DeviceModel model = *BuiltinModel("h200");
  for (const auto& [name, spec] : Samples()) {
    const std::string root =
        absl::StrCat("#include \"", spec.family->Headers(spec).front(), "\"\n");
    const auto kernel = Got(Generate(spec, model), name);
    const testing::HeaderMap all = testing::DeviceHeaderMap();
    const testing::HeaderMap reached = testing::ReachedHeaders(kernel.request.source, all);
    EXPECT_EQ(reached, testing::ReachedHeaders(root, all)) << name;
    EXPECT_FALSE(reached.empty()) << name;
  }
}

// A world in which the cluster exchange is predicted to be best and another process has prepared.
struct WarmWorld : FakeWorld {
  WarmWorld() {
    cluster_us = 5;
    plan = MakeEngine()->Prepare(chain, 16, {}).value()->plan().PlanDigest();
    EXPECT_EQ(compiles, 1);
  }
  // Prepares by a new engine.
  EngineStats Again(bool must_hit = false) {
    PrepareOptions options{.must_hit = must_hit};
    const auto engine = MakeEngine();
    const auto prepared = engine->Prepare(chain, 16, options);
    status = prepared.status();
    if (prepared.ok()) {
      EXPECT_EQ((*prepared)->plan().PlanDigest(), plan);
    }
    return engine->Stats();
  }
  Digest plan;
  absl::Status status;
};

constexpr int kDamaged = static_cast<int>(MissReason::kDamaged);

TEST(DeviceHeaders, AChangeKeepsThePlanAndBuildsItsKernelsAnew) {
  WarmWorld world;
  world.cluster_header = "int faster;\n";
  const auto stats = world.Again();
  EXPECT_TRUE(world.status.ok()) << world.status;
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_EQ(stats.store.misses[kDamaged], 0u);
  EXPECT_EQ(world.compiles, 2);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 1);
  EXPECT_EQ(world.disk->Count(RecordKind::kKernel), 2);
  // Its record does not name a key, so it stays unchanged, and a sound record may be handed on.
  EXPECT_EQ(world.Again().searched, 0u);
  EXPECT_EQ(world.compiles, 2);
  const std::string key = world.disk->Keys(RecordKind::kPlan).front();
  const std::string payload = world.disk->records[{RecordKind::kPlan, key}];
  EXPECT_TRUE(world.MakeEngine()->CheckStored(RecordKind::kPlan, key, payload).ok());
  world.cluster_header = "int fastest;\n";
  EXPECT_TRUE(world.MakeEngine()->CheckStored(RecordKind::kPlan, key, payload).ok());
}

TEST(DeviceHeaders, AChangeThatItsKernelsDoNotReachVoidsNothing) {
  FakeWorld world;  // the grid exchange is best
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  world.cluster_header = "int faster;\n";
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().searched, 0u);
  EXPECT_EQ(world.compiles, 1);
}

TEST(DeviceHeaders, UnderMustHitAChangedKernelIsAMiss) {
  WarmWorld world;
  world.cluster_header = "int faster;\n";
  world.Again(/*must_hit=*/true);
  EXPECT_EQ(StatusNumber(world.status), static_cast<int32_t>(ErrorCode::kCacheMiss));
  EXPECT_TRUE(Says(world.status, "is not in the cache"));
  EXPECT_EQ(world.compiles, 1);
  world.Again();
  world.Again(/*must_hit=*/true);
  EXPECT_TRUE(world.status.ok()) << world.status;
  EXPECT_EQ(world.compiles, 2);
}

TEST(DeviceHeaders, ARecordThatLiesBesideIsMadeAgain) {
  WarmWorld world;
  const std::string key = world.disk->Keys(RecordKind::kPlan).front();
  std::string& payload = world.disk->records[{RecordKind::kPlan, key}];
  PlanRecord record = DecodePlanRecord(payload).value();
  record.variants.front().decisions.kernels.clear();
  record.variants.front().sources.clear();
  payload = EncodePlanRecord(record);
  world.cluster_header = "int faster;\n";
  const auto stats = world.Again();
  EXPECT_TRUE(world.status.ok()) << world.status;
  EXPECT_EQ(stats.searched, 1u);
  EXPECT_EQ(stats.store.misses[kDamaged], 1u);
}

}  // namespace
}  // namespace sinter
