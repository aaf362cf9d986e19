// The text of an epilogue's program in a kernel.
#ifndef SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_PROGRAM_SOURCE_H_

#include <string>

#include "src/product/element.h"
#include "src/product/sequence.h"

namespace sinter {

// The text of wgmma wrappers. The instruction names every accumulator register, so each N needs a
// wrapper of its own.

// `template <> struct Wgmma<n, Element, a_transposed, b_transposed>` of the device library. n: a
// multiple of 8 in 8..256; transposed: the operand is contiguous along M or N instead of K.
std::string WgmmaSource(int n, const ElementRow& element, bool a_transposed, bool b_transposed);

// `template <> struct RegisterWgmma<n, Element, b_transposed>`, of 16-bit elements.
std::string RegisterWgmmaSource(int n, const ElementRow& element, bool b_transposed);

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
