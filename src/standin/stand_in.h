// Stand-ins: kernels that come with the library, for plans that must not wait for a compiler.
#ifndef SINTER_SRC_STANDIN_STAND_IN_H_
#define SINTER_SRC_STANDIN_STAND_IN_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/model/search_options.h"
#include "src/plan/plan.h"

namespace sinter {

// All of both families, numbered from 0: those of products, then those of rows.
int StandInCount();
std::string StandInName(int index);    // unique; names its machine code
std::string StandInSource(int index);  // what it is compiled from, with the device library
std::string StandInEntry(int index);   // the kernel's name in it

// The one that a kernel of a plan runs, and how it is launched.
struct StandIn {
  int index = 0;
  LaunchRecipe recipe;
};
// INVALID_ARGUMENT or FAILED_PRECONDITION where there is none for the spec.
absl::StatusOr<StandIn> StandInOf(const KernelSpec& spec);

// Their schedules, for searches that offer no other kernels.
const ReadyKernels& StandInSchedules();

// Makes the kernels of a plan stand-ins. Precondition: FusionOptions::stand_ins planned it.
void MarkStandIns(Plan* plan);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_STAND_IN_H_
