// Svg: shapes of a self-contained SVG document, one element a call. Colours and fonts are classes
// of one style sheet (svg.cc), so that drawings name what a thing is, not how it looks.
#ifndef SINTER_SRC_PLAN_SVG_H_
#define SINTER_SRC_PLAN_SVG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sinter {

// '&', '<', '>', quotes as entities; bytes that XML 1.0 or UTF-8 does not allow as '?'.
std::string XmlEscape(absl::string_view text);

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double Right() const { return x + width; }
  double Bottom() const { return y + height; }
  double MiddleX() const { return x + width / 2; }
  double MiddleY() const { return y + height / 2; }
};

enum class Anchor { kStart, kMiddle, kEnd };

// Coordinates are pixels, y down. `style` is one or more class names. Text is escaped here.
class Svg {
 public:
  void Rectangle(const Box& box, absl::string_view style, double radius = 0);
  void Text(Point at, absl::string_view text, absl::string_view style,
            Anchor anchor = Anchor::kStart);
  void Line(Point from, Point to, absl::string_view style);
  // A line with a head.
  void Arrow(Point from, Point to, absl::string_view style);
  // A curve with a head: leaves `from` and reaches `to` from above, `lift` pixels higher.
  void Arc(Point from, Point to, double lift, absl::string_view style);

  // The document so far, `width` by `height`, on a white ground. `title` is for readers aloud.
  std::string Document(double width, double height, absl::string_view title) const;

 private:
  std::string body_;
};

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_SVG_H_
