#include "src/engine/bound_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/chain/bound_text.h"
#include "src/engine/workspace.h"

namespace sinter {
namespace {

std::string BufferName(const Chain& chain, int canonical, const std::vector<int32_t>* order) {
  if (canonical >= chain.num_inputs()) {
    return absl::StrCat("output ", canonical - chain.num_inputs());
  }
  return absl::StrCat("input ", order == nullptr ? canonical : (*order)[canonical]);
}

bool HasRows(const Chain& chain, int canonical) {
  const int output = canonical - chain.num_inputs();
  const TensorType& type = output < 0 ? chain.input_op(canonical).type : chain.output_type(output);
  return SymbolicAxis(type.dims) >= 0;
}

// Of a buffer that is never read or written: aligned, and not null.
constexpr DevicePtr kNowhere = kBufferAlignment;

// Gives the buffers of rows a place where they are null.
std::vector<DevicePtr> PlacedWithoutRows(const Chain& chain, std::vector<DevicePtr> buffers) {
  const auto count = static_cast<size_t>(chain.num_inputs() + chain.num_outputs());
  for (size_t i = 0; i < std::min(buffers.size(), count); ++i) {
    if (buffers[i] == 0 && HasRows(chain, static_cast<int>(i))) buffers[i] = kNowhere;
  }
  return buffers;
}

absl::Status CheckBuffers(const Chain& chain, const std::vector<DevicePtr>& buffers,
                          const std::vector<int32_t>* order) {
  const size_t want = static_cast<size_t>(chain.num_inputs() + chain.num_outputs());
  if (buffers.size() != want) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Counted(buffers.size(), "buffer"), ", want ", want, ": ",
                     Counted(static_cast<uint64_t>(chain.num_inputs()), "input"), " and ",
                     Counted(static_cast<uint64_t>(chain.num_outputs()), "output")));
  }
  for (size_t i = 0; i < want; ++i) {
    if (buffers[i] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer of ", BufferName(chain, static_cast<int>(i), order), " is null"));
    }
    if (buffers[i] % kBufferAlignment != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer of ", BufferName(chain, static_cast<int>(i), order), " is at 0x",
                       absl::Hex(buffers[i]), ", must be aligned to ", kBufferAlignment));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const BoundPlan>> BindPlan(LoadedPlanPtr plan,
                                                          const std::vector<DevicePtr>& given,
                                                          DevicePtr workspace, bool no_rows,
                                                          const std::vector<int32_t>* order) {
  const std::vector<DevicePtr> buffers = no_rows ? PlacedWithoutRows(plan->chain(), given) : given;
  SINTER_RETURN_IF_ERROR(CheckBuffers(plan->chain(), buffers, order));
  SINTER_RETURN_IF_ERROR(CheckWorkspace(plan->plan, workspace, plan->plan.workspace_bytes));
  auto bound = std::make_shared<BoundPlan>();
  const std::vector<DevicePtr> planned = plan->form->Expand(buffers);
  const BufferList list{planned.data(), static_cast<int>(planned.size()), workspace};
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> one,
                            plan->kernels[i]->loaded->Bind(plan->recipes[i], list));
    bound->kernels.push_back(std::move(one));
  }
  bound->plan = std::move(plan);
  return bound;
}

absl::Status CheckRows(const LoadedPlan& plan, int64_t m) {
  if (plan.fixed_rows >= 0) return absl::OkStatus();
  if (m >= 0 && m <= plan.rows.most) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("m is ", m, ", must be in [0, ", BoundText(plan.rows.most), "] for this plan"));
}

int64_t PassesFor(const LoadedPlan& plan, int64_t m) {
  const int64_t rows = plan.fixed_rows >= 0 ? plan.fixed_rows : m;
  const int64_t pass = std::min(plan.rows.at_once, kLargestBucket);
  return (rows + pass - 1) / pass;
}

std::string LaunchedName(const LoadedPlan& plan, size_t kernel) {
  return absl::StrCat("kernel ", kernel, " (", plan.recipes[kernel].entry,
                      plan.plan.IsStandIn() ? ", a stand-in" : "", ") of plan '", plan.plan.name(),
                      "' ", plan.chosen_digest.Hex().substr(0, 16));
}

absl::Status EnqueuePlan(const BoundPlan& bound, StreamHandle stream, int64_t m, bool pdl_edge) {
  const LoadedPlan& plan = *bound.plan;
  return ForEachLaunch(plan, m, pdl_edge, [&](const PlanLaunch& one) {
    absl::Status status = plan.kernels[one.kernel]->loaded->Launch(
        *bound.kernels[one.kernel], stream, one.rows, one.offset, one.edge);
    if (status.ok()) return status;
    return Annotate(status, absl::StrCat("launching ", LaunchedName(plan, one.kernel)));
  });
}

}  // namespace sinter
