#include "src/stitch/along.h"

#include <cstdint>
#include <set>

namespace sinter {
namespace {

// How a value moves along a vector: `slope` is its step from element to element; `aligned`: at the
// first element it is a multiple of the width.
struct Motion {
  enum Slope { kZero, kOne, kUnknown } slope = kZero;
  bool aligned = true;
};

Motion MotionOf(const IndexSpace& space, const Index& index, IndexVar element, int width);

Motion MotionOfVar(const IndexSpace& space, IndexVar v, IndexVar element, int width) {
  const IndexSpace::Var& var = space.var(v);
  if (v == element) return {Motion::kOne, true};
  if (var.kind == IndexSpace::Var::kLoop) return {Motion::kZero, false};
  for (const Index& index : var.at) {  // what is read from memory there may be anything
    if (MotionOf(space, index, element, width).slope != Motion::kZero) {
      return {Motion::kUnknown, false};
    }
  }
  if (var.kind == IndexSpace::Var::kRead) return {Motion::kZero, false};
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

}  // namespace

Along AlongVector(const IndexSpace& space, const Index& index, IndexVar element, int width) {
  const Motion motion = MotionOf(space, index, element, width);
  if (motion.slope == Motion::kZero) return Along::kUniform;
  return motion.slope == Motion::kOne && motion.aligned ? Along::kNext : Along::kScattered;
}

int AccessesOfVector(const IndexSpace& space, const Index& address, IndexVar element, int width) {
  if (AlongVector(space, address, element, width) != Along::kScattered) return 1;
  std::set<int64_t> different;
  for (int e = 0; e < width; ++e) different.insert(space.ValueAt(address, element, e));
  return static_cast<int>(different.size());
}

Index AddressOf(const Position& at, const std::vector<Stride>& strides, IndexSpace& space) {
  Index address;
  for (size_t i = 0; i < at.size(); ++i) address = address.Plus(at[i].Times(strides[i].value));
  return space.Canonical(address);
}

}  // namespace sinter
