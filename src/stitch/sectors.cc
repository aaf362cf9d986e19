#include "src/stitch/sectors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "src/base/numbers.h"

namespace sinter {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 40;

// Collects where a counter's digits begin: the divisors of its quotients and remainders.
class Breaks {
 public:
  Breaks(const IndexSpace& space, IndexVar loop) : space_(space), loop_(loop) {}

  void Add(const Index& index) {
    for (const auto& [v, factor] : index.terms()) Of(v);
  }
  const std::set<int64_t>& all() const { return breaks_; }

 private:
  // Steps of the counter until `v` moves by one; 0: it does not move with it.
  int64_t Of(IndexVar v) {
    if (v == loop_) return 1;
    const IndexSpace::Var& var = space_.var(v);
    if (var.kind == IndexSpace::Var::kRead) {
      for (const Index& index : var.at) Add(index);
      return 0;
    }
    const bool nearest = var.kind == IndexSpace::Var::kNearest;
    if (!nearest && var.kind != IndexSpace::Var::kQuotient &&
        var.kind != IndexSpace::Var::kRemainder) {
      return 0;
    }
    int64_t least = 0;
    for (const auto& [inner, factor] : var.of.terms()) {
      const int64_t steps = Of(inner);
      if (steps == 0) continue;
      const int64_t own = std::max<int64_t>(1, steps / std::max<int64_t>(1, std::abs(factor)));
      least = least == 0 ? own : std::min(least, own);
    }
    if (least == 0 || nearest) return least;
    breaks_.insert(least);
    breaks_.insert(least * var.divisor);
    return var.kind == IndexSpace::Var::kQuotient ? least * var.divisor : least;
  }

  const IndexSpace& space_;
  const IndexVar loop_;
  std::set<int64_t> breaks_ = {1};
};

constexpr int kLanes = 32, kBanks = 32;
constexpr int64_t kBankWordBytes = 4, kBankAccessBytes = 16;

// Cycles of lanes begin..end - 1, each with `words` words side by side: the load of the fullest
// bank. A word that several lanes read counts once.
int64_t CyclesOf(const std::vector<int64_t>& first_words, size_t begin, size_t end, int64_t words) {
  std::array<int64_t, kBanks> fill{};
  std::vector<int64_t> all;
  for (size_t lane = begin; lane < end; ++lane) {
    for (int64_t w = 0; w < words; ++w) all.push_back(first_words[lane] + w);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const int64_t word : all) ++fill[static_cast<size_t>(((word % kBanks) + kBanks) % kBanks)];
  return *std::max_element(fill.begin(), fill.end());
}

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
  if (of.slope != Motion::kOne || !of.aligned || var.divisor % width != 0 ||
      var.kind == IndexSpace::Var::kNearest) {
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

SectorDigits DigitsOf(const IndexSpace& space, const Index& address, IndexVar loop, int64_t extent,
                      int64_t bytes) {
  if (extent == 0) extent = kUnbounded;
  Breaks breaks(space, loop);
  breaks.Add(address);
  std::vector<int64_t> begins;
  for (const int64_t at : breaks.all()) {
    if (at < extent && (begins.empty() || at % begins.back() == 0)) begins.push_back(at);
  }
  const int64_t first = space.ValueAt(address, loop, 0);
  SectorDigits digits;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t end = i + 1 < begins.size() ? begins[i + 1] : extent;
    const int64_t step = space.ValueAt(address, loop, begins[i]) - first;
    digits.push_back({CeilDiv(end, begins[i]), step * bytes});
  }
  return digits;
}

SectorDigits FirstOf(const SectorDigits& digits, int64_t count) {
  SectorDigits first;
  for (const SectorDigit& digit : digits) {
    if (count <= 1) break;
    first.push_back({std::min(digit.extent, count), digit.step});
    count = CeilDiv(count, digit.extent);
  }
  return first;
}

SectorDigits EachOf(const SectorDigits& digits, int64_t count) {
  SectorDigits each;
  for (const SectorDigit& digit : digits) {
    const int64_t taken = std::min(digit.extent, count);
    each.push_back({CeilDiv(digit.extent, taken), digit.step * taken});
    count = CeilDiv(count, digit.extent);
  }
  return each;
}

double GranulesOf(SectorDigits digits, int64_t bytes, int64_t granule) {
  for (SectorDigit& digit : digits) digit.step = std::abs(digit.step);
  std::sort(digits.begin(), digits.end(),
            [](const SectorDigit& a, const SectorDigit& b) { return a.step < b.step; });
  int64_t run = bytes,
          apart = granule;  // bytes side by side; what all steps between runs divide by
  double before = 1;        // runs of the digits before the last
  SectorDigit last{1, 0};
  for (const SectorDigit& digit : digits) {
    if (digit.step == 0 || digit.extent == 1) continue;
    if (last.step == 0 && digit.step <= std::max(run, granule)) {
      run += (digit.extent - 1) * digit.step;
    } else if (last.step > 0 && digit.step % last.step == 0 &&
               digit.step < last.step * last.extent) {  // they overlap
      last.extent += (digit.extent - 1) * (digit.step / last.step);
    } else {
      before *= static_cast<double>(last.extent);
      last = digit;
      apart = std::gcd(apart, digit.step);
    }
  }
  // A run begins anywhere in a granule that the steps allow.
  const double each = static_cast<double>(run + granule - std::min(apart, run)) / granule;
  const double whole = static_cast<double>(CeilDiv(run, granule));
  return before * static_cast<double>(last.extent) * (apart == granule ? whole : each);
}

BankAccess BankCycles(IndexSpace& space, const Index& at, IndexVar element, int width,
                      int64_t bytes) {
  const Index place = space.Canonical(at);
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(width));
  bool beside = true;  // a vector's elements are side by side and aligned
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    for (size_t e = 0; e < places.size(); ++e) {
      const auto i = lane * width + static_cast<int64_t>(e);
      places[e].push_back(space.ValueAt(place, element, i));
      beside &= places[e].back() == places[0].back() + static_cast<int64_t>(e);
    }
    beside &= places[0].back() % width == 0;
  }
  BankAccess total;
  const int64_t run =
      beside ? std::min(kBankAccessBytes, width * bytes) : bytes;  // bytes an access
  const int64_t words = std::max<int64_t>(1, run / kBankWordBytes);
  const auto lanes = static_cast<size_t>(kLanes / words);
  for (size_t e = 0; e < places.size(); e += static_cast<size_t>(run / bytes)) {
    ++total.accesses;
    std::vector<int64_t> first_words;
    for (const int64_t p : places[e]) first_words.push_back(p * bytes / kBankWordBytes);
    for (size_t lane = 0; lane < kLanes; lane += lanes) {
      total.cycles += CyclesOf(first_words, lane, lane + lanes, words);
    }
  }
  return total;
}

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
