// Texts that golden tests of kernels compare.
#pragma once

#include <string>

#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"

namespace sinter {

// A line for the launch, for each tensor map and for each argument.
std::string RecipeText(const LaunchRecipe& recipe);

// Generates the kernel for an h200 and expects that tests/golden/codegen/ holds its source as `stem`.cu, or where there is no such file
// its digest in digests.txt, and its recipe as `stem`.recipe.txt.
void ExpectGoldenKernel(const std::string& stem, const KernelSpec& spec);

}  // namespace sinter
