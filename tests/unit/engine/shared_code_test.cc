#include "src/stitch/precision.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// Kernels of equal code are compiled, stored and loaded once: real planning and code generation, a
// compiler that counts.

struct CodeWorld : FakeWorld {
  CodeWorld() {
    resident_clusters = 1000;
    compute = false;
    plan = PlanChain;
    generate = [](const KernelSpec& spec, const DeviceModel& m) { return Generate(spec, m); };
  }
};

// x + W2 act(W1 softmax(x)), again and again: a stitched kernel and products a layer.
Chain LayersAfter(absl::string_view others, int layers) {
  ChainReader chain(absl::StrCat(others, "x: bf16[M,256]"));
  for (int i = 0; i < layers; ++i) {
    chain.Add(
        "c = bf16(linear(bf16(softmax(x, 1)), {const bf16[512,256]}, none, relu)); "
        "x = bf16(linear(c, {const bf16[256,512]}, none) + f32(x))");
  }
  chain.Out(chain["x"]);
  return chain.Finish();
}

Chain LayersAlone(int layers) { return LayersAfter("", layers); }

// The same layers after another output with kernels of its own, so that all buffers and workspace
// offsets differ.
Chain LayersBesideANorm(int layers) {
  return LayersAfter("z: bf16[M,4096]; out bf16(rmsnorm(z, 1e-6)); ", layers);
}

std::set<std::string> DistinctCodesOf(const Plan& plan) {
  std::set<std::string> codes;
  for (const PlannedKernel& kernel : plan.kernels) {
    const KernelCode code = *CodeOf(kernel.spec);
    codes.insert(code.Bytes() + code.ScheduleBytes());
  }
  return codes;
}

// Compiles of one Prepare in a fresh world.
int CompilesOf(const Chain& chain, PrepareOptions::Choice choice) {
  CodeWorld world;
  const auto plan = world.MakeEngine()->Prepare(chain, 128, {.choice = choice});
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (plan.ok()) {
    EXPECT_EQ(world.compiles, static_cast<int>(DistinctCodesOf((*plan)->plan()).size()));
  }
  return world.compiles;
}

TEST(SharedCode, EightEqualLayersCompileWhatOneDoes) {
  for (const auto choice : {PrepareOptions::Choice::kBest, PrepareOptions::Choice::kUnfused}) {
    CodeWorld world;
    PrepareOptions options{.choice = choice};
    const auto engine = world.MakeEngine();
    const auto plan = engine->Prepare(LayersAlone(8), 128, options).value();
    const std::vector<PlannedKernel>& kernels = plan->plan().kernels;
    EXPECT_GE(kernels.size(), 16u) << "stitched kernels and products of each layer";
    EXPECT_EQ(world.compiles, CompilesOf(LayersAlone(1), choice));
    EXPECT_EQ(engine->Stats().kernels_compiled, static_cast<uint64_t>(world.compiles));
    EXPECT_EQ(engine->Stats().modules_loaded, static_cast<uint64_t>(world.compiles));
    EXPECT_EQ(engine->Stats().waits, 0u) << "a plan does not wait for itself";
    EXPECT_EQ(world.disk->Count(RecordKind::kKernel), world.compiles);
    std::set<Digest> digests;
    for (const PlannedKernel& kernel : kernels) digests.insert(kernel.kernel_digest);
    EXPECT_EQ(digests.size(), static_cast<size_t>(world.compiles));
  }
}

TEST(SharedCode, ProductsInARowToo) {
  const Chain one = ParseProblem("products m=M k=256 n=512,256 act=relu,relu")->chain;
  std::string columns = "512,256", acts = "relu,relu";
  for (int i = 1; i < 8; ++i) columns += ",512,256", acts += ",relu,relu";
  const Chain eight = ParseProblem("products m=M k=256 n=" + columns + " act=" + acts)->chain;
  const auto unfused = PrepareOptions::Choice::kUnfused;
  EXPECT_EQ(CompilesOf(eight, unfused), CompilesOf(one, unfused));
}

TEST(SharedCode, AWarmStartLoadsEachOnce) {
  CodeWorld cold, warm;
  const Chain chain = LayersAlone(8);
  ASSERT_TRUE(cold.MakeEngine()->Prepare(chain, 128, {}).ok());
  warm.disk = cold.disk;
  const auto engine = warm.MakeEngine();
  ASSERT_TRUE(engine->Prepare(chain, 128, {}).ok());
  EXPECT_EQ(warm.compiles, 0);
  EXPECT_EQ(warm.loads, cold.compiles);
  EXPECT_EQ(engine->Stats().kernel_hits, static_cast<uint64_t>(cold.compiles));
  EXPECT_EQ(warm.assembled, 1) << "the chosen plan alone";
  ASSERT_TRUE(engine->Prepare(chain, 128, {.choice = PrepareOptions::Choice::kUnfused}).ok());
  EXPECT_GT(warm.assembled, 2) << "the others when one is wanted";
}

TEST(SharedCode, BucketsOfEqualSchedulesShareTheirKernels) {
  CodeWorld world;
  const Chain chain = LayersAlone(1);
  const auto engine = world.MakeEngine();
  std::set<std::string> codes;
  size_t kernels = 0;
  for (const int64_t m : {1024, 1536, 2048, 3072, 4096}) {
    const auto plan = engine->Prepare(chain, m, {}).value();
    kernels += plan->plan().kernels.size();
    for (const std::string& code : DistinctCodesOf(plan->plan())) codes.insert(code);
    EXPECT_EQ(world.compiles, static_cast<int>(codes.size())) << m;
  }
  EXPECT_LT(codes.size(), kernels)
      << "no two buckets have equal schedules: this test holds nothing";
}

TEST(SharedCode, ContextsOfOtherBuffersShareAll) {
  CodeWorld one, other;
  const auto first = one.MakeEngine()->Prepare(LayersAlone(2), 128, {}).value();
  other.disk = one.disk;
  const auto second = other.MakeEngine()->Prepare(LayersBesideANorm(2), 128, {}).value();
  const std::set<std::string> known = DistinctCodesOf(first->plan());
  std::set<std::string> fresh;
  for (const std::string& code : DistinctCodesOf(second->plan())) {
    if (known.count(code) == 0) fresh.insert(code);
  }
  EXPECT_EQ(DistinctCodesOf(second->plan()).size(), known.size() + fresh.size())
      << "all of them again";
  EXPECT_EQ(fresh.size(), 1u) << "the norm alone";
  EXPECT_EQ(other.compiles, 1);
}

// All positions of a wrong kernel are one kernel.
TEST(SharedCode, AWrongKernelIsQuarantinedOnce) {
  CodeWorld world;
  world.run = [](const std::string&, const BufferList&, int64_t) { return absl::OkStatus(); };
  PrepareOptions options{.verify = true};
  const auto engine = world.MakeEngine();
  EXPECT_FALSE(engine->Prepare(LayersAlone(4), 16, options).ok()) << "nothing is computed";
  EXPECT_GT(world.disk->quarantined.size(), 0u);
  EXPECT_EQ(engine->Stats().wrong_kernels, world.disk->quarantined.size());
}

// How often a miss computes what follows only from a kernel body or from a plan: real planning and
// code generation.

struct Counts {
  int64_t precisions = 0, programs = 0, digests = 0;
};

Counts Now() { return {ComputedPrecisions(), MadeStitchPrograms(), ComputedPlanDigests()}; }

// Counts of the first Prepare of the chain, in a fresh world.
Counts OfAMiss(const std::string& problem, int64_t m) {
  FakeWorld world{.plan = PlanChain, .resident_clusters = 1000, .compute = false};
  world.generate = [](const KernelSpec& spec, const DeviceModel& m) { return Generate(spec, m); };
  const auto engine = world.MakeEngine();
  const Chain chain = ParseProblem(problem)->chain;
  const Counts before = Now();
  const auto plan = Got(engine->Prepare(chain, m, {}));
  const Counts now = Now();
  return {now.precisions - before.precisions, now.programs - before.programs,
          now.digests - before.digests};
}

void ExpectCounts(const Counts& counts, int64_t precisions, int64_t programs, int64_t digests) {
  EXPECT_EQ(counts.precisions, precisions);
  EXPECT_EQ(counts.programs, programs);
  EXPECT_EQ(counts.digests, digests);
}

// Searching, assembling and writing source make bodies of their own: each has its precisions and
// programs once.
TEST(ComputedOnce, InAMissOfASoftmax) {
  ExpectCounts(OfAMiss("softmax rows=M cols=4096 dtype=bf16", 1024), 7, 10, 24);
}

// Its epilogue has a form in the device library, so nothing asks how exactly it is computed.
TEST(ComputedOnce, InAMissOfAGatedFfn) {
  ExpectCounts(OfAMiss("gated_ffn m=M n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16", 128), 0,
               0, 24);
}

// The end of each grouped product is a program, and has precisions.
TEST(ComputedOnce, InAMissOfExperts) {
  const char* problem = "grouped_gated_ffn m=M experts=8 top=2 n=768 k=1024 l=1024 act=silu";
  ExpectCounts(OfAMiss(problem, 128), 7, 7, 24);
}

}  // namespace
}  // namespace sinter
