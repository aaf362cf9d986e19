// Small graphs by name, whose texts and sizes are the files of tests/support/graphs (its README has
// their form).
#pragma once

#include "tests/support/read_chain.h"

namespace sinter::testing {

struct NamedGraph {
  std::string name;  // the call, "router(M, 8, 4)"
  Chain chain;
  int64_t m = 0;  // rows to run it with; 0: none
};

// "router(M, 8, 4) at 13". A name that no file has, and text that is not a graph, end the test.
NamedGraph ReadNamedGraph(const std::string& line);

// What a file lists: "gathers" of gathers.txt.
std::vector<NamedGraph> GraphsIn(const std::string& file);

// The graph of a call whose `$0`, `$1` stand for further arguments: GraphOf("sums(M, $0, f32)", n).
template <typename... Pieces>
Chain GraphOf(absl::string_view call, const Pieces&... pieces) {
  return ReadNamedGraph(absl::Substitute(call, pieces...)).chain;
}

// Softmax of each f32 x[rows, columns] of `rows` (extent 0 is M), and sqrt(|x| + 1) of a vector of
// `elements` (0: none): parts that need nothing of each other. bf16 results.
struct RowExtents {
  int64_t rows = 0, columns = 0;
};
Chain IndependentRows(const std::vector<RowExtents>& rows, int64_t elements);

// Momentum and weight of tensors of `sizes` elements, in place, by one step size [1]; then a bf16
// copy of the weight.
Chain IndependentUpdates(const std::vector<int64_t>& sizes);

}  // namespace sinter::testing
