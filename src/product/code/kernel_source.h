// The text of one kernel: its Config struct, the asserts that tie it to the plan's sizes, and the
// entry point.
#ifndef SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_
#define SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/product/code/product_code.h"

namespace sinter {

// The kernel's name: "sinter_product", "sinter_grid_exchange", "sinter_cluster_exchange",
// "sinter_clusters_exchange" (several clusters share a row tile), "sinter_spilled_exchange" (the
// cluster keeps only a slab of C), "sinter_spatial_exchange" (spatial gate), "sinter_task_list".
const char* EntryName(const Schedule& schedule);

// The device library's header of the dataflow: "kernels/gemm.cuh".
const char* KernelHeader(const Schedule& schedule);

// Threads of a block: the producer warpgroup and the consumers.
int ThreadsOf(const Schedule& schedule);

// The kernel's parameters, in order. The recipe fills the same list.
struct KernelParameters {
  std::vector<Role> maps;  // tensor maps
  std::vector<Role>
      pointers;  // device pointers; kC and kParts lie in the workspace, written by plain stores
  bool workspace = false;  // the workspace header follows the pointers
};
KernelParameters ParametersOf(const ProductCode& code);

// INVALID_ARGUMENT naming an element type that no kernel multiplies.
absl::StatusOr<std::string> KernelSource(const ProductCode& code);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_KERNEL_SOURCE_H_
