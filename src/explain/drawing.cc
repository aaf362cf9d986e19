// An explanation as SVG: a column of cards, one for each group of kernels that are alike, in the
// order of their first launch. A kernel's card holds columns of cards too: its products, or its
// ops. An arrow reaches each line that names a value which is read, and leaves each line that names
// one which is written. Values between the cards of a column run in lanes on the left of the cards.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/draw/svg.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

constexpr double kMargin = 20, kPad = 12, kGap = 14, kLine = 15;
constexpr double kLane = 7, kStub = 18;                // between lanes; a short arrow
constexpr double kWide = 1000, kNarrow = 560;          // text of a kernel, of a step, wraps there
constexpr double kLongestBar = 160, kLevelNames = 70;  // a level's longest bar; left of it
constexpr size_t kMostLanes = 30;                      // further values have a short arrow
constexpr size_t kMostSteps = 96, kLeastSteps = 4;     // drawn of a kernel
constexpr size_t kMostStepsOfPlan = 2000, kMostReasons = 12, kMostRunnersUp = 3;

// How a value gets from its writer to its reader: a composition's number, or through memory.
constexpr int kNoWay = -1, kWorkspace = kCompositions, kMemory = kCompositions + 1;
constexpr std::pair<const char*, const char*> kWays[] = {
    {"thread", "registers"},         {"warp", "shuffles"},
    {"block", "shared memory"},      {"cluster", "DSM (distributed shared memory)"},
    {"grid", "L2, after a barrier"}, {"workspace", "memory, between kernels"},
    {"memory", "inputs and outputs"}};
constexpr int kWayOfMedium[] = {kMemory, 0, 2, 3, 4};

std::string StyleOf(int way) { return absl::StrCat("way-", kWays[way].first); }

int WayOf(const std::string& place) { return absl::StartsWith(place, "ws") ? kWorkspace : kMemory; }

struct Line {
  std::string text;
  int in = kNoWay, from = -1;  // of the value that the line reads: its writer's card, if any
  int out = kNoWay;            // of the value that the line writes
  std::string style = "small";
};

struct Card;
struct Column {
  std::string title;  // above the cards
  std::vector<Card> cards;
  double width = kNarrow;  // of text
};

struct Card {
  std::string style, head, head_style;
  std::vector<Line> lines = {};
  std::vector<Column> columns = {};
  std::string levels_head = {};
  std::vector<LevelCost> levels = {};
};

// ---- What the cards say

Card OpCard(const KernelDescription& kernel, int index, const std::map<int, int>& cards) {
  const OpPicture& op = kernel.ops[static_cast<size_t>(index)];
  Card card{absl::StartsWith(op.name, "reduce") ? "step reduces" : "step",
            absl::StrCat("%", index, " ", op.name, "  ", op.type), "strong"};
  for (const OpRead& read : op.reads) {
    Line line{ReadText(kernel, read), static_cast<int>(read.by)};
    const auto writer = cards.find(read.op);
    if (writer != cards.end()) line.from = writer->second;
    if (read.op < 0) line.in = WayOf(kernel.reads[static_cast<size_t>(read.tensor)].place);
    card.lines.push_back(std::move(line));
  }
  for (int out : op.writes) {
    const TensorPicture& tensor = kernel.writes[static_cast<size_t>(out)];
    card.lines.push_back({tensor.ShortName(), kNoWay, -1, WayOf(tensor.place)});
  }
  if (op.saved_bytes > 0) card.lines.push_back({absl::StrCat("saves ", BytesText(op.saved_bytes))});
  return card;
}

Card ProductCard(const ProductsPicture& picture, size_t index) {
  const ProductPicture& p = picture.products[index];
  Card card{"step", p.formula, "strong"};
  for (const MatrixPicture& m : p.operands) {
    card.lines.push_back(
        {absl::StrCat(m.Label(), ", ", m.rows, " x ", m.columns, ", ",
                      SizeText(static_cast<double>(m.bytes))),
         m.role == Role::kA && absl::StartsWith(p.operands_from, "L2") ? kWorkspace : kMemory});
  }
  card.lines.push_back({absl::StrCat("from ", p.operands_from)});
  if (index > 0) {
    const HandOver& h = picture.hand_overs[index - 1];
    card.lines.push_back(
        {absl::StrCat("c through ", NameOf(h.medium), ": ", absl::StrJoin(h.lines, ", ")),
         kWayOfMedium[static_cast<int>(h.medium)], static_cast<int>(index) - 1});
    if (!picture.split_text.empty()) card.lines.push_back({picture.split_text});
  }
  for (const std::string& line : p.Lines()) card.lines.push_back({line});
  if (index + 1 == picture.products.size()) {
    card.lines.push_back({absl::StrCat(p.result.Argument(), " to ", picture.result_to), kNoWay, -1,
                          picture.result_to == "L2" ? kWorkspace : kMemory});
  }
  return card;
}

// The products of a kernel, or its first `most` ops. Equal parts have the ops of the first part.
std::vector<Column> StepsOf(const KernelDescription& kernel, size_t most) {
  std::vector<Column> columns = {};
  if (kernel.products.has_value()) {
    columns.emplace_back();
    for (size_t i = 0; i < kernel.products->products.size(); ++i) {
      columns[0].cards.push_back(ProductCard(*kernel.products, i));
    }
  }
  size_t drawn = 0, ops = 0;
  for (const auto& alike : kernel.parts) {
    ops += alike.front().size();
    if (drawn == most) continue;
    Column column;
    if (kernel.PartCount() > 1) {
      column.title = absl::StrCat(Counted(alike.size(), "packed part"),
                                  alike.size() > 1 ? " are alike; the first:" : ":");
    }
    std::map<int, int> cards;  // by op
    for (int op : alike.front()) {
      if (drawn == most) break;
      column.cards.push_back(OpCard(kernel, op, cards));
      cards[op] = static_cast<int>(cards.size());
      ++drawn;
    }
    columns.push_back(std::move(column));
  }
  if (drawn < ops) {
    columns.back().cards.push_back(
        {"step", absl::StrCat("and ", ops - drawn, " more ops"), "small"});
  }
  return columns;
}

void AddTensors(const std::vector<TensorPicture>& tensors, bool write,
                const std::vector<int>& groups, Card* card) {
  for (const TensorPicture& t : tensors) {
    Line line{absl::StrCat(write ? "writes " : "reads ", t.FullName(), " ", t.type, " ",
                           BytesText(t.bytes))};
    if (t.kernel >= 0) {
      absl::StrAppend(&line.text, " of kernel ", t.kernel);
      line.from = groups[static_cast<size_t>(t.kernel)];
    }
    (write ? line.out : line.in) = WayOf(t.place);
    card->lines.push_back(std::move(line));
  }
}

std::string TimeText(const KernelDescription& told, const PlannedKernel& kernel, size_t count) {
  std::string text = absl::StrCat(MeasuredText(kernel.prediction.total_us, kernel.measured_us),
                                  count > 1 ? absl::StrCat(", each of ", count) : "");
  absl::StrAppend(&text, "; ", BytesText(told.border_bytes), " read and written");
  if (told.saved_bytes > 0)
    absl::StrAppend(&text, ", ", BytesText(told.saved_bytes), " saved by fusion");
  return text;
}

Card KernelCard(const Explanation& e, const std::vector<int>& kernels,
                const std::vector<int>& groups) {
  const auto first = static_cast<size_t>(kernels.front());
  const KernelDescription& told = e.kernels[first];
  Card card{
      "panel",
      absl::StrCat("kernel ", KernelNumbers(kernels),
                   kernels.size() > 1 ? " (alike, the first is drawn): " : ": ", told.computes),
      "h2"};
  card.lines = {{told.kind}, {absl::StrCat(told.problem, "   [", told.schedule, "]")}};
  for (const auto& [name, text] : told.lines) {
    if (name == "reads" || name == "writes") continue;
    card.lines.push_back({absl::StrCat(name, " ", text)});
  }
  if (told.products.has_value()) {
    card.lines.push_back({absl::StrJoin(told.products->BlockLines(), "; ")});
    if (told.products->window.has_value()) {
      for (const std::string& line : told.products->window->Lines()) card.lines.push_back({line});
    }
  }
  if (!told.hands.empty()) card.lines.push_back({HandsText(told)});
  card.lines.push_back({TimeText(told, e.plan.kernels[first], kernels.size())});
  card.lines.back().style = "strong";
  AddTensors(told.reads, false, groups, &card);
  AddTensors(told.writes, true, groups, &card);
  card.columns =
      StepsOf(told, std::clamp(kMostStepsOfPlan / e.equal.size(), kLeastSteps, kMostSteps));
  card.levels = told.levels;
  card.levels_head = absl::StrFormat("predicted time of each level, red: the bound; %s%.2f us",
                                     told.sum.empty() ? "in all " : told.sum + " = ",
                                     e.plan.kernels[first].prediction.total_us);
  return card;
}

Column KernelCards(const Explanation& e) {
  const std::vector<int> groups = e.Groups();
  Column column{"", {}, kWide};
  for (const std::vector<int>& kernels : e.equal) {
    column.cards.push_back(KernelCard(e, kernels, groups));
  }
  std::map<int, size_t> shown;  // reasons by card
  for (const Explanation::Reason& reason : e.Reasons()) {
    if (++shown[reason.to_group] > kMostReasons) continue;
    std::vector<Line>& lines = column.cards[static_cast<size_t>(reason.to_group)].lines;
    const bool handed = reason.bytes > 0;
    lines.push_back({absl::StrCat("apart: ", ReasonText(e, reason), ", because"),
                     handed ? kWorkspace : kNoWay, handed ? reason.from_group : -1});
    lines.push_back({reason.why, kNoWay, -1, kNoWay, "small apart"});
  }
  return column;
}

// ---- How they are drawn. Each function draws at `at` and returns the height that it took.

// Wraps text at `width`; only a longer word exceeds it. Draws nothing for "".
double DrawText(absl::string_view text, Point at, absl::string_view style, double width, Svg* svg) {
  const double height = absl::StrContains(style, "h1")   ? 26
                        : absl::StrContains(style, "h2") ? 20
                                                         : kLine;
  double y = at.y;
  std::string line;
  const auto flush = [&] {
    svg->Text({at.x, y + 0.73 * height}, line, style);
    line.clear();
    y += height;
  };
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && TextWidth(absl::StrCat(line, " ", word), style) > width) flush();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  if (!line.empty()) flush();
  return y - at.y;
}

double DrawLevels(const Card& card, Point at, Svg* svg) {
  double longest = 0, y = at.y + DrawText(card.levels_head, at, "h3", kWide, svg) + 2;
  for (const LevelCost& level : card.levels) longest = std::max(longest, level.us);
  for (const LevelCost& level : card.levels) {
    const double part = longest > 0 ? std::clamp(level.us / longest, 0.0, 1.0) : 0;
    const Box bar{at.x + kLevelNames, y + 2, std::max(1.0, kLongestBar * part), kLine - 4};
    svg->Text({bar.x - 6, y + 11}, level.level, "small", Anchor::kEnd);
    svg->Rectangle(bar, level.bound ? "bound" : "level", 2);
    svg->Text({bar.Right() + 6, y + 11},
              absl::StrFormat("%.2f us%s%s%s%s", level.us, level.bound ? ", bound" : "",
                              level.amount.empty() ? "" : ", ", level.amount,
                              level.rate.empty() ? "" : " at " + level.rate),
              "small");
    y += kLine;
  }
  return y - at.y;
}

// The values of one card that go one way share a lane: its number, from the cards outwards.
using Lanes = std::map<std::pair<int, int>, size_t>;

Lanes LanesOf(const std::vector<Card>& cards) {
  std::map<std::pair<int, int>, std::pair<int, int>> spans;  // of cards, by writer and way
  for (int i = 0; i < static_cast<int>(cards.size()); ++i) {
    for (const Line& line : cards[static_cast<size_t>(i)].lines) {
      if (line.from < 0) continue;
      auto& span = spans.try_emplace({line.from, line.in}, line.from, line.from).first->second;
      span = {std::min(span.first, i), std::max(span.second, i)};
    }
  }
  std::vector<int> ends;  // the last card of each lane
  Lanes lanes;
  for (int top = 0; top < static_cast<int>(cards.size()); ++top) {
    for (const auto& [value, span] : spans) {
      if (span.first != top) continue;
      const auto free = std::find_if(ends.begin(), ends.end(), [&](int end) { return end < top; });
      const auto lane = static_cast<size_t>(free - ends.begin());
      if (lane == kMostLanes) continue;
      if (free == ends.end()) ends.push_back(0);
      ends[lane] = span.second;
      lanes[value] = lane;
    }
  }
  return lanes;
}

struct DrawnCard {
  Box box;
  Svg content;
  std::vector<double> lines;  // their middles
};

double DrawColumn(const Column& column, Point at, Svg* svg);

DrawnCard DrawCard(const Card& card, Point at, double width) {
  DrawnCard drawn;
  const double x = at.x + kPad;
  double y = at.y + kPad / 2;
  y += DrawText(card.head, {x, y}, card.head_style, width, &drawn.content);
  for (const Line& line : card.lines) {
    drawn.lines.push_back(y + kLine / 2);
    y += DrawText(line.text, {x, y}, line.style, width, &drawn.content);
  }
  Svg steps;
  double below = y;
  for (const Column& column : card.columns)
    below += DrawColumn(column, {x, below + kPad}, &steps) + kPad;
  if (!card.levels.empty()) {
    const double beside = card.columns.empty() ? x : steps.Right() + 2 * kPad;
    y += DrawLevels(card, {beside, y + kPad}, &drawn.content) + kPad;
  }
  drawn.content.Add(steps);
  drawn.box = {at.x, at.y, 0, std::max(y, below) + kPad / 2 - at.y};
  return drawn;
}

// The points of an arrow to a line in the middle of `to`'s left edge: from memory, or along a lane.
std::vector<Point> PathOf(const Line& line, Point to, const std::vector<DrawnCard>& cards,
                          const Lanes& lanes) {
  const auto lane = lanes.find({line.from, line.in});
  if (lane == lanes.end()) return {{to.x - kStub + 4, to.y}, to};
  const double x = to.x - kStub - kLane * static_cast<double>(lane->second);
  const double leave = cards[static_cast<size_t>(line.from)].box.y + 5 + 2 * line.in;
  return {{to.x, leave}, {x, leave}, {x, to.y}, to};
}

double DrawColumn(const Column& column, Point at, Svg* svg) {
  const Lanes lanes = LanesOf(column.cards);
  size_t count = 0;
  for (const auto& [value, lane] : lanes) count = std::max(count, lane + 1);
  const double left = at.x + kStub + kLane * static_cast<double>(count);
  double y = at.y + DrawText(column.title, at, "h3", column.width, svg), right = 0;
  std::vector<DrawnCard> drawn;
  for (const Card& card : column.cards) {
    drawn.push_back(DrawCard(card, {left, y}, column.width));
    right = std::max(right, drawn.back().content.Right() + kPad);
    y = drawn.back().box.Bottom() + kGap;
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    drawn[i].box.width = right - left;
    svg->Rectangle(drawn[i].box, column.cards[i].style, 6);
    svg->Add(drawn[i].content);
    for (size_t j = 0; j < drawn[i].lines.size(); ++j) {
      const Line& line = column.cards[i].lines[j];
      const Point to{left, drawn[i].lines[j]};
      if (line.in != kNoWay) svg->Arrow(PathOf(line, to, drawn, lanes), StyleOf(line.in));
      if (line.out != kNoWay) svg->Arrow({{right, to.y}, {right + kStub, to.y}}, StyleOf(line.out));
    }
  }
  return y - at.y;
}

double DrawLegend(Point at, Svg* svg) {
  Point next = at;
  for (int way = 0; way <= kMemory; ++way) {
    const std::string text = absl::StrCat(kWays[way].first, ": ", kWays[way].second);
    const double width = 46 + TextWidth(text, "small");
    if (next.x + width > at.x + kWide) next = {at.x, next.y + kLine};
    svg->Arrow({{next.x, next.y + 7}, {next.x + 24, next.y + 7}}, StyleOf(way));
    svg->Text({next.x + 30, next.y + 11}, text, "small");
    next.x += width;
  }
  return next.y + kLine - at.y;
}

// "plan of 2 kernels, m <= 128: predicted 11.50 us, ..".
std::string TitleOf(const Explanation& e) {
  return absl::StrCat("plan of ", Counted(e.plan.kernels.size(), "kernel"), ", ",
                      e.plan.UsesM() ? absl::StrCat("m <= ", e.plan.bucket) : "without M", ": ",
                      MeasuredText(e.plan.PredictedUs(), MeasuredUs(e.plan)));
}

}  // namespace

std::string PlanSvg(const Explanation& e) {
  Svg svg;
  double y = kMargin;
  const auto draw = [&](absl::string_view text, absl::string_view style) {
    y += DrawText(text, {kMargin, y}, style, kWide, &svg);
  };
  draw(TitleOf(e), "h1");
  draw(e.computes, "strong");
  draw(absl::StrCat(e.saved_bytes > 0 ? BytesText(e.saved_bytes) + " saved by fusion; " : "",
                    "workspace ", e.plan.workspace_bytes, " B"),
       "strong");
  draw(e.plan.note, "small");
  draw(absl::StrCat("digest ", e.plan.PlanDigest().Hex()), "small");
  y += kPad;
  y += DrawColumn(KernelCards(e), {kMargin, y}, &svg);
  for (size_t i = 0; i < std::min(e.plan.runners_up.size(), kMostRunnersUp); ++i) {
    draw(absl::StrCat("runner-up: ", e.plan.runners_up[i].name, ": ", e.plan.runners_up[i].why_not),
         "small");
  }
  y += kPad;
  y += DrawLegend({kMargin, y}, &svg);
  return svg.Document(svg.Right() + kMargin, y + kMargin, TitleOf(e));
}

}  // namespace sinter
