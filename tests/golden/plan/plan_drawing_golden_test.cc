// Drawings of one plan a dataflow, byte for byte. SINTER_UPDATE_GOLDEN=1 writes the files anew.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "src/plan/picture_text.h"
#include "src/plan/plan_svg.h"
#include "tests/unit/codegen/sample_kernels.h"

namespace sinter {
namespace {

// S8 in `dataflow`, with times that no model changes.
Plan PlanOf(Dataflow dataflow) {
  Plan plan;
  plan.name = dataflow == Dataflow::kProduct ? "unfused" : "fused";
  plan.bucket = 128;
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), dataflow);
  kernel.prediction = {11.5, 4.25, 3.5, 7.5, 2.25, 0.5, 1.25, 4, 19.5e6, 41e6, 1.5e6, "intake"};
  kernel.measured_us = 12.25;
  plan.kernels.push_back(kernel);
  return plan;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void ExpectFile(const std::string& name, const std::string& text) {
  const std::string path = "tests/golden/plan/" + name;
  const char* update = getenv("SINTER_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, ReadFile(path)) << path << "; SINTER_UPDATE_GOLDEN=1 writes it anew";
}

class PlanDrawing : public ::testing::TestWithParam<Dataflow> {};

TEST_P(PlanDrawing, MatchesTheFiles) {
  const Plan plan = PlanOf(GetParam());
  ASSERT_TRUE(
      CheckScheduleFields(plan.kernels[0].spec.problem, plan.kernels[0].spec.schedule).ok());
  const std::string name(NameOf(GetParam()));
  ExpectFile(name + ".txt", DrawText(PictureOf(plan.kernels[0].spec)));
  ExpectFile(name + ".svg", PlanSvg(plan));
}

TEST_P(PlanDrawing, TheTextFitsAScreen) {
  const std::string text = DrawText(PictureOf(PlanOf(GetParam()).kernels[0].spec));
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_LE(lines.size(), 20u);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(!line.empty() && line.back() == ' ') << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Dataflows, PlanDrawing, ::testing::ValuesIn(kDataflows));

}  // namespace
}  // namespace sinter
