#include "src/draw/svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

constexpr char kStyle[] = R"css(
text{font-family:Inter,Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2933}
.h1{font-size:20px;font-weight:600}.h2{font-size:15px;font-weight:600}
.h3{font-size:12px;font-weight:600;fill:#52606d}.small{font-size:11px;fill:#52606d}
.tiny{font-size:9px;fill:#52606d}.strong{font-weight:600}
.ground{fill:#ffffff}.panel{fill:#f7f9fb;stroke:#d9e2ec}
.block{fill:#ffffff;stroke:#9fb3c8}.cluster{fill:none;stroke:#486581;stroke-dasharray:4 3}
.rows{fill:#bcd8f5;stroke:#2b6cb0}.weights{fill:#d5dde5;stroke:#627d98}
.c0{fill:#74b3ce}.c1{fill:#f2b880}.c2{fill:#9dc08b}.c3{fill:#d3a4c7}.c4{fill:#e8d07a}.c5{fill:#a3a8d8}
.skipped{fill:#ffffff;stroke:#d9e2ec;stroke-width:.6}
.tile{stroke:#ffffff;stroke-width:.6}.later{opacity:.55}
.ring{fill:#90cdf4;stroke:#ffffff}.c{fill:#f6ad55;stroke:#ffffff}
.partial{fill:#fbd38d;stroke:#ffffff}.other{fill:#e2e8f0;stroke:#ffffff}
.warpgroup{fill:#c6f6d5;stroke:#2f855a}
.hbm{stroke:#627d98;fill:#627d98}.l2{stroke:#6b46c1;fill:#6b46c1}.dsm{stroke:#dd6b20;fill:#dd6b20}
.onchip{stroke:#2f855a;fill:#2f855a}.l2bar{fill:#e9d8fd;stroke:#6b46c1}
.level{fill:#90cdf4}.bound{fill:#e53e3e}.axis{stroke:#cbd2d9}
.op{fill:#ffffff;stroke:#627d98}.reduces{fill:#e9d8fd}.apart{fill:#9b2c2c}
.via{stroke-width:1.3;fill:none}.via-thread{stroke:#9fb3c8}.via-warp{stroke:#2f855a}.via-block{stroke:#dd6b20}
.via-cluster{stroke:#6b46c1}.via-grid{stroke:#e53e3e}
.line{stroke-width:1.4;fill:none}.thick{stroke-width:5;fill:none}
)css";

// One arrow head per colour: a marker does not inherit its line's colour.
constexpr const char* kHeads[][2] = {
    {"hbm", "#627d98"}, {"l2", "#6b46c1"}, {"dsm", "#dd6b20"}, {"onchip", "#2f855a"}};

std::string Number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return absl::StrCat(rounded == 0 ? 0 : rounded);  // never "-0"
}

std::string Attribute(absl::string_view name, double value) {
  return absl::StrCat(" ", name, "=\"", Number(value), "\"");
}

std::string Style(absl::string_view style) { return absl::StrCat(" class=\"", style, "\""); }

// The arrow head of the first class of `style` that has one.
std::string Head(absl::string_view style) {
  for (const auto& head : kHeads) {
    if (style.find(head[0]) != absl::string_view::npos) {
      return absl::StrCat(" marker-end=\"url(#head-", head[0], ")\"");
    }
  }
  return "";
}

std::string Heads() {
  std::string defs = "<defs>";
  for (const auto& head : kHeads) {
    absl::StrAppend(&defs, "<marker id=\"head-", head[0],
                    "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" "
                    "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
                    "<path d=\"M0 0L8 4L0 8z\" fill=\"",
                    head[1], "\"/></marker>");
  }
  return defs + "</defs>\n";
}

// Length of the UTF-8 sequence at text[i]; 0 when it is invalid.
size_t SequenceLength(absl::string_view text, size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  const size_t length = byte < 0x80                   ? 1
                        : byte >= 0xf0 && byte < 0xf5 ? 4
                        : byte >= 0xe0 && byte < 0xf0 ? 3
                        : byte >= 0xc2 && byte < 0xe0 ? 2
                                                      : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; k++) {
    if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

void AppendEscaped(char c, std::string* out) {
  switch (c) {
    case '&':
      out->append("&amp;");
      return;
    case '<':
      out->append("&lt;");
      return;
    case '>':
      out->append("&gt;");
      return;
    case '"':
      out->append("&quot;");
      return;
    case '\'':
      out->append("&#39;");
      return;
    default:
      out->push_back(static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' ? '?' : c);
  }
}

}  // namespace

std::string XmlEscape(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text, i);
    if (length <= 1) {
      AppendEscaped(length == 0 ? '?' : text[i], &out);
      i++;
      continue;
    }
    out.append(text.data() + i, length);
    i += length;
  }
  return out;
}

double TextWidth(absl::string_view text, absl::string_view style) {
  constexpr absl::string_view kNarrow = " !'(),./:;I[]`fijlrt|";
  constexpr absl::string_view kWide = "%@GMOQWmw";
  constexpr double kSafety = 1.2;  // for fallback fonts, of which DejaVu Sans is the widest
  const double size = absl::StrContains(style, "tiny")    ? 9
                      : absl::StrContains(style, "small") ? 11
                      : absl::StrContains(style, "h1")    ? 20
                      : absl::StrContains(style, "h2")    ? 15
                                                          : 12;
  double ems = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation byte
    const bool narrow = absl::StrContains(kNarrow, c), wide = absl::StrContains(kWide, c);
    ems += byte >= 0x80 ? 1 : narrow ? 0.31 : wide ? 0.86 : absl::ascii_isupper(byte) ? 0.68 : 0.56;
  }
  return ems * size * kSafety;
}

void Svg::Rectangle(const Box& box, absl::string_view style, double radius) {
  Reach(box.Right());
  absl::StrAppend(&body_, "<rect", Attribute("x", box.x), Attribute("y", box.y),
                  Attribute("width", box.width), Attribute("height", box.height),
                  radius > 0 ? Attribute("rx", radius) : std::string(), Style(style), "/>\n");
}

void Svg::Text(Point at, absl::string_view text, absl::string_view style, Anchor anchor) {
  const char* where = anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                      : anchor == Anchor::kEnd  ? " text-anchor=\"end\""
                                                : "";
  const double width = TextWidth(text, style);
  Reach(at.x + (anchor == Anchor::kStart ? width : anchor == Anchor::kMiddle ? width / 2 : 0));
  absl::StrAppend(&body_, "<text", Attribute("x", at.x), Attribute("y", at.y), Style(style), where,
                  ">", XmlEscape(text), "</text>\n");
}

void Svg::Line(Point from, Point to, absl::string_view style) {
  Reach(std::max(from.x, to.x));
  absl::StrAppend(&body_, "<line", Attribute("x1", from.x), Attribute("y1", from.y),
                  Attribute("x2", to.x), Attribute("y2", to.y), Style(style), "/>\n");
}

void Svg::Lines(const std::vector<Point>& points, absl::string_view style) {
  absl::StrAppend(&body_, "<polyline points=\"");
  for (size_t i = 0; i < points.size(); i++) {
    Reach(points[i].x);
    absl::StrAppend(&body_, i > 0 ? " " : "", Number(points[i].x), ",", Number(points[i].y));
  }
  absl::StrAppend(&body_, "\"", Style(style), "/>\n");
}

void Svg::Arrow(Point from, Point to, absl::string_view style) {
  Reach(std::max(from.x, to.x));
  absl::StrAppend(&body_, "<line", Attribute("x1", from.x), Attribute("y1", from.y),
                  Attribute("x2", to.x), Attribute("y2", to.y), Style(absl::StrCat("line ", style)),
                  " style=\"fill:none\"", Head(style), "/>\n");
}

void Svg::Arc(Point from, Point to, double lift, absl::string_view style) {
  Reach(std::max(from.x, to.x));
  absl::StrAppend(&body_, "<path d=\"M", Number(from.x), " ", Number(from.y), "C", Number(from.x),
                  " ", Number(from.y - lift), " ", Number(to.x), " ", Number(to.y - lift), " ",
                  Number(to.x), " ", Number(to.y), "\"", Style(absl::StrCat("line ", style)),
                  " style=\"fill:none\"", Head(style), "/>\n");
}

std::string Svg::Document(double width, double height, absl::string_view title) const {
  const std::string w = Number(width), h = Number(height);
  return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h,
                      "\" viewBox=\"0 0 ", w, " ", h, "\" role=\"img\">\n<title>", XmlEscape(title),
                      "</title>\n<style>", kStyle, "</style>\n", Heads(),
                      "<rect class=\"ground\" width=\"", w, "\" height=\"", h, "\"/>\n", body_,
                      "</svg>\n");
}

}  // namespace sinter
