#include "tests/gpu/device_chain.h"

#include "src/engine/bound_plan.h"
#include "src/reference/reference.h"
#include "tests/gpu/ffn_reference.h"

namespace sinter::gpu_testing {
namespace {

constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type
constexpr uint64_t kGuardBytes = 8192;

}  // namespace

DeviceChain::DeviceChain(const Ports& ports, const Chain& chain, int64_t rows)
    : ports_(ports),
      measurer_(ports.measurer.get()),
      chain_(chain),
      rows_(rows),
      arena_(ports.measurer.get()),
      bounds_(BoundsOf(chain, 0)) {}

absl::StatusOr<std::unique_ptr<DeviceChain>> DeviceChain::Make(const Ports& ports,
                                                               const Chain& chain, int64_t rows,
                                                               uint64_t seed) {
  std::unique_ptr<DeviceChain> made(new DeviceChain(ports, chain, rows));
  const bool of_own_families =
      std::any_of(chain.ops().begin(), chain.ops().end(), [&](const Op& op) {
        const bool four_bits = op.kind == OpKind::kInput && op.type.dtype == DType::kS8;
        const bool batched =
            op.kind == OpKind::kMatmul && chain.op(op.operands[1]).type.rank() >= 3;
        return four_bits || batched || op.kind == OpKind::kGroupedMatmul;
      });
  if (!of_own_families) {
    SINTER_ASSIGN_OR_RETURN(made->matched_, MatchProducts(made->chain_, 0, true));
  }
  SINTER_ASSIGN_OR_RETURN(made->inputs_, RandomInputs(chain, rows, seed));
  SINTER_RETURN_IF_ERROR(made->Upload());
  return made;
}

absl::StatusOr<std::unique_ptr<DeviceChain>> DeviceChain::Make(const Ports& ports,
                                                               const Chain& chain, int64_t rows,
                                                               std::vector<std::string> inputs,
                                                               const Bounds& bounds) {
  std::unique_ptr<DeviceChain> made(new DeviceChain(ports, chain, rows));
  made->inputs_ = std::move(inputs);
  made->bounds_ = bounds;
  made->skips_final_cast_ = true;
  SINTER_RETURN_IF_ERROR(made->Upload());
  return made;
}

absl::Status DeviceChain::Upload() {
  for (const std::string& input : inputs_) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, arena_.Allocate(input.size()));
    SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, input.data(), input.size()));
    buffers_.push_back(buffer);
  }
  SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, 0, rows_));
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer output,
                          arena_.Allocate(static_cast<uint64_t>(bytes) + kGuardBytes));
  buffers_.push_back(output);
  return measurer_->Fill(output, kPoison);
}

absl::StatusOr<DeviceBuffer> DeviceChain::MakeWorkspace(uint64_t bytes) {
  if (bytes == 0) return DeviceBuffer{};
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, arena_.Allocate(bytes));
  SINTER_RETURN_IF_ERROR(measurer_->Fill(workspace, kPoison));
  return workspace;
}

absl::StatusOr<BoundRun> DeviceChain::BindOn(std::shared_ptr<const PreparedPlan> plan,
                                             DeviceBuffer workspace) {
  std::vector<DevicePtr> caller(buffers_.size());
  for (size_t i = 0; i < buffers_.size(); ++i) caller[i] = buffers_[i].ptr;
  const std::vector<int32_t>& order = chain_.InputOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    caller[static_cast<size_t>(order[i])] = buffers_[i].ptr;
  }
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const PlanBinding> binding,
                          plan->Bind(caller, workspace.ptr));
  return BoundRun{[plan, binding](StreamHandle stream, int64_t m, bool pdl) {
                    return plan->Launch(*binding, stream, m, pdl);
                  },
                  workspace};
}

absl::StatusOr<BoundRun> DeviceChain::Bind(std::shared_ptr<const PreparedPlan> plan) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, MakeWorkspace(plan->WorkspaceBytes()));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait([&](StreamHandle stream) {
    return plan->InitWorkspace(workspace.ptr, workspace.bytes, stream);
  }));
  return BindOn(std::move(plan), workspace);
}

absl::StatusOr<BoundRun> DeviceChain::Bind(LoadedPlanPtr plan) {
  return BindTo(std::move(plan), output_buffer().ptr);
}

absl::StatusOr<BoundRun> DeviceChain::BindOver(LoadedPlanPtr plan, int input) {
  return BindTo(std::move(plan), input_buffer(input).ptr);
}

absl::StatusOr<BoundRun> DeviceChain::BindTo(LoadedPlanPtr plan, DevicePtr output) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, MakeWorkspace(plan->plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait([&](StreamHandle stream) {
    return ClearHeader(plan->plan, *ports_.loader, workspace.ptr, stream);
  }));
  std::vector<DevicePtr> pointers;
  for (const DeviceBuffer& buffer : buffers_) pointers.push_back(buffer.ptr);
  pointers.back() = output;
  // BindPlan takes an output over an input only where the chain declares it. The kernels of
  // products are the same then.
  auto bound = std::make_shared<BoundPlan>();
  const std::vector<DevicePtr> planned = plan->form->Expand(pointers);
  const BufferList list{planned.data(), static_cast<int>(planned.size()), workspace.ptr};
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> one,
                            plan->kernels[i]->loaded->Bind(plan->recipes[i], list));
    bound->kernels.push_back(std::move(one));
  }
  bound->plan = std::move(plan);
  return BoundRun{[bound](StreamHandle stream, int64_t m, bool pdl) {
                    return EnqueuePlan(*bound, stream, m, pdl);
                  },
                  workspace};
}

absl::Status DeviceChain::Poison(const BoundRun& run) {
  if (run.workspace.bytes > kWorkspaceFlagBytes) {
    const DeviceBuffer c{run.workspace.ptr + kWorkspaceFlagBytes,
                         run.workspace.bytes - kWorkspaceFlagBytes};
    SINTER_RETURN_IF_ERROR(measurer_->Fill(c, kPoison));
  }
  return measurer_->Fill(output_buffer(), kPoison);
}

absl::StatusOr<std::string> DeviceChain::Run(const BoundRun& run, int64_t m, bool pdl) {
  SINTER_RETURN_IF_ERROR(Poison(run));
  SINTER_RETURN_IF_ERROR(
      measurer_->RunAndWait([&](StreamHandle stream) { return run.launch(stream, m, pdl); }));
  return DownloadOutput();
}

absl::StatusOr<std::string> DeviceChain::DownloadOutput() {
  std::string bytes(output_buffer().bytes, '\0');
  SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], output_buffer(), bytes.size()));
  return bytes;
}

absl::Status DeviceChain::Replace(int input, const std::string& bytes) {
  return measurer_->Upload(input_buffer(input), bytes.data(), bytes.size());
}

absl::StatusOr<std::string> DeviceChain::RunOver(const BoundRun& run, int input, int64_t m) {
  const DeviceBuffer buffer = input_buffer(input);
  std::string bytes = inputs_[static_cast<size_t>(input)];
  SINTER_RETURN_IF_ERROR(Poison(run));
  SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, bytes.data(), bytes.size()));
  SINTER_RETURN_IF_ERROR(
      measurer_->RunAndWait([&](StreamHandle stream) { return run.launch(stream, m, false); }));
  SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], buffer, bytes.size()));
  return bytes;
}

absl::StatusOr<const std::vector<double>*> DeviceChain::Reference() {
  if (reference_.empty()) {
    if (matched_.size() > 0 && TakesFfnReference(matched_.sequence)) {
      const int64_t rows = rows_ * matched_.sequence.rows_per_m;
      SINTER_ASSIGN_OR_RETURN(reference_, FfnReference(chain_, rows_, inputs_, AllRows(rows)));
    } else {
      std::vector<const void*> inputs;
      for (const std::string& bytes : inputs_) inputs.push_back(bytes.data());
      SINTER_ASSIGN_OR_RETURN(
          std::vector<std::vector<double>> outputs,
          RunReferenceF64(chain_, rows_, inputs, {.skip_final_cast = skips_final_cast_}));
      reference_ = std::move(outputs[0]);
    }
  }
  return &reference_;
}

absl::Status DeviceChain::CheckGuard(const std::string& output, int64_t m) const {
  const int64_t bytes = SizeOf(chain_.output_type(0).dtype);
  SINTER_ASSIGN_OR_RETURN(const int64_t all, OutputBytes(chain_, 0, m));
  auto last = static_cast<size_t>(all), row_bytes = std::max<size_t>(1, last), used = row_bytes;
  if (matched_.size() > 0) {
    row_bytes = static_cast<size_t>(matched_.output_stride * bytes);
    used = static_cast<size_t>(matched_.sequence.back().n * bytes);
    last = static_cast<size_t>(m * matched_.sequence.rows_per_m) * row_bytes;
  }
  for (size_t i = 0; i < output.size(); ++i) {
    if (i < last && i % row_bytes < used) continue;
    if (static_cast<uint8_t>(output[i]) == kPoison) continue;
    return absl::DataLossError(absl::StrCat("byte ", i, " was written: row ", i / row_bytes, " of ",
                                            m, ", byte ", i % row_bytes, " of ", used));
  }
  return absl::OkStatus();
}

absl::Status DeviceChain::Check(const std::string& output, int64_t m) {
  return Check(output, m, bounds_);
}

absl::Status DeviceChain::Check(const std::string& output, int64_t m, const Bounds& bounds) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<double>* reference, Reference());
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> got, OutputValues(chain_, 0, m, output));
  const absl::Span<const double> want(reference->data(), got.size());
  const ErrorMeasure errors = Compare(got, want, chain_.output_type(0).dtype);
  worst_.relative = std::max(worst_.relative, errors.relative);
  worst_.max = std::max(worst_.max, errors.max_over_rms);
  if (!errors.Within(bounds)) {
    return absl::DataLossError(absl::StrCat("wrong at m ", m, ": ", errors.ToString()));
  }
  return CheckGuard(output, m);
}

}  // namespace sinter::gpu_testing
