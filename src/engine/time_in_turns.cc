#include "src/engine/time_in_turns.h"

#include <cstddef>
#include <utility>

#include "src/base/median.h"
#include "src/base/status.h"

namespace sinter {

absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on) {
  std::vector<std::vector<double>> times(static_cast<size_t>(count));
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> one;
    for (int i = 0; i < count && go_on(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const double us, time(i));
      one.push_back(us);
    }
    if (one.size() < times.size()) break;
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(one[i]);
  }
  std::vector<double> medians;
  for (std::vector<double>& all : times) {
    if (all.empty()) return std::vector<double>();
    medians.push_back(Median(std::move(all)));
  }
  return medians;
}

}  // namespace sinter
