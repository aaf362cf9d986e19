// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus.
#include <gtest/gtest.h>

#include "src/chain/problem.h"
#include "src/engine/keys.h"
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
  FusionResult planned = PlanChain(chain, 16, model, {}).value();
  const double predicted_us = planned.chosen.PredictedUs();
  PlanRecord record = MakePlanRecord(std::move(planned));
  record.chain = chain.CanonicalDigest();
  record.bucket = 16;
  record.choice.emplace();
  record.choice->measured_us = 7.5;
  record.choice->device = "an H200";
  record.choice->driver = "CUDA 13.0";
  for (PlanVariant& variant : record.variants) {
    variant.sources.resize(variant.decisions.kernels.size());
  }
  TuningEntry entry;
  entry.key = {record.chain, 16, ChipDigest(model), 0};
  entry.about = absl::StrCat("on h200\npredicted_us ", predicted_us, "\nmeasured_us 7.5\n");
  for (const PlannedKernel& kernel : record.variants.front().plan.kernels) {
    const std::string schedule = ScheduleText(kernel.spec);
    absl::StrAppend(&entry.about, "schedule ", schedule, "\n");
    record.choice->kernels.push_back(Sha256(schedule));
  }
  entry.record = EncodePlanRecord(record);
  return entry;
}

void WriteCorpus() {
  const DeviceModel model = *BuiltinModel("h200");
  TuningSet set;
  const auto write = [&](const char* name) {
    WriteSeed(absl::StrCat(kCorpus, "/", name), set.ToText());
  };
  write("empty");
  set.Add(EntryOf("gemm_chain m=16 n=256 k=128 l=128 act=relu layout=oi dtype=bf16", model));
  write("one");
  set.Add(EntryOf("softmax rows=M cols=96", model));
  write("two");
}

TEST(TuningSetFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  EXPECT_GE(ReplayCorpus(Target, kCorpus, 2000, 0,
                         [](const std::string& name, const std::string& seed) {
                           EXPECT_TRUE(TuningSet::FromText(seed).ok()) << name;
                         }),
            3);
}

}  // namespace
}  // namespace sinter::tuning_set_fuzz
