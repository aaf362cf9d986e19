#include "src/codegen/stitch/index_text.h"

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

// A step of one element moves the value by `slope`; `aligned`: it is a multiple of the width at
// the first element.
struct Motion {
  enum Slope { kZero, kOne, kUnknown } slope = kZero;
  bool aligned = true;
};

Motion MotionOf(const IndexSpace& space, const Index& index, IndexVar element, int width);

Motion MotionOfVar(const IndexSpace& space, IndexVar v, IndexVar element, int width) {
  const IndexSpace::Var& var = space.var(v);
  if (v == element) return {Motion::kOne, true};
  if (var.kind == IndexSpace::Var::kLoop) return {Motion::kZero, false};
  const Motion of = MotionOf(space, var.of, element, width);
  if (of.slope == Motion::kZero) return {Motion::kZero, false};
  if (of.slope != Motion::kOne || !of.aligned || var.divisor % width != 0) {
    return {Motion::kUnknown, false};
  }
  if (var.kind == IndexSpace::Var::kQuotient) return {Motion::kZero, false};
  return {Motion::kOne, true};
}

Motion MotionOf(const IndexSpace& space, const Index& index, IndexVar element, int width) {
  Motion sum;
  sum.aligned = index.offset() % width == 0;
  for (const auto& [v, factor] : index.terms()) {
    const Motion one = MotionOfVar(space, v, element, width);
    sum.aligned &= one.aligned || factor % width == 0;
    if (one.slope == Motion::kZero) continue;
    const bool first = one.slope == Motion::kOne && factor == 1 && sum.slope == Motion::kZero;
    sum.slope = first ? Motion::kOne : Motion::kUnknown;
  }
  return sum;
}

std::string VarText(const IndexSpace& space, IndexVar v, IndexVar element, bool each) {
  const IndexSpace::Var& var = space.var(v);
  if (var.kind == IndexSpace::Var::kLoop) {
    return v == element && each ? absl::StrCat("(", var.name, " + e)") : var.name;
  }
  const char* sign = var.kind == IndexSpace::Var::kQuotient ? " / " : " % ";
  return absl::StrCat("(", IndexText(space, var.of, element, each), sign, var.divisor, ")");
}

}  // namespace

Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width) {
  const Motion motion = MotionOf(space, index, element, width);
  if (motion.slope == Motion::kZero) return Along::kUniform;
  return motion.slope == Motion::kOne && motion.aligned ? Along::kNext : Along::kScattered;
}

std::string IndexText(const IndexSpace& space, const Index& index, IndexVar element, bool each) {
  std::string text;
  for (const auto& [v, factor] : index.terms()) {
    absl::StrAppend(&text, text.empty() ? "" : " + ", VarText(space, v, element, each));
    if (factor != 1) absl::StrAppend(&text, " * ", factor);
  }
  if (text.empty()) return absl::StrCat(index.offset());
  if (index.offset() != 0) absl::StrAppend(&text, " + ", index.offset());
  return absl::StrCat("(", text, ")");
}

}  // namespace sinter
