// Drawings of one plan a dataflow, byte for byte.
#include "src/explain/explain.h"
#include "src/plan/product_family.h"
#include "tests/support/golden_file.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_attention.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

// A kernel and the name of its files.
struct Drawn {
  std::string name;
  KernelSpec spec;
};

std::vector<Drawn> DrawnKernels() {
  std::vector<Drawn> list;
  for (Dataflow dataflow : DataflowsOf(SampleS8())) {
    list.push_back({std::string(NameOf(dataflow)), SampleSpec(SampleS8(), dataflow)});
  }
  for (Dataflow dataflow : {Dataflow::kProduct, Dataflow::kClusterExchange}) {
    list.push_back({absl::StrCat("c6-", NameOf(dataflow)),
                    SampleSpec(SampleProblem(SampleC6(), dataflow), SampleC6Schedule(dataflow))});
  }
  return list;
}

// With times that no model changes.
Plan PlanOf(const KernelSpec& spec) {
  Plan plan{.fused = ProductOf(spec).sequence.size() > 1, .bucket = 128};
  plan.kernels.push_back(
      {.spec = spec,
       .prediction = {11.5, 4.25, 3.5, 7.5, 2.25, 0.5, 1.25, 4, 19.5e6, 41e6, 1.5e6, "intake"},
       .measured_us = 12.25});
  return plan;
}

void ExpectFile(const std::string& name, const std::string& text) {
  testing::ExpectGoldenFile("tests/golden/plan/" + name, text);
}

class PlanDrawing : public ::testing::TestWithParam<Drawn> {};

TEST_P(PlanDrawing, MatchesTheFiles) {
  const Plan plan = PlanOf(GetParam().spec);
  ASSERT_TRUE(CheckScheduleFields(ProductOf(plan.kernels[0].spec).sequence,
                                  ProductOf(plan.kernels[0].spec).schedule)
                  .ok());
  const std::string& name = GetParam().name;
  ExpectFile(name + ".txt", ProductsText(PictureOf(plan.kernels[0].spec)));
  ExpectFile(name + ".svg", PlanSvg(Describe(plan, *BuiltinModel("h200"))));
}

TEST_P(PlanDrawing, TheTextFitsAScreen) {
  const std::string text = ProductsText(PictureOf(GetParam().spec));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_LE(lines.size(), 20u);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(!line.empty() && line.back() == ' ') << line;
  }
}

PlannedKernel StitchKernel(const char* line, std::vector<BufferPlace> operands) {
  auto spec = std::make_shared<StitchSpec>();
  spec->body = ParseProblem(line)->chain;
  spec->operands = std::move(operands);
  PlannedKernel kernel;
  kernel.spec.family = &StitchFamily();
  kernel.spec.body = MakeBody(std::move(*spec));
  kernel.prediction.total_us = 7.5;
  kernel.prediction.hbm_us = 4.25;
  kernel.prediction.fixed_us = 2.5;
  kernel.prediction.bound = "hbm";
  return kernel;
}

// Two equal kernels before one of which two packed parts are alike.
Plan StitchedPlan() {
  Plan plan{.fused = true,
            .bucket = 1024,
            .note = "3 ops stitched in 3 kernels",
            .runners_up = {{"5 kernels", 40, "predicted 17.50 us slower"}}};
  for (const int input : {0, 1}) {
    plan.kernels.push_back(
        StitchKernel("softmax rows=M cols=64", {{input, 0}, {-1, uint64_t{65536} * (1 + input)}}));
  }
  plan.kernels.push_back(StitchKernel("swiglu rows=M cols=64", {{-1, 65536}, {2, 0}}));
  plan.kernels[2].measured_us = 8;
  return plan;
}

// With times and hand-overs that no model changes.
Explanation StitchedPicture() {
  Explanation picture = Describe(StitchedPlan(), *BuiltinModel("h200"));
  KernelDescription& soft = picture.kernels[0];
  soft.reads = {{"#0", "f32[M,64]", 262144, -1, "scores"}};
  soft.writes = {{"ws+65536", "f32[M,64]", 262144, -1, ""}};
  soft.ops = {
      {"reduce max", "f32[M,1]", {{-1, 0, {}}}, {}, 8192},
      {"sub", "f32[M,64]", {{-1, 0, {}}, {0, -1, Composition::kWarp, {"broadcast"}}}, {}, 524288},
      {"exp", "f32[M,64]", {{1, -1, Composition::kThread}}, {0}, 0}};
  soft.inlined = 1;
  soft.times = {true, 1.5, 2.25, 5, 2.5};
  soft.parts = {{{0, 1, 2}}};
  soft.edges = {1, 1, 0, 0, 0};
  soft.border_bytes = 524288;
  soft.saved_bytes = 794624;
  KernelDescription& packed = picture.kernels[2];
  packed.reads = {{"ws+65536", "f32[M,64]", 262144, 0, ""},
                  {"ws+131072", "f32[M,64]", 262144, 1, ""}};
  packed.writes = {{"#2", "f32[M,64]", 262144, -1, "output"}};
  packed.ops = {{"reduce sum", "f32[64]", {{-1, 0, {}}}, {}, 512},
                {"neg", "f32[64]", {{0, -1, Composition::kGrid}}, {0}, 0},
                {"reduce sum", "f32[64]", {{-1, 1, {}}}, {}, 512},
                {"neg", "f32[64]", {{2, -1, Composition::kGrid}}, {0}, 0}};
  packed.parts = {{{0, 1}, {2, 3}}};
  packed.edges = {0, 0, 0, 0, 2};
  packed.border_bytes = 786432;
  packed.saved_bytes = 1024;
  picture.kernels[1] = soft;
  for (KernelDescription* kernel : {&soft, &packed}) {
    const auto i = static_cast<size_t>(kernel - picture.kernels.data());
    kernel->levels = StitchLevels(picture.plan.kernels[i], kernel->times, *BuiltinModel("h200"));
  }
  picture.apart = {{0, 1, 0, "one kernel is predicted to take 20.00 us, the two 15.00 us"},
                   {0, 2, 262144, "op 4 (reduce): is too long & <slow>"},
                   {1, 2, 262144, "op 4 (reduce): is too long & <slow>"}};
  picture.saved_bytes = 1590272;
  return picture;
}

TEST(StitchDrawing, MatchesTheFiles) {
  const Explanation picture = StitchedPicture();
  std::string text;
  for (const KernelDescription& kernel : picture.kernels) text += FusionText(kernel);
  ExpectFile("stitch.txt", text + ApartText(picture));
  ExpectFile("stitch.svg", PlanSvg(picture));
  ExpectFile("stitch.json", FusionJson(picture) + "\n");
}

TEST(AttentionDrawing, MatchesTheFile) {
  ExpectFile("attention.svg", PlanSvg(Describe(PlanOf(SampleAttention()), *BuiltinModel("h200"))));
}

INSTANTIATE_TEST_SUITE_P(Dataflows, PlanDrawing, ::testing::ValuesIn(DrawnKernels()));

}  // namespace
}  // namespace sinter
