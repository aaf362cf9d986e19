// SVG: escaping, and well-formed documents whatever the plan.
#include "src/draw/svg.h"

#include "src/explain/explain.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

TEST(XmlEscape, LeavesNoMarkupAndNoBrokenText) {
  EXPECT_EQ(XmlEscape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(XmlEscape(absl::string_view("\x01\0\xff\xc3", 4)), "????");
  EXPECT_EQ(XmlEscape("\xc3\xa4 \xe2\x82\xac"), "\xc3\xa4 \xe2\x82\xac");
}

// Every tag that opens closes, in order; attributes are quoted. What is left to an XML parser is
// tested with the command.
std::string Unbalanced(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "a tag without an end";
    std::string tag = xml.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "an open quote in " + tag;
    if (tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
      continue;
    }
    if (open.empty() || open.back() != tag.substr(1)) return "a wrong end of " + tag;
    open.pop_back();
  }
  return open.empty() ? "" : "no end of " + open.back();
}

TEST(PlanSvg, IsWellFormedForEveryDataflow) {
  for (const ProductSequence& p : {SampleS8(), SampleG7()}) {
    for (Dataflow dataflow : DataflowsOf(p)) {
      Plan plan;
      plan.fused = true;
      PlannedKernel kernel;
      kernel.spec = SampleSpec(p, dataflow);
      plan.kernels = {kernel, kernel};
      EXPECT_EQ(Unbalanced(PlanSvg(Describe(plan, *BuiltinModel("h200")))), "") << NameOf(dataflow);
    }
  }
}

TEST(PlanSvg, EscapesNotesThatCameFromARecord) {
  Plan plan;
  plan.note = "</svg><script>\"&\xff";
  plan.kernels.emplace_back();
  Explanation picture = Describe(plan, *BuiltinModel("h200"));
  picture.equal = {{0}};
  const std::string svg = PlanSvg(picture);
  EXPECT_EQ(Unbalanced(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
}

TEST(PlanSvg, NamesAScheduleThatCannotBeDrawn) {
  Plan plan;
  plan.fused = true;
  plan.kernels.emplace_back();
  plan.kernels[0].spec.schedule.block_m = 0;
  const std::string svg = PlanSvg(Describe(plan, *BuiltinModel("h200")));
  EXPECT_EQ(Unbalanced(svg), "");
  EXPECT_THAT(svg, HasSubstr("cannot be drawn"));
}

TEST(PlanSvg, StaysSmallForALargeLaunch) {
  Plan plan;
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), Dataflow::kProduct);
  kernel.spec.sequence.m = 8192;
  kernel.spec.schedule.grid *= 64;
  plan.kernels = {kernel};
  EXPECT_LT(PlanSvg(Describe(plan, *BuiltinModel("h200"))).size(), 400u * 1000);
}

}  // namespace
}  // namespace sinter
