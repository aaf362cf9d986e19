// GraphCases: chains of memory-intensive ops that a run measures, from JSON files and problem
// lists.
#pragma once

#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::bench {

struct GraphCase {
  std::string id, line;  // line: of a problem list; "" for a JSON file or a random graph
  Chain chain;
  int64_t m = 0;

  int Ops() const;  // without inputs
  // Bytes of the distinct elements of all inputs and outputs; an output in place counts for itself.
  int64_t Bytes() const;
  // Elements of the largest value.
  int64_t Elements() const;
  // Microseconds that one memory-bound kernel needs at least by figures of the device: Bytes() at
  // the rate of its memory, and a launch and its first bytes.
  double LimitUs(const DeviceModel& model) const;
  // Computations in a graph that times this case, at least.
  int Calls(const DeviceModel& model) const { return LimitUs(model) < 200 ? 64 : 20; }
};

// `paths`: JSON graphs, folders of them, problem lists. `ids`: only these, all when empty; a file's
// id is its name without ".json". NOT_FOUND or INVALID_ARGUMENT naming the path, line or id.
absl::StatusOr<std::vector<GraphCase>> LoadGraphCases(const std::vector<std::string>& paths,
                                                      const std::vector<std::string>& ids);

// The cases with these ids, all when empty. NOT_FOUND naming an unknown id.
absl::StatusOr<std::vector<GraphCase>> Selected(std::vector<GraphCase> all,
                                                const std::vector<std::string>& ids);

// Random graphs of `count` seeds from `first` on: "random1" and so on.
std::vector<GraphCase> RandomGraphCases(int count, int64_t max_elements, uint64_t first = 1);

// The chain with the symbol M for extent `rows` of axis 0 of every value that has it, so that the
// reference can compute only some rows. Nothing when the result is not a valid chain or rows depend
// on each other.
std::optional<Chain> WithRowsAsM(const Chain& chain, int64_t rows);

}  // namespace sinter::bench
