// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 writes the corpus anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/chain/problem.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"
#include "tests/fuzz/mutate.h"

namespace sinter::tuning_set_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/tuning_set/corpus";  // the test runs in the root of the tree

TuningEntry EntryOf(const char* line, const DeviceModel& model) {
  const Chain chain = ParseProblem(line)->chain;
  Plan plan = PlanChain(chain, 16, model, {})->chosen;
  plan.runners_up.clear();
  plan.note.clear();
  TuningEntry entry;
  entry.key = {chain.CanonicalDigest(), 16, ChipDigest(model), 0};
  entry.chip = "h200";
  entry.plan = std::string(plan.name());
  entry.device = "an H200";
  entry.driver = "CUDA 13.0";
  entry.predicted_us = plan.PredictedUs();
  entry.measured_us = 7.5;
  for (const PlannedKernel& kernel : plan.kernels) {
    entry.schedules.push_back(ScheduleText(kernel.spec));
    entry.kernels.push_back(Sha256(entry.schedules.back()));
  }
  entry.bytes = EncodeDecisions(DecisionsOf(plan));
  return entry;
}

void WriteCorpus() {
  const DeviceModel model = *BuiltinModel("h200");
  TuningSet set;
  const auto write = [&](const char* name) {
    std::ofstream(absl::StrCat(kCorpus, "/", name), std::ios::binary) << set.ToText();
  };
  write("empty");
  set.Add(EntryOf("gemm_chain m=16 n=256 k=128 l=128 act=relu layout=oi dtype=bf16", model));
  write("one");
  set.Add(EntryOf("softmax rows=M cols=96", model));
  write("two");
}

TEST(TuningSetFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  std::mt19937_64 random(7);
  int files = 0, executions = 0;
  for (const auto& file : std::filesystem::directory_iterator(kCorpus)) {
    const std::string seed = ReadFile(file.path());
    EXPECT_TRUE(TuningSet::FromText(seed).ok()) << file.path();
    Replay(Target, seed);
    ++files;
    for (int i = 0; i < 2000; ++i, ++executions) Replay(Target, Mutate(seed, &random, 0));
  }
  EXPECT_GE(files, 3);
  std::cout << "tuning set fuzz: executions " << executions << ", deaths 0\n";
}

}  // namespace
}  // namespace sinter::tuning_set_fuzz
