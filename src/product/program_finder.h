// ProgramFinder: which values of a graph are element-wise ops on a product or on a gate-up pair.
#ifndef SINTER_SRC_PRODUCT_PROGRAM_FINDER_H_
#define SINTER_SRC_PRODUCT_PROGRAM_FINDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/linear_finder.h"
#include "src/chain/subgraph.h"
#include "src/product/epilogue_program.h"

namespace sinter {

// `main`: of a pair gate, and `up` its other half.
struct FoundProgram {
  bool pair = false;
  Linear main, up;
  EpilogueProgram program;
  std::vector<int> leaves;  // numbers of the operands that are its inputs; -1 of main and up
};

// `value` as a program that is stored as `result`; none where it is the product itself, normed and
// with scales of columns or not. `aux`: the graph's auxiliary results are the program's.
// INVALID_ARGUMENT names the op that is no part of one.
absl::StatusOr<FoundProgram> FindProgram(const Subgraph& graph, const LinearFinder& finder,
                                         ValueId value, DType result, bool aux);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PROGRAM_FINDER_H_
