// What an epilogue's program costs for one value.
#ifndef SINTER_SRC_PRODUCT_PROGRAM_COST_H_
#define SINTER_SRC_PRODUCT_PROGRAM_COST_H_

#include "src/product/epilogue_program.h"
#include "src/stitch/op_cost.h"

namespace sinter {

OpCost CostOfProgram(const EpilogueProgram& program);
// Whether it calls a function with branches, for which a thread needs many registers besides.
bool HasSlowPaths(const EpilogueProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PROGRAM_COST_H_
