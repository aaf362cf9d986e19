#include "src/stitch/sectors.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "src/base/ceil_div.h"

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
    if (var.kind != IndexSpace::Var::kQuotient && var.kind != IndexSpace::Var::kRemainder) return 0;
    int64_t least = 0;
    for (const auto& [inner, factor] : var.of.terms()) {
      const int64_t steps = Of(inner);
      if (steps == 0) continue;
      const int64_t own = std::max<int64_t>(1, steps / std::max<int64_t>(1, std::abs(factor)));
      least = least == 0 ? own : std::min(least, own);
    }
    if (least == 0) return 0;
    breaks_.insert(least);
    breaks_.insert(least * var.divisor);
    return var.kind == IndexSpace::Var::kQuotient ? least * var.divisor : least;
  }

  const IndexSpace& space_;
  const IndexVar loop_;
  std::set<int64_t> breaks_ = {1};
};

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

}  // namespace sinter
