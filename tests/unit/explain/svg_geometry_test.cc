// Drawings of graphs by their geometry: lines run between boxes, and the page holds what is on it.
#include "src/draw/svg.h"
#include "src/explain/explain.h"
#include "src/fusion/fusion.h"
#include "src/plan/attention_family.h"
#include "tests/support/attention_chains.h"
#include "tests/support/drawn.h"
#include "tests/support/files.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/stitch/graphs.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

struct NamedChain {
  std::string name;
  Chain chain;
};

// Every graph that the project measures, and random ones.
std::vector<NamedChain> Graphs() {
  std::vector<NamedChain> list;
  const std::filesystem::path problems = "tests/bench/problems";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(problems / "stitch")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    absl::StatusOr<Chain> chain = ChainFromJson(FileText(file));
    EXPECT_TRUE(chain.ok()) << file << chain.status();
    if (chain.ok()) list.push_back({file.filename().string(), *std::move(chain)});
  }
  for (const char* name : {"memory_chains.txt", "stitch_graphs.txt"}) {
    absl::StatusOr<std::vector<Problem>> found = ParseProblems(FileText(problems / name));
    if (!found.ok()) continue;  // a list of files
    for (Problem& problem : *found) list.push_back({problem.id, std::move(problem.chain)});
  }
  for (uint32_t seed = 0; seed < 4; ++seed) {
    list.push_back({absl::StrCat("random ", seed), testing::RandomDag(seed, 60, 512, 768)});
  }
  return list;
}

// Every listed problem, and attention in every spelling.
std::vector<NamedChain> ListedProblems() {
  std::vector<NamedChain> list;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/bench/problems")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    absl::StatusOr<std::vector<Problem>> found = ParseProblems(FileText(file));
    if (!found.ok()) continue;  // a list of files, or formulas for people
    for (Problem& problem : *found) list.push_back({problem.id, std::move(problem.chain)});
  }
  for (const testing::AttentionForm& form : testing::AttentionForms()) {
    list.push_back({form.Name(), testing::MakeAttention(form)});
  }
  return list;
}

double Value(const std::string& element, const std::string& name) {
  const size_t at = element.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::atof(element.c_str() + at + name.size() + 3);
}

bool Has(const std::string& element, const char* text) {
  return element.find(text) != std::string::npos;
}

struct Drawing {
  double width = 0, height = 0;
  std::vector<Box> steps, panels;
  std::vector<std::pair<Point, Point>> segments;  // of arrows
  double right = 0;                               // of anything
  double bottom = 0;
};

Drawing Read(const std::string& svg) {
  Drawing drawing;
  for (const absl::string_view line : absl::StrSplit(svg, '\n')) {
    const std::string element(line);
    if (Has(element, "<svg ")) {
      drawing.width = Value(element, "width");
      drawing.height = Value(element, "height");
    } else if (Has(element, "<rect ") && !Has(element, "\"ground\"")) {
      const Box box{Value(element, "x"), Value(element, "y"), Value(element, "width"),
                    Value(element, "height")};
      if (Has(element, "class=\"step")) drawing.steps.push_back(box);
      if (Has(element, "class=\"panel")) drawing.panels.push_back(box);
      drawing.right = std::max(drawing.right, box.Right());
      drawing.bottom = std::max(drawing.bottom, box.Bottom());
    } else if (Has(element, "<polyline ")) {
      const std::string points = element.substr(element.find('"') + 1);
      std::vector<Point> path;
      for (absl::string_view pair : absl::StrSplit(points.substr(0, points.find('"')), ' ')) {
        const std::vector<std::string> xy = absl::StrSplit(pair, ',');
        path.push_back({std::atof(xy.at(0).c_str()), std::atof(xy.at(1).c_str())});
        drawing.right = std::max(drawing.right, path.back().x);
      }
      for (size_t i = 1; i < path.size(); ++i) drawing.segments.emplace_back(path[i - 1], path[i]);
    } else if (Has(element, "<text ") && !Has(element, "text-anchor")) {
      const size_t from = element.find("class=\"") + 7, to = element.find('>');
      const std::string style = element.substr(from, element.find('"', from) - from);
      const double end = Value(element, "x") +
                         TextWidth(element.substr(to + 1, element.find("</text>") - to - 1), style);
      // Entities are longer than what they stand for.
      if (!Has(element, "&")) drawing.right = std::max(drawing.right, end);
      drawing.bottom = std::max(drawing.bottom, Value(element, "y"));
    }
  }
  return drawing;
}

bool Crosses(const std::pair<Point, Point>& segment, const Box& box) {
  constexpr double kTouch = 0.2;  // numbers are rounded to tenths
  const auto [a, b] = segment;
  return std::max(a.x, b.x) > box.x + kTouch && std::min(a.x, b.x) < box.Right() - kTouch &&
         std::max(a.y, b.y) > box.y + kTouch && std::min(a.y, b.y) < box.Bottom() - kTouch;
}

bool IsWithin(const std::pair<Point, Point>& segment, const Box& box) {
  const auto [a, b] = segment;
  return std::min(a.x, b.x) >= box.x && std::max(a.x, b.x) <= box.Right() &&
         std::min(a.y, b.y) >= box.y && std::max(a.y, b.y) <= box.Bottom();
}

TEST(GraphDrawing, NoLinePassesABoxAndThePageHoldsEverything) {
  size_t segments = 0, past_rows = 0;
  for (const NamedChain& graph : Graphs()) {
    const FusionResult found = Got(PlanChain(graph.chain, 128, H200(), {}), graph.name);
    Explanation picture = Describe(found.chosen, H200());
    ExplainFusion(H200(), &picture);
    if (!picture.has_ops) continue;
    const Drawing drawing = Read(PlanSvg(picture));
    EXPECT_FALSE(drawing.steps.empty()) << graph.name;
    EXPECT_EQ(drawing.panels.size(), picture.equal.size()) << graph.name;
    for (const auto& segment : drawing.segments) {
      // Along one axis, so that Crosses is exact.
      EXPECT_TRUE(segment.first.x == segment.second.x || segment.first.y == segment.second.y);
      past_rows += std::abs(segment.first.y - segment.second.y) > 46;
      for (const Box& box : drawing.panels) {
        EXPECT_TRUE(IsWithin(segment, box) || !Crosses(segment, box)) << graph.name;
      }
      for (const Box& box : drawing.steps) {
        ASSERT_FALSE(Crosses(segment, box))
            << graph.name << ": " << segment.first.x << "," << segment.first.y << " to "
            << segment.second.x << "," << segment.second.y << " behind the box at " << box.x << ","
            << box.y;
      }
    }
    segments += drawing.segments.size();
    EXPECT_LE(drawing.right, drawing.width) << graph.name;
    EXPECT_GE(drawing.right + 40, drawing.width) << graph.name;
    EXPECT_LE(drawing.bottom, drawing.height) << graph.name;
  }
  EXPECT_GT(segments, 500u);
  EXPECT_GT(past_rows, 10u);
}

// A text with the class that it is drawn in.
struct DrawnText {
  std::string text;
  Box extent;  // estimated; of the height of a line
};

struct Page {
  std::vector<Box> cards;  // boxes that may hold texts, and the page itself
  std::vector<DrawnText> texts;
  int bars = 0;
};

std::string StyleIn(const std::string& element) {
  const size_t from = element.find("class=\"") + 7;
  return element.substr(from, element.find('"', from) - from);
}

DrawnText TextIn(const std::string& element) {
  const size_t from = element.find('>') + 1;
  const std::string text = absl::StrReplaceAll(
      element.substr(from, element.find("</text>") - from),
      {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}});
  const double width = TextWidth(text, StyleIn(element));
  const double left = Has(element, "\"middle\"") ? width / 2 : Has(element, "\"end\"") ? width : 0;
  return {text, {Value(element, "x") - left, Value(element, "y") - 3, width, 0}};
}

Page PageOf(const std::string& svg) {
  constexpr double kLeast = 10;  // no smaller box has a text
  Page page;
  for (const absl::string_view line : absl::StrSplit(svg, '\n')) {
    const std::string element(line);
    if (Has(element, "<text ")) page.texts.push_back(TextIn(element));
    if (!Has(element, "<rect ")) continue;
    const Box box{Value(element, "x"), Value(element, "y"), Value(element, "width"),
                  Value(element, "height")};
    if (box.width >= kLeast && box.height >= kLeast) page.cards.push_back(box);
    page.bars += StyleIn(element) == "level" || StyleIn(element) == "bound";
  }
  return page;
}

// The smallest box around a text's middle.
Box CardOf(const Page& page, const DrawnText& text) {
  Box card;
  for (const Box& box : page.cards) {
    const double x = text.extent.MiddleX(), y = text.extent.y;
    if (x < box.x || x > box.Right() || y < box.y || y > box.Bottom()) continue;
    if (card.width == 0 || box.width * box.height < card.width * card.height) card = box;
  }
  return card;
}

void ExpectTextsInCardsAndALegend(const std::string& name, const std::string& svg) {
  constexpr double kTouch = 0.2;  // numbers are rounded to tenths
  const Page page = PageOf(svg);
  for (const DrawnText& text : page.texts) {
    const Box card = CardOf(page, text);
    EXPECT_TRUE(text.extent.x >= card.x - kTouch && text.extent.Right() <= card.Right() + kTouch)
        << name << ": \"" << text.text << "\" from " << text.extent.x << " to "
        << text.extent.Right() << " in a card from " << card.x << " to " << card.Right();
  }
  EXPECT_EQ(page.bars > 0, Has(svg, ">predicted time of each level, red: the bound")) << name;
}

// A third of the chains in an everyday run, which the commit draws.
TEST(PlanDrawings, TextsFitTheirCardsAndBarsHaveALegend) {
  constexpr size_t kAlternatives = 2;  // drawn of each problem
  std::vector<NamedChain> listed = Graphs(), problems = ListedProblems();
  std::move(problems.begin(), problems.end(), std::back_inserter(listed));
  size_t number = 0, drawings = 0, with_attention = 0;
  for (const NamedChain& problem : listed) {
    if (!IsDrawn(number++, 3)) continue;
    const absl::StatusOr<FusionResult> found = PlanChain(problem.chain, 128, H200(), {});
    if (!found.ok()) continue;  // tests/golden/plans holds why
    Explanation chosen = Describe(found->chosen, H200());
    ExplainFusion(H200(), &chosen);
    ExpectTextsInCardsAndALegend(problem.name, PlanSvg(chosen));
    for (const PlannedKernel& kernel : found->chosen.kernels) {
      with_attention += kernel.spec.family == &AttentionFamily();
    }
    const size_t others = std::min(found->alternatives.size(), kAlternatives);
    for (size_t i = 0; i < others; ++i) {
      ExpectTextsInCardsAndALegend(problem.name, PlanSvg(Describe(found->alternatives[i], H200())));
    }
    drawings += 1 + others;
  }
  EXPECT_GT(drawings, IsLongSweep() ? 1000u : 300u);
  EXPECT_GT(with_attention, IsLongSweep() ? 30u : 5u);
}

TEST(PlanDrawings, TextsFitTheirCardsInEveryDataflow) {
  for (const ProductSequence& p : {SampleS8(), SampleG7()}) {
    for (Dataflow dataflow : DataflowsOf(p)) {
      Plan plan;
      plan.kernels.emplace_back();
      plan.kernels[0].spec = SampleSpec(p, dataflow);
      ExpectTextsInCardsAndALegend(std::string(NameOf(dataflow)), PlanSvg(Describe(plan, H200())));
    }
  }
}

// The terms that the drawing shows add up to each kernel's prediction, however the plan was made.
TEST(GraphDrawing, TimesOfEveryStitchedKernelAddUp) {
  int kernels = 0;
  for (const NamedChain& graph : Graphs()) {
    const FusionResult found = Got(PlanChain(graph.chain, 128, H200(), {}), graph.name);
    Explanation picture = Describe(found.chosen, H200());
    ExplainFusion(H200(), &picture);
    for (size_t i = 0; i < picture.kernels.size(); ++i) {
      const PlannedKernel& kernel = found.chosen.kernels[i];
      if (StitchOf(kernel.spec) == nullptr) continue;
      const StitchTerms& times = picture.kernels[i].times;
      ASSERT_TRUE(times.known) << graph.name << " kernel " << i;
      EXPECT_DOUBLE_EQ(times.fixed_us + times.together_us, kernel.prediction.total_us);
      EXPECT_GE(times.together_us, std::max(times.issue_us, times.latency_us) * (1 - 1e-12));
      ++kernels;
    }
  }
  EXPECT_GT(kernels, 30);
}

}  // namespace
}  // namespace sinter
