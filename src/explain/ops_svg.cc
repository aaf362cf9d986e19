// Draws the ops of a stitched kernel in rows by depth, and the memory that each hand-over goes
// through.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/explain/explain.h"

namespace sinter {
namespace {

// ---- Layout: pure geometry

constexpr double kLeastGapX = 26, kLeastGapY = 17;
constexpr double kLaneStep = 6;    // between lines in one gap
constexpr double kLabelRoom = 13;  // above a box, for the labels of its lines

struct OpEdge {
  int from = 0, to = 0;  // indices in KernelDescription::ops
  int read = 0;          // index in the reader's reads
  std::vector<Point> path;
};

// Ops stand in rows by depth, as many side by side as fit, in boxes of one width. Lines run down
// from an op, along the gap between rows, and past rows in the gap between columns: no line crosses
// a box, and the lines in one gap have separate lanes. Deterministic. From {0, 0} to {width,
// height}.
struct OpLayout {
  std::map<int, Box> boxes;
  std::vector<OpEdge> edges;
  double width = 0, height = 0;
};

// Gives intervals that touch different lanes: the first free one.
class Lanes {
 public:
  int Take(double from, double to) {
    size_t lane = 0;
    while (lane < taken_.size() && Touches(taken_[lane], from, to)) ++lane;
    if (lane == taken_.size()) taken_.emplace_back();
    taken_[lane].emplace_back(from, to);
    return static_cast<int>(lane);
  }
  // Width of the lanes with a step on either side; 0 without lanes.
  double Room() const {
    return taken_.empty() ? 0 : kLaneStep * static_cast<double>(taken_.size() + 1);
  }

 private:
  using Intervals = std::vector<std::pair<double, double>>;
  static bool Touches(const Intervals& lane, double from, double to) {
    return std::any_of(lane.begin(), lane.end(),
                       [&](const auto& one) { return from <= one.second && one.first <= to; });
  }
  std::vector<Intervals> taken_;
};

struct Place {
  int row = 0, column = 0;
};

// A line in the making. Gaps above rows have the numbers of the rows; gaps left of columns, those
// of the columns.
struct Route {
  OpEdge edge;
  Place from, to;
  int beside =
      -1;  // the gap between columns in which the line passes rows; -1: its rows are neighbours
  int down_lane = 0, first_lane = 0, last_lane = 0;
};

// Lays out `ops`, each after the ops that it reads. Reads of other ops have no line. `heights`: of
// the ops' boxes.
class Layouter {
 public:
  Layouter(const KernelDescription& kernel, const std::vector<int>& ops, double width,
           const std::map<int, double>& heights)
      : kernel_(kernel),
        width_(width),
        heights_(heights),
        ops_a_row_(
            std::max(1, static_cast<int>((kDrawingWidth + kLeastGapX) / (width + kLeastGapX)))) {
    PlaceOps(ops);
    for (int op : ops) AddRoutes(op);
    TakeColumns();
    TakeRows();
  }

  OpLayout Take() {
    OpLayout out;
    for (const auto& [op, place] : places_) out.boxes[op] = BoxOf(op);
    for (Route& route : routes_) {
      route.edge.path = PathOf(route);
      out.edges.push_back(std::move(route.edge));
    }
    out.width = gap_left_.back() + columns_.back().Room();
    out.height = rows_ == 0 ? 0 : top_.back() + row_heights_.back();
    return out;
  }

 private:
  // Places the ops of one depth side by side, wrapped; deeper ones below.
  void PlaceOps(const std::vector<int>& ops) {
    std::map<int, int> depth;
    std::map<int, std::vector<int>> levels;
    for (int op : ops) {
      int own = 0;
      for (const OpRead& read : kernel_.ops[static_cast<size_t>(op)].reads) {
        const auto producer = depth.find(read.op);
        if (producer != depth.end()) own = std::max(own, producer->second + 1);
      }
      depth[op] = own;
      levels[own].push_back(op);
    }
    for (const auto& [own, level] : levels) {
      for (size_t n = 0; n < level.size(); ++n) {
        const int column = static_cast<int>(n) % ops_a_row_;
        if (column == 0) ++rows_;
        used_columns_ = std::max(used_columns_, column + 1);
        places_[level[n]] = {rows_ - 1, column};
        row_heights_.resize(static_cast<size_t>(rows_));
        row_heights_.back() = std::max(row_heights_.back(), heights_.at(level[n]));
      }
    }
  }

  void AddRoutes(int op) {
    const std::vector<OpRead>& reads = kernel_.ops[static_cast<size_t>(op)].reads;
    for (size_t i = 0; i < reads.size(); ++i) {
      const auto producer = places_.find(reads[i].op);
      if (producer == places_.end()) continue;
      Route route;
      route.edge = {reads[i].op, op, static_cast<int>(i), {}};
      route.from = producer->second;
      route.to = places_.at(op);
      if (route.to.row > route.from.row + 1) {
        route.beside = route.from.column < route.to.column ? route.to.column : route.to.column + 1;
      }
      routes_.push_back(std::move(route));
    }
  }

  // Gives lines that pass rows lanes beside columns, which fixes the columns' positions.
  void TakeColumns() {
    columns_.resize(static_cast<size_t>(used_columns_) + 1);
    for (Route& route : routes_) {
      if (route.beside < 0) continue;
      route.down_lane =
          columns_[static_cast<size_t>(route.beside)].Take(route.from.row + 1, route.to.row);
    }
    double x = 0;
    for (int i = 0; i <= used_columns_; ++i) {
      gap_left_.push_back(x);
      if (i == used_columns_) break;
      const double room = columns_[static_cast<size_t>(i)].Room();
      x += i == 0 ? room : std::max(kLeastGapX, room);
      left_.push_back(x);
      x += width_;
    }
  }

  // Gives lines along rows lanes above them, which fixes the rows' positions.
  void TakeRows() {
    std::vector<Lanes> above(static_cast<size_t>(rows_) + 1);
    for (Route& route : routes_) {
      const double from = FromX(route), to = ToX(route);
      const double first = route.beside < 0 ? to : DownX(route);
      route.first_lane = TakeRow(&above[static_cast<size_t>(route.from.row) + 1], from, first);
      if (route.beside < 0) continue;
      route.last_lane = TakeRow(&above[static_cast<size_t>(route.to.row)], first, to);
    }
    double y = 0;
    for (int row = 0; row < rows_; ++row) {
      const double room = above[static_cast<size_t>(row)].Room() + kLabelRoom;
      gap_top_.push_back(y);
      if (row > 0) y += std::max(kLeastGapY, room);
      top_.push_back(y);
      y += row_heights_[static_cast<size_t>(row)];
    }
  }

  static int TakeRow(Lanes* lanes, double from, double to) {
    return lanes->Take(std::min(from, to), std::max(from, to));
  }

  Box BoxOf(int op) const {
    const Place& place = places_.at(op);
    return {left_[static_cast<size_t>(place.column)], top_[static_cast<size_t>(place.row)], width_,
            heights_.at(op)};
  }
  double FromX(const Route& route) const {
    return left_[static_cast<size_t>(route.from.column)] + width_ / 2;
  }
  double ToX(const Route& route) const {
    const auto slots =
        static_cast<double>(kernel_.ops[static_cast<size_t>(route.edge.to)].reads.size());
    return left_[static_cast<size_t>(route.to.column)] + width_ * (route.edge.read + 0.5) / slots;
  }
  double DownX(const Route& route) const {
    return gap_left_[static_cast<size_t>(route.beside)] + kLaneStep * (route.down_lane + 1);
  }
  double LaneY(int row, int lane) const {
    return gap_top_[static_cast<size_t>(row)] + kLaneStep * (lane + 1);
  }

  std::vector<Point> PathOf(const Route& route) const {
    const double from = FromX(route), to = ToX(route);
    const double first = LaneY(route.from.row + 1, route.first_lane);
    std::vector<Point> path = {{from, BoxOf(route.edge.from).Bottom()}, {from, first}};
    if (route.beside >= 0) {
      const double down = DownX(route), last = LaneY(route.to.row, route.last_lane);
      path.insert(path.end(), {{down, first}, {down, last}, {to, last}});
    } else {
      path.push_back({to, first});
    }
    path.push_back({to, BoxOf(route.edge.to).y});
    return path;
  }

  const KernelDescription& kernel_;
  const double width_;
  const std::map<int, double>& heights_;
  const int ops_a_row_;
  std::vector<double> row_heights_;
  std::map<int, Place> places_;
  std::vector<Route> routes_;
  int rows_ = 0, used_columns_ = 0;
  std::vector<Lanes> columns_;           // left of each column, and right of the last
  std::vector<double> gap_left_, left_;  // of the gaps, and of the columns right of them
  std::vector<double> gap_top_, top_;    // the same for rows
};

// ---- Drawing

constexpr size_t kDrawnOps = 96;  // of one part
constexpr double kLeastWidth = 150;
constexpr double kBoxHead = 18, kBoxLine = 12, kBelowBox = 8;  // heights in a box

std::string WithViews(absl::string_view source, const OpRead& read) {
  if (read.through.empty()) return std::string(source);
  return absl::StrCat(source, " (", absl::StrJoin(read.through, ", "), ")");
}

// Draws the first of several equal parts. A box is as wide as the longest line of any, so that none
// is cut.
class PartDrawing {
 public:
  PartDrawing(const KernelDescription& kernel, const std::vector<int>& ops)
      : kernel_(kernel), shown_(ops.begin(), ops.begin() + std::min(ops.size(), kDrawnOps)) {
    double width = kLeastWidth;
    std::map<int, double> heights;
    for (int i : shown_) {
      width = std::max(width, TextWidth(HeadOf(i), "strong") + 2 * kInset);
      const std::vector<std::string> lines = LinesOf(i);
      for (const std::string& line : lines) {
        width = std::max(width, TextWidth(line, "tiny") + 2 * kInset);
      }
      heights[i] = kBoxHead + kBoxLine * static_cast<double>(lines.size()) + kBelowBox;
    }
    layout_ = Layouter(kernel, shown_, width, heights).Take();
  }

  double Draw(Point at, Svg* svg) const {
    for (const OpEdge& edge : layout_.edges) DrawEdge(edge, at, svg);
    for (int i : shown_) DrawOp(i, at, svg);
    return layout_.height + 22;
  }

 private:
  const OpPicture& op(int i) const { return kernel_.ops[static_cast<size_t>(i)]; }

  // With the composition's name where there is room for it: its colour says it too.
  void DrawEdge(const OpEdge& edge, Point at, Svg* svg) const {
    const std::vector<OpRead>& reads = op(edge.to).reads;
    const OpRead& read = reads[static_cast<size_t>(edge.read)];
    std::vector<Point> path = edge.path;
    for (Point& point : path) point = {point.x + at.x, point.y + at.y};
    svg->Lines(path, absl::StrCat("via via-", NameOf(read.by)));
    const double room =
        layout_.boxes.at(edge.to).width / static_cast<double>(reads.size()) - kInset;
    if (TextWidth(NameOf(read.by), "tiny") > room) return;
    svg->Text({path.back().x + 3, path.back().y - 3}, NameOf(read.by), "tiny");
  }

  void DrawOp(int i, Point at, Svg* svg) const {
    Box box = layout_.boxes.at(i);
    box.x += at.x;
    box.y += at.y;
    svg->Rectangle(box, absl::StartsWith(op(i).name, "reduce") ? "op reduces" : "op", 4);
    svg->Text({box.x + kInset, box.y + 14}, HeadOf(i), "strong");
    double y = box.y + kBoxHead + 8;
    for (const std::string& line : LinesOf(i)) {
      svg->Text({box.x + kInset, y}, line, "tiny");
      y += kBoxLine;
    }
  }

  std::string HeadOf(int i) const { return absl::StrCat("%", i, " ", op(i).name); }

  // Its type; inputs and outputs of the kernel; views between it and another op; bytes saved.
  std::vector<std::string> LinesOf(int i) const {
    std::vector<std::string> lines = {op(i).type};
    for (const OpRead& read : op(i).reads) {
      if (read.op < 0) {
        lines.push_back(
            WithViews(kernel_.reads[static_cast<size_t>(read.tensor)].ShortName(), read));
      } else if (!read.through.empty()) {
        lines.push_back(WithViews(absl::StrCat("%", read.op), read));
      }
    }
    for (int out : op(i).writes) {
      lines.push_back(absl::StrCat("> ", kernel_.writes[static_cast<size_t>(out)].ShortName()));
    }
    if (op(i).saved_bytes > 0) {
      lines.push_back(
          absl::StrCat("saves ", AmountText(static_cast<double>(op(i).saved_bytes), "B")));
    }
    return lines;
  }

  const KernelDescription& kernel_;
  const std::vector<int> shown_;
  OpLayout layout_;
};

}  // namespace

double DrawOps(const KernelDescription& kernel, Point at, Svg* svg) {
  double y = at.y;
  for (const auto& alike : kernel.parts) {
    const std::vector<int>& ops = alike.front();
    if (kernel.PartCount() > 1) {
      svg->Text({at.x, y + 12},
                alike.size() > 1 ? absl::StrCat(alike.size(), " packed parts are alike; the first:")
                                 : "a packed part:",
                "h3");
      y += 22;
    }
    y += PartDrawing(kernel, ops).Draw({at.x, y}, svg);
    if (ops.size() > kDrawnOps) {
      svg->Text({at.x, y}, absl::StrCat("and ", ops.size() - kDrawnOps, " more ops"), "small");
      y += 18;
    }
  }
  return y - at.y;
}

}  // namespace sinter
