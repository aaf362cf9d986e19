// How often a miss computes what follows only from a kernel body or from a plan: real planning and
// code generation.
#include "src/stitch/precision.h"
#include "src/stitch/program.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

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
