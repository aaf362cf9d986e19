#include "tests/bench/statistics.h"

#include "tests/bench/random.h"

namespace sinter::bench {
namespace {

// First index of every stratum, and the end.
std::vector<size_t> StratumBounds(const std::vector<double>& times, size_t count, Strata strata) {
  std::vector<size_t> bounds(count + 1, times.size());
  const double ratio = std::log(times.back() / times.front());
  for (size_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count);
    if (strata == Strata::kCount || ratio <= 0) {
      bounds[i] = times.size() * i / count;
    } else if (i > 0) {
      const double from = times.front() * std::exp(ratio * part);
      bounds[i] =
          static_cast<size_t>(std::lower_bound(times.begin(), times.end(), from) - times.begin());
    } else {
      bounds[i] = 0;
    }
  }
  return bounds;
}

}  // namespace

double GeometricMean(const std::vector<double>& values) {
  if (values.empty()) return 1;
  double logs = 0;
  for (double v : values) logs += std::log(v);
  return std::exp(logs / static_cast<double>(values.size()));
}

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const size_t below = std::min(static_cast<size_t>(at), values.size() - 1);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

std::vector<size_t> Stratified(const std::vector<double>& times, size_t count, Strata strata,
                               uint64_t seed) {
  std::vector<size_t> picked;
  if (times.size() <= count) {
    picked.resize(times.size());
    std::iota(picked.begin(), picked.end(), size_t{0});
    return picked;
  }
  if (count == 0) return picked;
  Random random(seed);
  const std::vector<size_t> bounds = StratumBounds(times, count, strata);
  std::vector<bool> taken(times.size());
  for (size_t i = 0; i < count; ++i) {
    if (bounds[i] >= bounds[i + 1]) continue;
    const auto at = static_cast<size_t>(
        random.In(static_cast<int64_t>(bounds[i]), static_cast<int64_t>(bounds[i + 1]) - 1));
    taken[at] = true;
    picked.push_back(at);
  }
  std::vector<size_t> free;
  for (size_t i = 0; i < times.size(); ++i) {
    if (!taken[i]) free.push_back(i);
  }
  const size_t missing = count - picked.size();
  for (size_t i = 0; i < missing; ++i) picked.push_back(free[free.size() * i / missing]);
  std::sort(picked.begin(), picked.end());
  return picked;
}

std::vector<size_t> Shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Random random(seed);
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.In(0, static_cast<int64_t>(i) - 1))]);
  }
  return order;
}

}  // namespace sinter::bench
