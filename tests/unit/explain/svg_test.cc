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

// Every tag that opens closes, in order; attributes are quoted. The command's test covers the rest
// with an XML parser.
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
      Plan plan{.fused = true};
      PlannedKernel kernel{.spec = SampleSpec(p, dataflow)};
      plan.kernels = {kernel, kernel};
      EXPECT_EQ(Unbalanced(PlanSvg(Describe(plan, *BuiltinModel("h200")))), "") << NameOf(dataflow);
    }
  }
}

TEST(PlanSvg, EscapesNotesThatCameFromARecord) {
  Plan plan{.note = "</svg><script>\"&\xff"};
  plan.kernels.emplace_back();
  Explanation picture = Describe(plan, *BuiltinModel("h200"));
  picture.equal = {{0}};
  const std::string svg = PlanSvg(picture);
  EXPECT_EQ(Unbalanced(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
}

TEST(PlanSvg, DrawsAKernelWhoseScheduleHasNoPicture) {
  Plan plan{.fused = true};
  plan.kernels.emplace_back();
  ProductIn(&plan.kernels[0].spec).schedule.block_m = 0;
  const Explanation e = Describe(plan, *BuiltinModel("h200"));
  ASSERT_FALSE(e.kernels[0].products.has_value());
  const std::string svg = PlanSvg(e);
  EXPECT_EQ(Unbalanced(svg), "");
  EXPECT_THAT(svg, HasSubstr(">kernel 0: "));
}

TEST(PlanSvg, StaysSmallForALargeLaunch) {
  Plan plan;
  PlannedKernel kernel{.spec = SampleSpec(SampleS8(), Dataflow::kProduct)};
  ProductIn(&kernel.spec).sequence.m = 8192;
  ProductIn(&kernel.spec).schedule.grid *= 64;
  plan.kernels = {kernel};
  EXPECT_LT(PlanSvg(Describe(plan, *BuiltinModel("h200"))).size(), 400u * 1000);
}

// `count` kernels of which no two are alike, each of which reads what the one before it wrote, and
// `ops` ops in each, every one of which reads the first.
Explanation LongPlan(int count, int ops) {
  Explanation e;
  e.plan.kernels.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    KernelDescription kernel{
        .computes = absl::StrCat("step ", i),
        .reads = {{absl::StrCat("ws+", 256 * i), "f32[M,64]", 262144, i - 1, ""}},
        .writes = {{absl::StrCat("ws+", 256 * (i + 1)), "f32[M,64]", 262144, -1, ""}}};
    kernel.parts.emplace_back(1);
    for (int op = 0; op < ops; ++op) {
      kernel.ops.push_back({"exp", "f32[M,64]", {{op == 0 ? -1 : 0, 0}}, {}, 0});
      kernel.parts[0][0].push_back(op);
    }
    e.kernels.push_back(kernel);
    e.equal.push_back({i});
    if (i > 0) e.apart.push_back({i - 1, i, 262144, "they are too long"});
  }
  return e;
}

TEST(PlanSvg, StaysBoundedForManyKernelsAndManyOps) {
  const std::string kernels = PlanSvg(LongPlan(700, 40));
  EXPECT_EQ(Unbalanced(kernels), "");
  EXPECT_LT(kernels.size(), 4u * 1000 * 1000);
  for (int i = 0; i < 700; ++i) {
    EXPECT_THAT(kernels, HasSubstr(absl::StrCat(">kernel ", i, ": step ", i, "<")));
  }
  const std::string ops = PlanSvg(LongPlan(1, 700));
  EXPECT_EQ(Unbalanced(ops), "");
  EXPECT_LT(ops.size(), 200u * 1000);
  EXPECT_THAT(ops, HasSubstr(">and 604 more ops<"));
}

// Texts of the drawing, without markup.
std::string TextsOf(const std::string& svg) {
  std::string texts;
  for (size_t at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", at + 1)) {
    const size_t from = svg.find('>', at) + 1;
    absl::StrAppend(&texts, svg.substr(from, svg.find('<', from) - from), " ");
  }
  return texts;
}

TEST(PlanSvg, SaysWhatIsToldOfAFusedPair) {
  Plan plan{.fused = true};
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SampleSpec(SampleS8(), Dataflow::kClusterExchange);
  plan.kernels[0].prediction.total_us = 11.5;
  const Explanation e = Describe(plan, *BuiltinModel("h200"));
  const KernelDescription& kernel = e.kernels[0];
  const std::string svg = PlanSvg(e), texts = TextsOf(svg);
  std::vector<std::string> said = {kernel.computes, kernel.kind,     kernel.schedule,
                                   "11.50 us",      "c through DSM", kernel.products->split_text};
  for (const auto& [name, text] : kernel.lines) said.push_back(text);
  for (const std::string& line : kernel.products->BlockLines()) said.push_back(line);
  for (const ProductPicture& product : kernel.products->products) {
    said.push_back(product.formula);
    for (const std::string& line : product.Lines()) said.push_back(line);
    for (const MatrixPicture& m : product.operands) {
      said.push_back(absl::StrCat(m.Label(), ", ", m.rows, " x ", m.columns));
    }
  }
  for (const std::string& line : kernel.products->hand_overs.at(0).lines) said.push_back(line);
  for (const auto* tensors : {&kernel.reads, &kernel.writes}) {
    for (const TensorPicture& t : *tensors) said.push_back(t.FullName() + " " + t.type);
  }
  for (const LevelCost& level : kernel.levels) said.push_back(level.level + " ");
  for (const std::string& text : said) EXPECT_THAT(texts, HasSubstr(XmlEscape(text)));
  // One value stays on the chip; as many come from and go to memory as the kernel has.
  const auto arrows = [&](const char* way) {
    size_t count = 0;
    const std::string element = absl::StrCat("class=\"way way-", way, "\"");
    for (size_t at = 0; (at = svg.find(element, at)) != std::string::npos; ++at) ++count;
    return count - 1;  // without the legend's
  };
  EXPECT_EQ(arrows("cluster"), 1u);
  EXPECT_EQ(arrows("memory"), 2 * (kernel.reads.size() + kernel.writes.size()));
}

}  // namespace
}  // namespace sinter
