// The text of an epilogue's program in a kernel.
#ifndef SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_

#include <string>

#include "src/product/sequence.h"

namespace sinter {

// The parts of a kernel that say what its products' programs compute.
struct ProgramSource {
  std::string text;        // of its structs; empty without programs
  std::string activation;  // the first product's in Config; empty: none is computed
  std::string behind;      // the struct that computes with the matrix; empty without one
  bool leaves = false;     // the activation reads gate and up, or vectors through Program::Leaves
};

ProgramSource ProgramSourceOf(const ProductSequence& sequence);
// The header that a source with programs includes besides the dataflow's.
inline constexpr char kProgramHeader[] = "kernels/program.cuh";

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_
