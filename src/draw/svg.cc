#include "src/draw/svg.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

constexpr char kStyle[] = R"css(
text{font-family:Inter,Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2933}
.h1{font-size:20px;font-weight:600}.h2{font-size:15px;font-weight:600}
.h3{font-size:12px;font-weight:600;fill:#52606d}.small{font-size:11px;fill:#52606d}
.strong{font-weight:600}.apart{fill:#9b2c2c}
.ground{fill:#ffffff}.panel{fill:#f7f9fb;stroke:#d9e2ec}
.step{fill:#ffffff;stroke:#627d98}.reduces{fill:#e9d8fd}
.level{fill:#90cdf4}.bound{fill:#e53e3e}
.way{stroke-width:1.4;fill:none}
)css";

// The style of an arrow, and its colour: a marker does not inherit its line's colour.
constexpr std::pair<const char*, const char*> kWays[] = {
    {"way-thread", "#9fb3c8"},  {"way-warp", "#2f855a"}, {"way-block", "#dd6b20"},
    {"way-cluster", "#6b46c1"}, {"way-grid", "#e53e3e"}, {"way-workspace", "#b7791f"},
    {"way-memory", "#627d98"}};

std::string Number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return absl::StrCat(rounded == 0 ? 0 : rounded);  // never "-0"
}

std::string Attribute(absl::string_view name, double value) {
  return absl::StrCat(" ", name, "=\"", Number(value), "\"");
}

std::string Style(absl::string_view style) { return absl::StrCat(" class=\"", style, "\""); }

// The styles of arrows.
std::string Ways() {
  std::string style;
  for (const auto& [name, colour] : kWays) {
    absl::StrAppend(&style, ".", name, "{stroke:", colour, "}");
  }
  return style + "\n";
}

std::string Heads() {
  std::string defs = "<defs>";
  for (const auto& [name, colour] : kWays) {
    absl::StrAppend(&defs, "<marker id=\"", name,
                    "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" "
                    "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
                    "<path d=\"M0 0L8 4L0 8z\" fill=\"",
                    colour, "\"/></marker>");
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
  const double size = absl::StrContains(style, "small") ? 11
                      : absl::StrContains(style, "h1")  ? 20
                      : absl::StrContains(style, "h2")  ? 15
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

void Svg::Arrow(const std::vector<Point>& points, absl::string_view style) {
  absl::StrAppend(&body_, "<polyline points=\"");
  for (size_t i = 0; i < points.size(); i++) {
    Reach(points[i].x);
    absl::StrAppend(&body_, i > 0 ? " " : "", Number(points[i].x), ",", Number(points[i].y));
  }
  absl::StrAppend(&body_, "\"", Style(absl::StrCat("way ", style)), " marker-end=\"url(#", style,
                  ")\"/>\n");
}

void Svg::Add(const Svg& shapes) {
  Reach(shapes.right_);
  body_ += shapes.body_;
}

std::string Svg::Document(double width, double height, absl::string_view title) const {
  const std::string w = Number(width), h = Number(height);
  return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h,
                      "\" viewBox=\"0 0 ", w, " ", h, "\" role=\"img\">\n<title>", XmlEscape(title),
                      "</title>\n<style>", kStyle, Ways(), "</style>\n", Heads(),
                      "<rect class=\"ground\" width=\"", w, "\" height=\"", h, "\"/>\n", body_,
                      "</svg>\n");
}

}  // namespace sinter
