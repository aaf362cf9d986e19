// Each tuning set in the tree serves this version of the kernels: a look-up takes each of its
// entries.
#include "tests/unit/engine/engine_tests.h"
#include "tests/unit/fusion/assembly/chains.h"

namespace sinter {
namespace {

// The test runs in the root of the source tree.
constexpr char kFolder[] = "tests/bench/results";
constexpr char kProblem[] = "gemm_chain m=16 n=256 k=128 l=128 act=relu layout=oi dtype=bf16";

// The planner and the code generator of the library, without a GPU.
void MakeReal(FakeWorld& world) {
  world.has_gpu = false;
  world.normal = NormalFormOf;
  world.plan = PlanChain;
  world.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  world.device_headers = DeviceHeadersDigest();
}

using Chains = std::map<Digest, Chain>;

// A line for each entry that a look-up does not take: which, and why.
std::vector<std::string> NotTaken(const TuningSet& set, const Chains& chains) {
  std::vector<std::string> lines;
  for (const auto& [key, entry] : set.entries()) {
    const std::string name = absl::StrCat("chain ", key.chain.Hex(), " m ", key.bucket, ": ");
    const auto chain = chains.find(key.chain);
    if (chain == chains.end()) {
      lines.push_back(absl::StrCat(name, "the problem lists have no such chain"));
      continue;
    }
    for (const std::string& model : BuiltinModelNames()) {
      if (ChipDigest(*BuiltinModel(model)) != key.chip) continue;
      FakeWorld world;
      MakeReal(world);
      world.model = *BuiltinModel(model);
      world.tuning = std::make_shared<const TuningSet>(set);
      const auto found = world.MakeEngine()->Search(
          chain->second, key.bucket,
          {.batch_invariant = RequestOfFlags(key.flags).batch_invariant});
      if (found.ok() && found->measured) continue;
      lines.push_back(absl::StrCat(name, absl::StrJoin(world.log, "; ")));
    }
  }
  return lines;
}

// A set of one choice, as a tuning would make it.
TuningSet SetOf(const Chain& chain) {
  FakeWorld world;
  PlanningHooks hooks;
  hooks.generate = [](const KernelSpec& spec, const DeviceModel& model) {
    return Generate(spec, model);
  };
  const EngineCore core(world.MakePorts(), Config(), LogSink(), std::move(hooks));
  PlanRequest request{.form = *NormalFormOf(std::make_shared<const Chain>(chain)), .bucket = 16};
  const FusionResult ranked = *PlanChain(request.planned(), 16, world.model, {});
  TuningSet set;
  set.Add(*MakeTuningEntry(request, core, ranked, ranked.alternatives.front(), {}));
  return set;
}

// The test reads all files before it makes a chain, because the folder may hold no set.
TEST(KeptSets, EachEntryOfEachSetInTheTreeIsTaken) {
  ASSERT_TRUE(std::filesystem::is_directory(kFolder));
  TuningSet all;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kFolder)) {
    if (file.path().extension() != ".set") continue;
    const absl::StatusOr<TuningSet> set = ReadTuningFile(file.path());
    ASSERT_TRUE(set.ok()) << set.status();
    all.Merge(*set);
  }
  Chains chains;
  if (!all.entries().empty()) {
    for (testing::NamedChain& of : testing::ListedChains()) {
      chains.emplace(of.chain.CanonicalDigest(), std::move(of.chain));
    }
  }
  EXPECT_THAT(NotTaken(all, chains), IsEmpty());
}

// The look-up above tells a set that serves from one that does not.
TEST(KeptSets, ASetOfChangedKernelsIsFound) {
  const Chain chain = ParseProblem(kProblem)->chain;
  const Chains chains = {{chain.CanonicalDigest(), chain}};
  TuningSet set = SetOf(chain);
  EXPECT_THAT(NotTaken(set, chains), IsEmpty());
  EXPECT_THAT(NotTaken(set, {}), ElementsAre(HasSubstr("the problem lists have no such chain")));
  TuningEntry entry = set.entries().begin()->second;
  PlanRecord record = *DecodePlanRecord(entry.record);
  record.choice->kernels.front() = Sha256("another kernel");
  entry.record = EncodePlanRecord(record);
  set.Add(entry);
  EXPECT_THAT(NotTaken(set, chains),
              ElementsAre(HasSubstr("kernel 0 changed since it was measured")));
}

}  // namespace
}  // namespace sinter
