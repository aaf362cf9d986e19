// Tuning of stitched chains: real planning and code generation, and a device that computes, kernel
// by kernel, what each spec says.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

constexpr char kOtherNorm[] = "layernorm rows=32 cols=4096 eps=1e-3 affine=1 dtype=bf16";
constexpr char kNorm[] = "layernorm rows=32 cols=4096 eps=1e-5 affine=1 dtype=bf16";

class StitchTuneTest : public ::testing::Test {
 protected:
  StitchTuneTest() {
    world.chain = ParseProblem(kNorm)->chain;
    world.plan = PlanChain;
    world.generate = [this](const KernelSpec& spec, const DeviceModel& model) {
      absl::StatusOr<GeneratedKernel> kernel = Generate(spec, model);
      if (!kernel.ok()) return kernel;
      // The entry tells codes apart, the recipe launches of one code.
      kernel->recipe.entry = kernel->request.entry = kernel->request.name =
          absl::StrCat("k", Sha256(kernel->request.source).Hex());
      const std::string name = ScheduleText(spec) + ProblemText(spec);
      std::lock_guard<std::mutex> lock(mutex);
      specs.emplace(name, spec);
      names.emplace(kernel->recipe.Encode(), name);
      return kernel;
    };
    world.name = [this](const LaunchRecipe& recipe) {
      std::lock_guard<std::mutex> lock(mutex);
      return names.at(recipe.Encode());
    };
    world.poisons = true;
    world.run = [this](const std::string& entry, const BufferList& buffers, int64_t m) {
      return Run(entry, buffers, m);
    };
  }

  absl::Status Run(const std::string& entry, const BufferList& buffers, int64_t m) {
    const KernelBodyPtr body = [&] {
      std::lock_guard<std::mutex> lock(mutex);
      return specs.at(entry).body;
    }();
    const auto* const spec = BodyAs<StitchSpec>(body);
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (size_t i = 0; i < spec->operands.size(); ++i) {
      const BufferPlace& operand = spec->operands[i];
      const DevicePtr base =
          operand.buffer == kWorkspaceBuffer ? buffers.workspace : buffers.pointers[operand.buffer];
      void* const at = reinterpret_cast<void*>(base + operand.offset_bytes);
      if (static_cast<int>(i) < spec->body.num_inputs())
        inputs.push_back(at);
      else
        outputs.push_back(at);
    }
    return RunReference(spec->body, m, inputs, outputs);
  }

  FusionResult Planned(bool for_tuning) const {
    return PlanChain(world.chain, 32, world.model, {.for_tuning = for_tuning}).value();
  }

  FakeWorld world;
  std::mutex mutex;
  std::map<std::string, KernelSpec> specs;   // by name; under mutex
  std::map<std::string, std::string> names;  // by the bytes of a recipe; under mutex
};

std::set<std::string> FusedSchedules(const FusionResult& planned) {
  std::set<std::string> schedules;
  const auto add = [&](const Plan& plan) {
    if (plan.kernels.size() == 1) schedules.insert(ScheduleText(plan.kernels[0].spec));
  };
  add(planned.chosen);
  for (const Plan& plan : planned.alternatives) add(plan);
  return schedules;
}

// The name of a fused kernel that planning by prediction does not offer.
std::string OfferedToTuningAlone(const FusionResult& known, const FusionResult& offered) {
  const std::set<std::string> ranked = FusedSchedules(known);
  std::string name;
  for (const Plan& plan : offered.alternatives) {
    if (plan.kernels.size() != 1) continue;
    const KernelSpec& spec = plan.kernels[0].spec;
    if (ranked.count(ScheduleText(spec)) == 0) name = ScheduleText(spec) + ProblemText(spec);
  }
  return name;
}

TEST_F(StitchTuneTest, IsOfferedKindsThatPredictionRanksLow) {
  const std::set<std::string> ranked = FusedSchedules(Planned(false));
  const std::set<std::string> offered = FusedSchedules(Planned(true));
  EXPECT_LE(ranked.size(), 11u);
  EXPECT_GT(offered.size(), 22u);
}

TEST_F(StitchTuneTest, TakesTheFastestHoweverLowItRanks) {
  const std::string fastest = OfferedToTuningAlone(Planned(false), Planned(true));
  ASSERT_FALSE(fastest.empty());
  world.times = {{fastest, 5}};
  const TuneResult result = world.MakeEngine()->Tune(world.chain, 32, {}).value();
  ASSERT_NE(result.entry, nullptr) << result.report;
  EXPECT_EQ(DecodePlanRecord(result.entry->record)->choice->measured_us, 5) << result.report;
  auto set = std::make_shared<TuningSet>();
  set->Add(*result.entry);
  world.tuning = set;
  const auto prepared = Got(world.MakeEngine()->Prepare(world.chain, 32, {}));
  const KernelSpec& taken = prepared->plan().kernels[0].spec;
  EXPECT_EQ(ScheduleText(taken) + ProblemText(taken), fastest);
}

TEST_F(StitchTuneTest, AnEntryOfOtherOpsIsNotTaken) {
  TuningEntry entry = *world.MakeEngine()->Tune(world.chain, 32, {})->entry;
  const TuningKey key = entry.key;
  world.chain = ParseProblem(kOtherNorm)->chain;
  entry = *world.MakeEngine()->Tune(world.chain, 32, {})->entry;
  world.chain = ParseProblem(kNorm)->chain;
  entry.key = key;
  auto set = std::make_shared<TuningSet>();
  set->Add(entry);
  world.tuning = set;
  const auto prepared = Got(world.MakeEngine()->Prepare(world.chain, 32, {}));
  EXPECT_EQ(StitchOf(prepared->plan().kernels[0].spec)->body, world.chain);
}

// What such a chain moves are its inputs and outputs: they come from memory and go there.
TEST_F(StitchTuneTest, InputsAndOutputsRotateAndOutputsAreNotUploaded) {
  ASSERT_TRUE(world.MakeEngine()->Tune(world.chain, 32, {}).ok());
  constexpr uint64_t kInputBytes = 32 * 4096 * 2 + 2 * 4096 * 2;
  EXPECT_EQ(world.calls, RotationSets(kInputBytes + 32 * 4096 * 2));
  EXPECT_EQ(world.uploaded, static_cast<uint64_t>(world.calls) * kInputBytes);
}

// A plan that ran before left what is right where the next one writes: it must not pass for its.
TEST_F(StitchTuneTest, OutputsArePoisonedBeforeTheyAreCompared) {
  const std::string idle = OfferedToTuningAlone(Planned(false), Planned(true));
  ASSERT_FALSE(idle.empty());
  int skipped = 0;
  world.run = [&](const std::string& entry, const BufferList& buffers, int64_t m) {
    if (entry != idle) return Run(entry, buffers, m);
    ++skipped;
    return absl::OkStatus();
  };
  const TuneResult result = world.MakeEngine()->Tune(world.chain, 32, {}).value();
  EXPECT_EQ(skipped, 1) << "checked once, and found wrong before it was timed\n" << result.report;
  EXPECT_NE(result.report.find("wrong: "), std::string::npos) << result.report;
}

}  // namespace
}  // namespace sinter
