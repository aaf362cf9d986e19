#include "tests/gpu/device_tensors.h"

#include "src/engine/bound_plan.h"
#include "src/reference/reference.h"

namespace sinter::gpu_testing {
namespace {

constexpr uint64_t kGuardBytes = 8192;
constexpr uint64_t kAround = uint64_t{1} << 16;  // bytes of poison before and after each buffer

}  // namespace

DeviceTensors::DeviceTensors(const Ports& ports, const Chain& chain, int64_t rows)
    : ports_(ports),
      measurer_(ports.measurer.get()),
      chain_(chain),
      rows_(rows),
      arena_(ports.measurer.get()) {}

absl::StatusOr<std::unique_ptr<DeviceTensors>> DeviceTensors::Make(
    const Ports& ports, const Chain& chain, int64_t rows, std::vector<std::string> inputs) {
  std::unique_ptr<DeviceTensors> made(new DeviceTensors(ports, chain, rows));
  SINTER_RETURN_IF_ERROR(made->Upload(std::move(inputs)));
  return made;
}

absl::Status DeviceTensors::Upload(std::vector<std::string> inputs) {
  inputs_ = std::move(inputs);
  for (const std::string& input : inputs_) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, Allocate(input.size()));
    SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, input.data(), input.size()));
    buffers_.push_back(buffer);
  }
  for (int i = 0; i < chain_.num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, i, rows_));
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer output,
                            Allocate(static_cast<uint64_t>(bytes) + kGuardBytes));
    buffers_.push_back(output);
  }
  return absl::OkStatus();
}

std::vector<DevicePtr> DeviceTensors::Pointers() const {
  std::vector<DevicePtr> pointers;
  for (const DeviceBuffer& buffer : buffers_) pointers.push_back(buffer.ptr);
  return pointers;
}

absl::StatusOr<DeviceBuffer> DeviceTensors::Allocate(uint64_t bytes) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all, arena_.Allocate(bytes + 2 * kAround));
  SINTER_RETURN_IF_ERROR(measurer_->Fill(all, kPoison));
  allocated_.push_back({all.ptr + kAround, bytes});
  return allocated_.back();
}

absl::StatusOr<DeviceBuffer> DeviceTensors::MakeWorkspace(uint64_t bytes) {
  if (bytes == 0) return DeviceBuffer{};
  return Allocate(bytes);
}

absl::StatusOr<DeviceBuffer> DeviceTensors::HeadedWorkspace(const LoadedPlan& plan) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, MakeWorkspace(plan.plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait([&](StreamHandle stream) {
    return ClearHeader(plan.plan, *ports_.loader, workspace.ptr, stream);
  }));
  return workspace;
}

absl::StatusOr<BoundRun> DeviceTensors::BindOn(std::shared_ptr<const PreparedPlan> plan,
                                               DeviceBuffer workspace) {
  std::vector<DevicePtr> caller = Pointers();
  const std::vector<int32_t>& order = chain_.InputOrder();
  for (size_t i = 0; i < order.size(); ++i) caller[static_cast<size_t>(order[i])] = buffers_[i].ptr;
  SINTER_ASSIGN_OR_RETURN(const auto bound, plan->Bind(caller, workspace.ptr));
  return BoundRun{[plan, bound](StreamHandle stream, int64_t m, bool pdl) {
                    return plan->Launch(*bound, stream, m, pdl);
                  },
                  workspace,
                  [plan, bound](GraphHandle graph, NodeEdges edges, int64_t m) {
                    return plan->AddToGraph(*bound, graph, std::move(edges), m);
                  },
                  [plan, bound](const PlanNodes& nodes, GraphExecHandle exec, int64_t m) {
                    return plan->UpdateInGraph(nodes, exec, *bound, m);
                  }};
}

absl::StatusOr<BoundRun> DeviceTensors::Bind(std::shared_ptr<const PreparedPlan> plan) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, MakeWorkspace(plan->WorkspaceBytes()));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait([&](StreamHandle stream) {
    return plan->InitWorkspace(workspace.ptr, workspace.bytes, stream);
  }));
  return BindOn(std::move(plan), workspace);
}

absl::StatusOr<BoundRun> DeviceTensors::Bind(LoadedPlanPtr plan) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, HeadedWorkspace(*plan));
  SINTER_ASSIGN_OR_RETURN(const auto bound, BindPlan(plan, Pointers(), workspace.ptr));
  Loader* const loader = ports_.loader.get();
  return BoundRun{[bound](StreamHandle stream, int64_t m, bool pdl) {
                    return EnqueuePlan(*bound, stream, m, pdl);
                  },
                  workspace,
                  [bound, loader](GraphHandle graph, NodeEdges edges, int64_t m) {
                    return AddPlanNodes(*bound, *loader, graph, std::move(edges), m);
                  },
                  [bound](const PlanNodes& nodes, GraphExecHandle exec, int64_t m) {
                    return UpdatePlanNodes(nodes, exec, *bound, m);
                  }};
}

absl::StatusOr<BoundRun> DeviceTensors::BindOver(LoadedPlanPtr plan, int input) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, HeadedWorkspace(*plan));
  std::vector<DevicePtr> pointers = Pointers();
  pointers.back() = input_buffer(input).ptr;
  // BindPlan takes an output over an input only where the chain declares it. The kernels of
  // products are the same then.
  auto bound = std::make_shared<BoundPlan>();
  const std::vector<DevicePtr> planned = plan->form->Expand(pointers);
  const BufferList list{planned.data(), static_cast<int>(planned.size()), workspace.ptr};
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(auto one, plan->kernels[i]->loaded->Bind(plan->recipes[i], list));
    bound->kernels.push_back(std::move(one));
  }
  bound->plan = std::move(plan);
  return BoundRun{[bound](StreamHandle stream, int64_t m, bool pdl) {
                    return EnqueuePlan(*bound, stream, m, pdl);
                  },
                  workspace,
                  {},
                  {}};
}

absl::Status DeviceTensors::Poison(const BoundRun& run) {
  for (size_t i = inputs_.size(); i < buffers_.size(); ++i) {
    SINTER_RETURN_IF_ERROR(measurer_->Fill(buffers_[i], kPoison));
  }
  const DeviceBuffer& all = run.workspace;
  if (all.bytes <= kWorkspaceFlagBytes) return absl::OkStatus();
  return measurer_->Fill({all.ptr + kWorkspaceFlagBytes, all.bytes - kWorkspaceFlagBytes}, kPoison);
}

absl::Status DeviceTensors::LaunchOnce(const BoundRun& run, int64_t m, bool pdl) {
  return measurer_->RunAndWait([&](StreamHandle stream) { return run.launch(stream, m, pdl); });
}

absl::StatusOr<std::string> DeviceTensors::Run(const BoundRun& run, int64_t m, bool pdl) {
  SINTER_RETURN_IF_ERROR(Poison(run));
  SINTER_RETURN_IF_ERROR(LaunchOnce(run, m, pdl));
  return DownloadOutput();
}

absl::StatusOr<std::vector<std::string>> DeviceTensors::RunAll(const BoundRun& run, int64_t m) {
  SINTER_RETURN_IF_ERROR(Poison(run));
  SINTER_RETURN_IF_ERROR(LaunchOnce(run, m));
  return DownloadOutputs();
}

absl::StatusOr<std::string> DeviceTensors::DownloadOutput(int output) {
  std::string bytes(output_buffer(output).bytes, '\0');
  SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], output_buffer(output), bytes.size()));
  return bytes;
}

absl::StatusOr<std::vector<std::string>> DeviceTensors::DownloadOutputs() {
  std::vector<std::string> outputs(static_cast<size_t>(chain_.num_outputs()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(outputs[i], DownloadOutput(static_cast<int>(i)));
  }
  return outputs;
}

absl::Status DeviceTensors::Replace(int input, const std::string& bytes) {
  return measurer_->Upload(input_buffer(input), bytes.data(), bytes.size());
}

absl::StatusOr<std::string> DeviceTensors::RunOver(const BoundRun& run, int input, int64_t m) {
  std::string bytes = inputs_[static_cast<size_t>(input)];
  SINTER_RETURN_IF_ERROR(Poison(run));
  SINTER_RETURN_IF_ERROR(Replace(input, bytes));
  SINTER_RETURN_IF_ERROR(LaunchOnce(run, m));
  SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], input_buffer(input), bytes.size()));
  return bytes;
}

absl::Status DeviceTensors::CheckSurroundings() {
  for (size_t i = 0; i < allocated_.size(); ++i) {
    const DeviceBuffer& buffer = allocated_[i];
    for (const DevicePtr at : {buffer.ptr - kAround, buffer.ptr + buffer.bytes}) {
      std::string bytes(kAround, '\0');
      SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], {at, kAround}, kAround));
      const absl::Status status = CheckGuard(bytes, 0);
      if (status.ok()) continue;
      return Annotate(status, absl::StrCat(at < buffer.ptr ? "before" : "behind", " buffer ", i));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceTensors::CheckGuard(const std::string& bytes, size_t begin) {
  const size_t at = bytes.find_first_not_of(static_cast<char>(kPoison), begin);
  if (at == std::string::npos) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("byte ", at, " was written, ", begin, " may be"));
}

}  // namespace sinter::gpu_testing
