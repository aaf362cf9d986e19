// Whether what a plan's launches bind is what its chain says, shown without the code that bound it.
#pragma once

#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/normal/normal_form.h"
#include "src/plan/plan.h"
#include "tests/support/common.h"

namespace sinter::testing {

// How many rows of M launches of a plan take, as RowLimits says (src/engine/loaded_plan.h).
struct LaunchRows {
  int64_t fixed = -1;   // of a chain without M; -1: M of them
  int64_t at_once = 0;  // in one pass through the kernels
  int64_t most = 0;     // in all passes
};

// Bytes of the workspace that hold something from one kernel to another of a pass.
struct HeldBytes {
  int64_t begin = 0, end = 0;
  int first = 0, last = 0;  // the kernel that writes them, the last one that reads them
};

// The first rule that `plan`, whose kernels are launched by `recipes`, breaks; "" if it breaks
// none. The rules hold for numbers of rows up to the plan's bucket, and for launches of several
// passes:
// - Each operand has the bytes of a value of the chain, or of a view of one, on which the kernel
//   depends: an input, an output, or a result that an earlier kernel left in the workspace.
// - Each result has the bytes of a value that the kernel computes, and each output is written.
// - A region of the workspace stays until its last reader is done. The kernel after that reader may
//   start early, so it does not overwrite the region either.
// - An input whose buffer an output may share is not read after the kernel that writes the output.
std::string FindMisbinding(const Chain& chain, const Plan& plan,
                           const std::vector<LaunchRecipe>& recipes, const LaunchRows& rows);

// The same with the recipes that code generation gives, and with the rows of a bucket's passes.
std::string FindMisbinding(const Chain& chain, const Plan& plan);

// All that kernels of one pass of `m` rows hold, as far as nothing is wrong with it.
std::vector<HeldBytes> HeldBy(const Chain& chain, const Plan& plan,
                              const std::vector<LaunchRecipe>& recipes, int64_t m);

// Whether the inputs of a normal form are views of the caller's: their bytes are, at any M.
std::string FindMisplacedInput(const NormalForm& form);

}  // namespace sinter::testing
