// Stand-ins: kernels that come with the library, for plans that must not wait for a compiler.
#ifndef SINTER_SRC_STANDIN_STAND_IN_H_
#define SINTER_SRC_STANDIN_STAND_IN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/base/launch_recipe.h"
#include "src/model/search.h"
#include "src/plan/plan.h"
#include "src/product/code/kernel_source.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"

namespace sinter {

// All stand-ins of both families, numbered from 0: product kernels, then row kernels.
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

// Stand-ins for kernels of products: compiled with the library, for a few tiles, with the extents
// and the epilogue as arguments. A plan that must not wait for a compiler is made of them.

// What one such kernel has of its own.
struct ProductStandIn {
  DType element = DType::kBF16;
  Layout layout = Layout::kOI;
  bool pair = false;
  Schedule schedule;  // without a grid

  int64_t shared_bytes = 0;  // of a launch: sums pass through shared memory, also of one block
};

// All of them, in an order that builds rely on.
const std::vector<ProductStandIn>& ProductStandIns();
// The one with this sequence's operands and this schedule; -1: none.
int FindStandIn(const ProductSequence& sequence, const Schedule& schedule);
// "product_bf16_oi_pair_16x64_k4": unique.
std::string NameOf(const ProductStandIn& stand_in);
// What NVRTC compiles, with the device library.
std::string SourceOf(const ProductStandIn& stand_in);
constexpr char kStandInProductEntry[] = "sinter_any_product";

// OK, or what of a product no stand-in can take: names field and value.
absl::Status CheckStandIn(const ProductSequence& sequence);
// The schedules of stand-ins for a product that CheckStandIn takes, each with its grid.
void VisitStandIns(const ProductSequence& sequence, const DeviceModel& model,
                   const std::function<void(const Schedule&)>& visit);

// The launch of the one with the code's schedule. INVALID_ARGUMENT when there is none.
absl::StatusOr<LaunchRecipe> StandInRecipe(const ProductCode& code, const ProductBinding& binding);

// The argument that says what the epilogue does: AnyFlag of kernels/any_product.cuh.
uint32_t StandInFlags(const MatrixProduct& product, bool out_aligned, bool residual_aligned,
                      bool constant_weights);

// The machine code of stand-ins (src/standin/stand_in.h) that the build embedded.

// How many there are: all, or 0 of a build without NVRTC.
int EmbeddedStandIns();
// Static storage. FAILED_PRECONDITION for one that is not there, DATA_LOSS for one whose bytes are
// not those that were built: the library's file is damaged.
absl::StatusOr<absl::string_view> EmbeddedStandIn(absl::string_view name);

// The stored form of a stand-in: its machine code, then the SHA-256 of it.
std::string StoredStandIn(absl::string_view cubin);
absl::StatusOr<absl::string_view> CheckStandIn(absl::string_view name, absl::string_view stored);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_STAND_IN_H_
