// What an epilogue's program costs for one value.
#ifndef SINTER_SRC_PRODUCT_PROGRAM_COST_H_
#define SINTER_SRC_PRODUCT_PROGRAM_COST_H_

#include "src/product/epilogue_program.h"
#include "src/stitch/body_work.h"

namespace sinter {

OpCost CostOfProgram(const EpilogueProgram& program);
// Registers that a thread computes it with, beside those that every kernel keeps for an epilogue:
// for functions with slow paths, and for values that are live at the same time.
int ScratchRegisters(const EpilogueProgram& program);
// Of a program with one or two kinds of functions with slow paths.
constexpr int kSlowPathRegisters = 64;

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PROGRAM_COST_H_
