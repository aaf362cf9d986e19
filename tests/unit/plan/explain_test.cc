// What the search tells of a plan: levels, why a candidate lost, where a constant comes from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "src/plan/report/cost_report.h"
#include "src/plan/report/loss_reason.h"
#include "src/plan/report/model_notes.h"
#include "src/plan/report/plan_report.h"
#include "src/product/search/search.h"
#include "tests/support/sequences.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const DeviceModel& H200() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

// A plan of one kernel whose times are given, level by level.
Plan PlanOf(const Schedule& schedule, const Prediction& times) {
  Plan plan;
  plan.fused = true;
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), schedule);
  kernel.prediction = times;
  plan.kernels = {kernel};
  return plan;
}

Prediction Times(double total, double intake, double dsm = 1, double fixed = 4) {
  Prediction p;
  p.total_us = total;
  p.hbm_us = 4;
  p.intake_us = intake;
  p.dsm_us = dsm;
  p.fixed_us = fixed;
  p.hbm_bytes = 19e6;
  p.l2_bytes = 40e6;
  p.dsm_bytes = 1e6;
  p.bound = "intake";
  return p;
}

Schedule Grid() { return SampleSchedule(SampleS8(), Dataflow::kGridExchange); }

TEST(WhyNotChosen, NamesTheLevelThatGrewAndWhatMadeItGrow) {
  Schedule narrow = Grid();
  narrow.first.block_n = 16;  // A is read by twice as many tiles
  const std::string why =
      WhyNotChosen(PlanOf(narrow, Times(12, 2.5)), PlanOf(Grid(), Times(11, 1)), H200());
  EXPECT_THAT(why, StartsWith("predicted 1.00 us slower: intake +1.50 us ("));
  EXPECT_THAT(why, HasSubstr("rows read 192 times, chosen 96"));
}

TEST(WhyNotChosen, NamesAtMostTwoLevelsMostFirst) {
  Prediction slow = Times(14, 8, 2.5, 5.5);
  slow.hbm_us = 6;
  const std::string why = WhyNotChosen(PlanOf(Grid(), slow), PlanOf(Grid(), Times(11, 7)), H200());
  EXPECT_THAT(why, StartsWith("predicted 3.00 us slower: hbm +2.00 us (19 MB, chosen 19 MB)"));
  EXPECT_THAT(why, HasSubstr(", dsm +1.50 us"));
  EXPECT_THAT(why, Not(HasSubstr("fixed")));
}

TEST(WhyNotChosen, LeavesOutWhatIsSmallBesideTheLargest) {
  const std::string why =
      WhyNotChosen(PlanOf(Grid(), Times(13, 9, 1.1)), PlanOf(Grid(), Times(11, 7)), H200());
  EXPECT_THAT(why, Not(HasSubstr("dsm")));
}

TEST(WhyNotChosen, SaysHowKIsSplit) {
  Schedule split = Grid();
  split.first.split_k = 4;
  Prediction times = Times(12, 7, 2);
  times.dsm_bytes = 3e6;
  EXPECT_THAT(WhyNotChosen(PlanOf(split, times), PlanOf(Grid(), Times(11, 7)), H200()),
              HasSubstr("dsm +1.00 us (3 MB, chosen 1 MB: K over 4 and 4 blocks, chosen 1 and 4)"));
}

TEST(WhyNotChosen, CountsLaunches) {
  Plan two = PlanOf(Grid(), Times(7, 3.5, 0.5, 3));
  two.kernels.push_back(two.kernels[0]);
  EXPECT_THAT(WhyNotChosen(two, PlanOf(Grid(), Times(11, 7)), H200()),
              HasSubstr("fixed +2.00 us (2 launches, chosen 1)"));
}

TEST(WhyNotChosen, ATieAndABalanceAreSaidAsSuch) {
  const Plan chosen = PlanOf(Grid(), Times(11, 7));
  EXPECT_EQ(WhyNotChosen(chosen, chosen, H200()), "predicted equal, later in order");
  EXPECT_EQ(WhyNotChosen(PlanOf(Grid(), Times(11.5, 7)), chosen, H200()),
            "predicted 0.50 us slower: less is loaded while c is handed over");
}

TEST(WhyNotChosen, NamesLevelsKernelsAndBytesOfStitchedPlans) {
  const auto graph = [](size_t kernels, double hbm, double bytes, double fixed, double total) {
    Plan plan;
    for (size_t i = 0; i < kernels; ++i) {
      PlannedKernel kernel;
      kernel.spec.family = &StitchFamily();
      kernel.spec.stitch = std::make_shared<StitchSpec>();
      kernel.prediction.hbm_us = hbm;
      kernel.prediction.hbm_bytes = bytes;
      kernel.prediction.fixed_us = fixed;
      kernel.prediction.total_us = total;
      plan.kernels.push_back(kernel);
    }
    return plan;
  };
  const Plan chosen = graph(1, 1, 2e6, 0.6, 2);
  EXPECT_EQ(
      WhyNotChosen(graph(4, 1, 2e6, 0.6, 2), chosen, H200()),
      "predicted 6.00 us slower: hbm +3.00 us (8 MB, chosen 2 MB), fixed +1.80 us (4 kernels, "
      "chosen 1)");
  EXPECT_EQ(WhyNotChosen(graph(1, 1.5, 2e6, 0.6, 2.5), chosen, H200()),
            "predicted 0.50 us slower: hbm +0.50 us (2 MB by fewer SMs)");
  EXPECT_EQ(WhyNotChosen(graph(1, 1, 2e6, 0.6, 2.25), chosen, H200()),
            "predicted 0.25 us slower: instructions and waits +0.25 us");
  EXPECT_EQ(WhyNotChosen(chosen, chosen, H200()), "predicted equal, later in order");
  EXPECT_EQ(WhyNotChosen(graph(1, 1, 2e6, 0.6, 2.001), chosen, H200()),
            "predicted less than 0.01 us slower");
}

TEST(WhyNotChosen, NeverCrashesOnWhatCannotBeSized) {
  Schedule none;
  none.block_m = none.block_k = none.stages = none.grid = none.cluster = 0;
  EXPECT_THAT(WhyNotChosen(PlanOf(none, Times(12, 9)), PlanOf(Grid(), Times(11, 7)), H200()),
              StartsWith("predicted 1.00 us slower"));
  EXPECT_EQ(WhyNotChosen(Plan(), Plan(), H200()), "predicted equal, later in order");
}

TEST(WhyNotChosen, ExplainsEveryRunnerUpOfASearch) {
  for (const ProductSequence& p : {SampleS8(), SampleG7(), FirstOf(SampleS8())}) {
    const auto found = SearchSchedules(p, H200(), {});
    ASSERT_TRUE(found.ok());
    std::vector<Plan> plans;
    for (const RankedSchedule& r : found->ranked) {
      plans.push_back(PlanOf(r.schedule, r.prediction));
      plans.back().kernels[0].spec.sequence = p;
    }
    for (size_t i = 1; i < plans.size(); i++) {
      const std::string why = WhyNotChosen(plans[i], plans[0], H200());
      EXPECT_THAT(why, StartsWith("predicted "));
      EXPECT_THAT(why, Not(HasSubstr("()"))) << why;
      EXPECT_LT(why.size(), 300u) << why;
    }
  }
}

TEST(LevelsOf, NamesEachLevelOnceAndMarksTheBound) {
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    PlannedKernel kernel;
    kernel.spec = SampleSpec(SampleS8(), dataflow);
    kernel.prediction = Predict(kernel.spec.sequence, kernel.spec.schedule, H200());
    const std::vector<LevelCost> levels = LevelsOf(kernel, H200());
    ASSERT_EQ(levels.size(), LevelTerms().size());
    for (size_t i = 0; i < levels.size(); i++) {
      EXPECT_EQ(levels[i].level, LevelTerms()[i].name);
      EXPECT_EQ(levels[i].us, kernel.prediction.*LevelTerms()[i].us);
    }
    EXPECT_EQ(
        std::count_if(levels.begin(), levels.end(), [](const LevelCost& l) { return l.bound; }), 1);
    EXPECT_GT(FactsOf(kernel, H200()).block_bytes, 0);
  }
}

TEST(LevelsOf, ConstantsAreFieldsOfTheModel) {
  const std::vector<ModelNote> notes = NotesOf(H200());
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  for (const LevelCost& level : LevelsOf(kernel, H200())) {
    for (absl::string_view key : absl::StrSplit(level.constant, ' ')) {
      EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [&](const ModelNote& n) {
        return n.key == key;
      })) << key;
    }
  }
}

std::string SourceOf(const DeviceModel& model, const std::string& key) {
  for (const ModelNote& note : NotesOf(model)) {
    if (note.key == key) return note.source;
  }
  return "no such key";
}

TEST(ModelNotes, QuoteTheModelFilesComments) {
  EXPECT_THAT(SourceOf(H200(), "hbm_bytes_per_us"), HasSubstr("cp.async.bulk read stream"));
  const DeviceModel h100 = *BuiltinModel("h100");
  EXPECT_EQ(SourceOf(h100, "stage_us"), SourceOf(H200(), "stage_us")) << "taken over as it is";
  EXPECT_THAT(SourceOf(h100, "stitch_step_us"),
              AllOf(HasSubstr("times the clock ratio"), HasSubstr("; there: 650 schedules")));
  EXPECT_THAT(HeadNoteOf(*BuiltinModel("h100")), HasSubstr("Of no card: figures of the h200"));
}

TEST(ModelNotes, EveryFigureOfTheMeasuredModelHasACommentOfItsOwn) {
  for (const ModelNote& note : NotesOf(H200())) {
    EXPECT_NE(note.source, "as the model says at its head") << note.key;
    EXPECT_EQ(note.provenance, H200().provenance.at(note.key).ToText());
  }
}

TEST(ModelNotes, SayWhereAValueIsNotTheBuiltInOne) {
  DeviceModel model = H200();
  model.sm_count = 114;
  EXPECT_EQ(SourceOf(model, "sm_count"), "given by the device or a model file; built in: 132");
  model.name = "mine";
  EXPECT_EQ(SourceOf(model, "clock_mhz"), "given by the device or a model file");
  EXPECT_EQ(HeadNoteOf(model), "");
}

TEST(MeasuredText, SetsPredictedBesideMeasured) {
  EXPECT_EQ(MeasuredText(10, 10.5),
            "predicted 10.00 us, measured 10.50 us: 5.0 % more than predicted");
  EXPECT_EQ(MeasuredText(10, 9),
            "predicted 10.00 us, measured 9.00 us: 10.0 % less than predicted");
  EXPECT_EQ(MeasuredText(10, 0), "predicted 10.00 us (sinter tune measures it)");
}

TEST(KernelReport, ShowsDrawingLevelsAndBound) {
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), Dataflow::kGridExchange);
  kernel.prediction = Times(11, 7);
  const std::string text = KernelReport(0, kernel, H200());
  EXPECT_THAT(text, HasSubstr("c through L2"));
  EXPECT_THAT(text, HasSubstr("  c of a row tile: 768 KiB L2\n"));
  EXPECT_THAT(text, HasSubstr("  hbm         4.00 |###########         | 19 MB"));
  EXPECT_THAT(text, HasSubstr("<- bound"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 32);
}

TEST(RunnersUpReport, WrapsAndNumbers) {
  const std::string text =
      RunnersUpReport({{"fused [a]", 12.5, "predicted 1 us slower"}, {"unfused", 13, "slow"}});
  EXPECT_EQ(text,
            "runners-up:\n"
            "   1    12.50 us  fused [a]\n                 predicted 1 us slower\n"
            "   2    13.00 us  unfused\n                 slow\n");
  EXPECT_EQ(RunnersUpReport({}), "");
}

TEST(RunnersUpReport, ShowsWhatFitsAScreen) {
  const std::string text = RunnersUpReport(std::vector<Candidate>(10, {"unfused", 13, "slow"}));
  EXPECT_THAT(text, HasSubstr("runners-up, the first 3 of 10 (sinter plan -v,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(ReportJson, HoldsPicturesLevelsLosersAndConstants) {
  Plan plan = PlanOf(Grid(), Times(11, 7));
  plan.runners_up = {{"unfused", 13, "slow \xff"}};
  const auto json = nlohmann::json::parse(ReportJson(plan, H200()));
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["kernels"][0]["levels"].size(), 7u);
  EXPECT_EQ(json["kernels"][0]["hand_overs"][0]["medium"], "L2");
  EXPECT_EQ(json["kernels"][0]["intermediate_bytes"]["L2"], 128 * 3072 * 2);
  EXPECT_EQ(json["runners_up"][0]["name"], "unfused");
  EXPECT_GE(json["model"]["constants"].size(), 20u);
  EXPECT_THAT(json["model"]["note"].get<std::string>(), HasSubstr("NVIDIA H200"));
}

TEST(ReportJson, HoldsTheWindowOfAConvolution) {
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleC6(), SampleC6Schedule(Dataflow::kClusterExchange));
  Plan plan;
  plan.kernels.push_back(kernel);
  const auto window = nlohmann::json::parse(ReportJson(plan, H200()))["kernels"][0]["window"];
  EXPECT_EQ(window["image"], nlohmann::json({28, 28, 128}));
  EXPECT_EQ(window["taps"], nlohmann::json({3, 3}));
  EXPECT_EQ(window["pads"], nlohmann::json({1, 1, 1, 1}));
  EXPECT_EQ(window["windows"], nlohmann::json({28, 28}));
  EXPECT_EQ(window["tap_columns"], 128);
  EXPECT_EQ(window["image_bytes"], 28 * 28 * 128 * 2);
  const auto sequence = nlohmann::json::parse(plan.ToJson())["kernels"][0]["sequence"];
  EXPECT_EQ(sequence["rows_per_m"], 784);
  EXPECT_EQ(sequence["window"]["taps"], nlohmann::json({3, 3}));
}

}  // namespace
}  // namespace sinter
