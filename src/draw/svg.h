// Svg: shapes of a self-contained SVG document, one element a call. Colours and fonts are classes
// of one style sheet (svg.cc): drawings name what a shape is, not how it looks.
#ifndef SINTER_SRC_DRAW_SVG_H_
#define SINTER_SRC_DRAW_SVG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sinter {

// '&', '<', '>' and quotes as entities; bytes that XML 1.0 or UTF-8 does not allow as '?'.
std::string XmlEscape(absl::string_view text);

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double Right() const { return x + width; }
  double Bottom() const { return y + height; }
  double MiddleX() const { return x + width / 2; }
};

enum class Anchor { kStart, kMiddle, kEnd };

// Width of `text` in `style`, in pixels; estimated high rather than low.
double TextWidth(absl::string_view text, absl::string_view style);

// Coordinates are pixels, y down. `style` is one or more class names. Text is escaped here.
class Svg {
 public:
  void Rectangle(const Box& box, absl::string_view style, double radius = 0);
  void Text(Point at, absl::string_view text, absl::string_view style,
            Anchor anchor = Anchor::kStart);
  // A polyline through all points, with an arrow head. `style` is one of a way: "way-block".
  void Arrow(const std::vector<Point>& points, absl::string_view style);
  // All shapes of another drawing, on top of those here.
  void Add(const Svg& shapes);

  // The right end of the rightmost shape.
  double Right() const { return right_; }

  // The document so far, `width` by `height`, on white. `title` is for screen readers.
  std::string Document(double width, double height, absl::string_view title) const;

 private:
  void Reach(double x) { right_ = x > right_ ? x : right_; }

  std::string body_;
  double right_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_DRAW_SVG_H_
