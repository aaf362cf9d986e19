// If the compiler refuses one kernel of a graph, only that kernel is replaced. The planner and the
// code generator are real; the compiler refuses the sources that the test names.

#include "src/base/refusal.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// Plans and generates as the library does, and has no GPU.
struct RealWorld : FakeWorld {
  explicit RealWorld(Chain of) {
    chain = std::move(of);
    plan = PlanChain;
    generate = [this](const KernelSpec& spec, const DeviceModel& m) {
      ++generated;
      return Generate(spec, m);
    };
    recipe = [](const KernelSpec& spec) { return RecipeOf(spec); };
    device_headers = DeviceHeadersDigest();
    has_gpu = false;
    replaces = true;
  }
  Plan Prepared() {
    const auto prepared = MakeEngine()->Prepare(chain, 1, {});
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? (*prepared)->plan() : Plan();
  }
};

// A layer of a vision model between products, three times.
Chain Layers() {
  ChainReader r("x: bf16[512,256]");
  for (int layer = 0; layer < 3; ++layer) {
    r.Add(
        "wide = f32(x); centred = wide - spread(mean(wide, 1, keep), wide);"
        "scale = rsqrt(mean(centred * centred, 1, keep));"
        "rows = bf16(centred * spread(scale, centred));"
        "up = bf16(rows @ {const bf16[512,256]}.T);"
        "down = bf16(sin(f32(up))) @ {const bf16[256,512]}.T;"
        "x = bf16(wide + f32(bf16(down)))");
  }
  r.Add("out x");
  return r.Finish();
}

std::string SourceOf(const PlannedKernel& kernel, const DeviceModel& model) {
  return Generate(kernel.spec, model)->request.source;
}

// Kernels of `a` whose code `b` has not.
std::vector<KernelOps> Others(const Plan& a, const Plan& b, const DeviceModel& model) {
  std::set<std::string> known;
  for (const PlannedKernel& kernel : b.kernels) known.insert(SourceOf(kernel, model));
  std::vector<KernelOps> others;
  for (const PlannedKernel& kernel : a.kernels) {
    if (known.count(SourceOf(kernel, model)) == 0) others.push_back(kernel.ops);
  }
  return others;
}

TEST(ReplacementTest, EachKernelOfAGraphIsReplacedAlone) {
  RealWorld sound(Layers());
  const Plan planned = sound.Prepared();
  ASSERT_TRUE(planned.fused);
  ASSERT_GT(planned.kernels.size(), 5u);
  int replaced = 0;
  for (size_t i = 0; i < planned.kernels.size(); i += 2) {
    const std::string source = SourceOf(planned.kernels[i], sound.model);
    RealWorld world(Layers());
    world.spills = [&](const CompileRequest& request) { return request.source == source; };
    const Plan plan = world.Prepared();
    EXPECT_TRUE(plan.fused);
    EXPECT_EQ(plan.kernels.size(), planned.kernels.size()) << i;
    const std::vector<KernelOps> gone = Others(planned, plan, world.model);
    EXPECT_TRUE(gone == Others(plan, planned, world.model)) << "kernel " << i << ": the same ops";
    ASSERT_FALSE(gone.empty()) << i;
    EXPECT_LE(gone.size(), 3u) << "a kernel of each layer at most";
    replaced += static_cast<int>(gone.size());
    EXPECT_THAT(plan.note, HasSubstr("replaced, the compiler refused the planned one"));
    EXPECT_THAT(world.log, Not(Contains(HasSubstr("does not run"))));
  }
  EXPECT_GE(replaced, 3);
}

// A kernel of normalised rows that needs too many registers however it is scheduled: its ops are
// split, the others stay.
TEST(ReplacementTest, AStitchedKernelWithoutAScheduleIsSplitAndNoOther) {
  RealWorld world(
      ReadChain("x: f32[4096,1024]; a = sin(x); b = erf(a - spread(mean(a, 1, keep), a)); out b; "
                "y: f32[512,64]; out reduce_max(y, 0, keep)"));
  // The kernel that has both the sine and the error function spills.
  world.spills = [](const CompileRequest& request) {
    return absl::StrContains(request.source, "sin(") && absl::StrContains(request.source, "erf(");
  };
  RealWorld sound(world.chain);
  const Plan planned = sound.Prepared();
  const Plan plan = world.Prepared();
  EXPECT_TRUE(plan.fused);
  ASSERT_EQ(planned.kernels.size(), 1u) << "both outputs are packed into one kernel";
  EXPECT_EQ(plan.kernels.size(), 3u) << plan.ToText();
  EXPECT_LE(world.compiles, 3 + 2 * kMostTriedOfAKernel);
}

// Kernels that are built stay built while others are replaced.
TEST(ReplacementTest, SourcesAreMadeOnceAndKernelsCompiledOnce) {
  RealWorld sound(Layers());
  const Plan planned = sound.Prepared();
  std::set<std::string> sources;
  for (const PlannedKernel& kernel : planned.kernels) sources.insert(SourceOf(kernel, sound.model));
  EXPECT_EQ(sound.compiles, static_cast<int>(sources.size()));
  const std::string first = SourceOf(planned.kernels.front(), sound.model);
  RealWorld world(Layers());
  world.spills = [&](const CompileRequest& request) { return request.source == first; };
  world.Prepared();
  EXPECT_EQ(world.compiles, sound.compiles + 1);
  EXPECT_LE(world.generated, sound.generated + 1);
}

// Results learned under another compiler than the record's are in the record that names its
// kernels.
TEST(ReplacementTest, IsKeptWhereAnotherCompilerRefusedTheKernel) {
  RealWorld world(Layers());
  const Plan planned = world.Prepared();
  const std::string first = SourceOf(planned.kernels.front(), world.model);
  world.toolchain = "nvrtc-13.1-bbbb";
  world.build_id = "";  // so that the record serves until a kernel is missing
  for (const std::string& key : world.disk->Keys(RecordKind::kKernel)) {
    world.disk->records.erase({RecordKind::kKernel, key});
  }
  world.spills = [&](const CompileRequest& request) { return request.source == first; };
  const Plan replaced = world.Prepared();
  EXPECT_THAT(replaced.note, HasSubstr("replaced, the compiler refused the planned one"));
  const int compiles = world.compiles;
  const Plan again = world.Prepared();
  EXPECT_EQ(world.compiles, compiles) << "what was refused is not asked for again";
  EXPECT_EQ(again.PlanDigest(), replaced.PlanDigest());
}

// Why no kernel takes the place of a refused one, in the numbers of the caller's ops.
TEST(ReplacementTest, RefusalsNameTheCallersOps) {
  RealWorld world(
      ReadChain("x: f32[4096,1024]; a = sin(reshape(reshape(x, [1024,4096]), [4096,1024]));"
                "out erf(a - spread(mean(a, 1, keep), a)); y: f32[512,64];"
                "out reduce_max(y, 0, keep)"));
  world.normal = NormalFormOf;
  world.spills = [](const CompileRequest& r) { return absl::StrContains(r.source, "sin("); };
  ValueId sine = 0;
  while (world.chain.op(sine).unary != UnaryKind::kSin ||
         world.chain.op(sine).kind != OpKind::kUnary) {
    ++sine;
  }
  ASSERT_EQ(sine, 3) << "behind two ops that the normal form has not";
  const absl::Status status = world.MakeEngine()->Prepare(world.chain, 1, {}).status();
  EXPECT_TRUE(Says(status, "no other takes its place: op 3: "));
  EXPECT_EQ(OpOf(status), 3);
}

// SINTER_SPILL_GRAPH: a chain's JSON file, for example of a whole vision model.
TEST(ReplacementTest, OfALargeGraphFromAFile) {
  const char* const path = getenv("SINTER_SPILL_GRAPH");
  if (path == nullptr) GTEST_SKIP() << "SINTER_SPILL_GRAPH is not set";
  const Chain chain = Got(ChainFromJson(FileText(path)));
  RealWorld sound(chain);
  const Plan planned = sound.Prepared();
  std::set<std::string> spilling;
  for (size_t i = 0; i < planned.kernels.size(); i += 10) {
    spilling.insert(SourceOf(planned.kernels[i], sound.model));
  }
  RealWorld world(chain);
  world.spills = [&](const CompileRequest& r) { return spilling.count(r.source) > 0; };
  const Plan plan = world.Prepared();
  EXPECT_EQ(plan.kernels.size(), planned.kernels.size());
  EXPECT_GE(Others(planned, plan, world.model).size(), spilling.size());
  EXPECT_LT(plan.PredictedUs(), 1.1 * planned.PredictedUs());
}

}  // namespace
}  // namespace sinter
