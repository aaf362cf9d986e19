// Descriptions of a plan: levels, runners-up, where a constant comes from; as text and JSON.
#include "nlohmann/json.hpp"
#include "src/explain/explain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/timed_plan.h"

namespace sinter {
namespace {

TEST(LevelsOf, NamesEachLevelOnceAndMarksTheBound) {
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    PlannedKernel kernel{.spec = SampleSpec(SampleS8(), dataflow)};
    kernel.prediction =
        Predict(ProductOf(kernel.spec).sequence, ProductOf(kernel.spec).schedule, H200());
    const std::vector<LevelCost> levels = ProductLevels(kernel, H200());
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
  const std::vector<ModelNote> notes = StoryOf(H200()).constants;
  PlannedKernel kernel{.spec = SampleSpec(SampleS8(), Dataflow::kGridExchange)};
  for (const LevelCost& level : ProductLevels(kernel, H200())) {
    for (absl::string_view key : absl::StrSplit(level.constants, ' ')) {
      EXPECT_TRUE(std::any_of(notes.begin(), notes.end(), [&](const ModelNote& n) {
        return n.key == key;
      })) << key;
    }
  }
}

std::string SourceOf(const DeviceModel& model, const std::string& key) {
  const ModelStory story = StoryOf(model);
  for (const ModelNote& note : story.constants) {
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
  EXPECT_THAT(StoryOf(*BuiltinModel("h100")).note, HasSubstr("Of no card: figures of the h200"));
}

TEST(ModelNotes, EveryFigureOfTheMeasuredModelHasACommentOfItsOwn) {
  const ModelStory story = StoryOf(H200());
  for (const ModelNote& note : story.constants) {
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
  EXPECT_EQ(StoryOf(model).note, "");
}

TEST(MeasuredText, SetsPredictedBesideMeasured) {
  EXPECT_EQ(MeasuredText(10, 10.5),
            "predicted 10.00 us, measured 10.50 us: 5.0 % more than predicted");
  EXPECT_EQ(MeasuredText(10, 9),
            "predicted 10.00 us, measured 9.00 us: 10.0 % less than predicted");
  EXPECT_EQ(MeasuredText(10, 0), "predicted 10.00 us (sinter tune measures it)");
}

TEST(KernelText, ShowsDrawingLevelsAndBound) {
  const std::string text = KernelText(Describe(PlanOf(Grid(), Times(11, 7)), H200()), 0);
  EXPECT_THAT(text, HasSubstr("c through L2"));
  EXPECT_THAT(text, HasSubstr("  c of a row tile: 768 KiB L2\n"));
  EXPECT_THAT(text, HasSubstr("  hbm         4.00 |###########         | 19 MB"));
  EXPECT_THAT(text, HasSubstr("<- bound"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 32);
}

TEST(RunnersUpText, WrapsAndNumbers) {
  const std::string text =
      RunnersUpText({{"fused [a]", 12.5, "predicted 1 us slower"}, {"unfused", 13, "slow"}});
  EXPECT_EQ(text,
            "runners-up:\n"
            "   1    12.50 us  fused [a]\n                 predicted 1 us slower\n"
            "   2    13.00 us  unfused\n                 slow\n");
  EXPECT_EQ(RunnersUpText({}), "");
}

TEST(RunnersUpText, ShowsWhatFitsAScreen) {
  const std::string text = RunnersUpText(std::vector<Candidate>(10, {"unfused", 13, "slow"}));
  EXPECT_THAT(text, HasSubstr("runners-up, the first 3 of 10 (sinter plan -v,"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
}

TEST(ExplanationJson, HoldsPicturesLevelsLosersAndConstants) {
  Plan plan = PlanOf(Grid(), Times(11, 7));
  plan.runners_up = {{"unfused", 13, "slow \xff"}};
  const auto json = nlohmann::json::parse(ExplanationJson(Describe(plan, H200())));
  EXPECT_EQ(json["schema"], 3);
  EXPECT_EQ(json["kernels"][0]["levels"].size(), 7u);
  EXPECT_EQ(json["kernels"][0]["hand_overs"][0]["medium"], "L2");
  EXPECT_EQ(json["kernels"][0]["intermediate_bytes"]["L2"], 128 * 3072 * 2);
  EXPECT_EQ(json["runners_up"][0]["name"], "unfused");
  EXPECT_GE(json["model"]["constants"].size(), 20u);
  EXPECT_THAT(json["model"]["note"].get<std::string>(), HasSubstr("NVIDIA H200"));
}

TEST(ExplanationJson, HoldsTheWindowOfAConvolution) {
  PlannedKernel kernel{.spec =
                           SampleSpec(SampleC6(), SampleC6Schedule(Dataflow::kClusterExchange))};
  Plan plan;
  plan.kernels.push_back(kernel);
  const auto window =
      nlohmann::json::parse(ExplanationJson(Describe(plan, H200())))["kernels"][0]["window"];
  EXPECT_EQ(window["image"], nlohmann::json({28, 28, 128}));
  EXPECT_EQ(window["taps"], nlohmann::json({3, 3}));
  EXPECT_EQ(window["pads"], nlohmann::json({1, 1, 1, 1}));
  EXPECT_EQ(window["windows"], nlohmann::json({28, 28}));
  EXPECT_EQ(window["tap_columns"], 128);
  EXPECT_EQ(window["image_bytes"], 28 * 28 * 128 * 2);
  const auto sequence = nlohmann::json::parse(PlanJson(plan))["kernels"][0]["sequence"];
  EXPECT_EQ(sequence["rows_per_m"], 784);
  EXPECT_EQ(sequence["window"]["taps"], nlohmann::json({3, 3}));
}

}  // namespace
}  // namespace sinter
