// Times of several things that share a GPU, taken in turns.
#ifndef SINTER_SRC_ENGINE_TIME_IN_TURNS_H_
#define SINTER_SRC_ENGINE_TIME_IN_TURNS_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace sinter {

// Median of `rounds` times of each of `count` things: each round times every one once, one right
// behind the other. A GPU that comes from idling runs above the clock that its power limit allows,
// and under load its clock wanders for seconds: what is timed by itself shows when it was timed,
// in turns all see the same. Errors are `time`'s. Empty when `go_on` was false before the first
// round was over; later ends what rounds there are.
absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on = [] { return true; });

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TIME_IN_TURNS_H_
