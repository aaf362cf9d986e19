// The text of an epilogue's program in a kernel.
#ifndef SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_

#include <string>

#include "src/product/sequence.h"

namespace sinter {

// The parts of a kernel that say what its products' programs compute.
struct ProgramSource {
  struct Part {
    std::string name;        // of its struct: "Program1"
    std::string activation;  // in Config; empty without a program
    bool leaves = false;     // it is whole, or reads gate and up, or vectors: the struct has Leaves
  };
  std::string text;  // of its structs; empty without programs
  Part parts[2];     // by product
};

ProgramSource ProgramSourceOf(const ProductSequence& sequence);
// The program of a gate-up pair without other leaves as a struct called `name`, with
// apply(gate, up).
std::string PairText(const EpilogueProgram& program, const std::string& name);
// In the device library. `f32`: of a result that is stored in f32.
const char* ActivationName(Activation activation, bool f32);
// The header that a source with programs includes besides the dataflow's.
inline constexpr char kProgramHeader[] = "kernels/program.cuh";

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_
