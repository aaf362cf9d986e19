#include "src/base/nearest.h"

#include <algorithm>

namespace sinter {
namespace {

constexpr size_t kLongestWord = 64;

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  const size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<std::vector<int>> cost(rows, std::vector<int>(columns));
  for (size_t i = 0; i < rows; ++i) cost[i][0] = static_cast<int>(i);
  for (size_t j = 0; j < columns; ++j) cost[0][j] = static_cast<int>(j);
  for (size_t i = 1; i < rows; ++i) {
    for (size_t j = 1; j < columns; ++j) {
      const int same = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + same});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[rows - 1][columns - 1];
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() > kLongestWord) return best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    const int distance = EditDistance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace sinter
