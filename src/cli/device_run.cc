#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/base/dtype.h"
#include "src/base/numbers.h"
#include "src/base/ports.h"
#include "src/base/status.h"
#include "src/capi/host_reference.h"
#include "src/cli/options.h"
#include "src/cli/outcome.h"
#include "src/cli/session.h"
#include "src/engine/verify.h"
#include "src/reference/evaluator.h"

namespace sinter::cli {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kRotate = 250u << 20;  // more than any L2
constexpr uint64_t kMostSets = 1024;
constexpr uint64_t kMostBytes = uint64_t{8} << 30;
constexpr int64_t kPiece = 1 << 16;  // elements drawn at a time

// Runs `call() -> absl::Status` and turns its error into the outcome that the ABI would give.
template <typename Call>
Outcome Guarded(Call&& call) {
  return Abi([&](sinter_error** error) { return capi::Guard(error, call); });
}

// Equal copies of all buffers of a chain, one set after the other.
struct Sets {
  uint64_t set_bytes = 0;
  uint32_t count = 1;
  std::vector<uint64_t> offsets;  // of each buffer in a set

  std::vector<sinter_device_ptr> Pointers(sinter_device_ptr base, uint32_t set) const {
    std::vector<sinter_device_ptr> pointers;
    for (const uint64_t offset : offsets) pointers.push_back(base + set * set_bytes + offset);
    return pointers;
  }
};

// As many sets as make the rotating bytes exceed kRotate. Only constants count if they are at least
// half of a set, else all buffers do.
Sets PlanSets(const HostData& data, bool rotate) {
  Sets sets;
  uint64_t constants = 0;
  for (const sinter_tensor_info& info : data.infos) {
    sets.offsets.push_back(sets.set_bytes);
    sets.set_bytes += RoundUp(info.bytes, kAlignment);
    if ((info.flags & SINTER_INPUT_CONSTANT) != 0) constants += info.bytes;
  }
  const uint64_t rotated =
      std::max<uint64_t>(1, 2 * constants >= sets.set_bytes ? constants : sets.set_bytes);
  const uint64_t wanted = std::min(kRotate / rotated + 1, kMostSets);
  const uint64_t fitting =
      std::max<uint64_t>(1, kMostBytes / std::max<uint64_t>(1, sets.set_bytes));
  if (rotate) sets.count = static_cast<uint32_t>(std::min(wanted, fitting));
  return sets;
}

class DeviceRun {
 public:
  DeviceRun(const Session& session, const LoadedChain& chain, const sinter_plan* plan,
            HostData* data)
      : context_(session.context.get()),
        measurer_(context_->engine->ports().measurer.get()),
        chain_(chain),
        plan_(plan),
        data_(data),
        arena_(measurer_),
        symbols_(sinter_chain_uses_m(chain.chain.get()) ? 1 : 0) {}

  Outcome Upload(bool rotate) {
    sets_ = PlanSets(*data_, rotate);
    const uint64_t workspace = sinter_plan_get_workspace_size(plan_);
    SINTER_CLI_TRY(Take(&buffers_, [&] { return arena_.Allocate(sets_.set_bytes * sets_.count); }));
    SINTER_CLI_TRY(Take(&workspace_, [&] { return arena_.Allocate(workspace); }));
    for (uint32_t set = 0; set < sets_.count; ++set) SINTER_CLI_TRY(UploadSet(set));
    return {};
  }

  Outcome RunAndCheck(sinter_x_check* check) {
    const auto pointers = sets_.Pointers(buffers_.ptr, 0);
    SINTER_CLI_TRY(Guarded([&] { return RunOnce(pointers); }));
    for (size_t i = data_->inputs; i < pointers.size(); ++i) {
      const uint64_t bytes = data_->infos[i].bytes;
      SINTER_CLI_TRY(Guarded([&] {
        return measurer_->Download(data_->buffers[i].data(), {pointers[i], bytes}, bytes);
      }));
    }
    return Compare(check);
  }

  Outcome Time(uint32_t sets, double* us) {
    std::vector<BindingPtr> owned;
    std::vector<const sinter_binding*> bindings;
    for (uint32_t set = 0; set < sets; ++set) {
      const auto pointers = sets_.Pointers(buffers_.ptr, set);
      sinter_binding* binding = nullptr;
      SINTER_CLI_TRY(Abi([&](sinter_error** error) {
        return sinter_plan_bind(plan_, Count(pointers), pointers.data(), workspace_.ptr, &binding,
                                error);
      }));
      owned.emplace_back(binding);
      bindings.push_back(binding);
    }
    sinter_x_time_options options = SINTER_INIT(sinter_x_time_options);
    options.calls = std::max(20u, sets);
    return Abi([&](sinter_error** error) {
      return sinter_x_time(context_, sets, bindings.data(), symbols_, &chain_.m, &options, us,
                           error);
    });
  }

  const Sets& sets() const { return sets_; }

 private:
  static uint32_t Count(const std::vector<sinter_device_ptr>& pointers) {
    return static_cast<uint32_t>(pointers.size());
  }

  Outcome UploadSet(uint32_t set) {
    const auto pointers = sets_.Pointers(buffers_.ptr, set);
    for (size_t i = 0; i < pointers.size(); ++i) {
      const uint64_t bytes = data_->infos[i].bytes;
      if (bytes == 0) continue;
      const DeviceBuffer at{pointers[i], bytes};
      SINTER_CLI_TRY(Guarded([&] {
        return i < data_->inputs ? measurer_->Upload(at, data_->buffers[i].data(), bytes)
                                 : measurer_->Fill(at, 0xff);
      }));
    }
    return {};
  }

  // Runs the plan once on a stream of its own and waits; a launch that faults is an error here.
  absl::Status RunOnce(const std::vector<sinter_device_ptr>& pointers) const {
    const PreparedPlan& plan = *plan_->prepared;
    const DevicePtr workspace = workspace_.ptr;
    SINTER_ASSIGN_OR_RETURN(const auto binding, plan.Bind(pointers, workspace));
    return measurer_->RunAndWait([&](StreamHandle stream) -> absl::Status {
      const uint64_t bytes = plan.WorkspaceBytes();
      if (bytes > 0) SINTER_RETURN_IF_ERROR(plan.InitWorkspace(workspace, bytes, stream));
      return plan.Launch(*binding, stream, chain_.m, false);
    });
  }

  Outcome Compare(sinter_x_check* check) {
    const double flops = chain_.chain->chain->MatmulFlops(chain_.m);
    const int64_t rows = flops > 5e10 ? 64 : 0;
    const auto inputs = data_->InputPointers();
    const auto outputs = data_->OutputPointers();
    const Elapsed shown("reference on the CPU");
    const capi::HostBuffers buffers{data_->inputs, inputs.data(),
                                    static_cast<uint32_t>(outputs.size()), outputs.data()};
    return Take(check, [&] {
      return capi::CheckOnHost(*chain_.chain->chain, chain_.m, buffers, rows, 0, data_->budget);
    });
  }

  sinter_context* context_;
  Measurer* const measurer_;  // of the context, which has a GPU
  const LoadedChain& chain_;
  const sinter_plan* plan_;
  HostData* data_;
  DeviceArena arena_;
  DeviceBuffer buffers_{}, workspace_{};
  Sets sets_;
  const uint32_t symbols_;
};

double ScaleOf(const sinter_tensor_info& info) {
  if ((info.flags & SINTER_INPUT_CONSTANT) == 0 || info.rank < 2) return 1.0;
  const int64_t longest = *std::max_element(info.dims, info.dims + info.rank);
  return std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(3, longest)));
}

double Draw(DType dtype, double scale, SplitMix64& random) {
  switch (dtype) {
    case DType::kS32:
    case DType::kS64:
      return static_cast<double>(random.Next() % 32);
    case DType::kPred:
      return static_cast<double>(random.Next() & 1);
    case DType::kS8:
      return static_cast<double>(static_cast<int64_t>(random.Next() % 255) - 127);
    case DType::kF32:
      return static_cast<float>(random.Unit());
    default:
      return static_cast<float>((2 * random.Unit() - 1) * scale);
  }
}

void FillRandom(const sinter_tensor_info& info, SplitMix64 random, std::string* buffer) {
  const auto dtype = static_cast<DType>(info.dtype);
  const double scale = ScaleOf(info);
  const auto elements = static_cast<int64_t>(buffer->size()) / SizeOf(dtype);
  std::vector<double> piece;
  for (int64_t at = 0; at < elements; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, elements - at)));
    for (double& value : piece) value = Draw(dtype, scale, random);
    reference::StoreRun(piece.data(), static_cast<int64_t>(piece.size()), buffer->data(),
                        reference::StorageOf(dtype), at, 1);
  }
}

// An operating system may grant more memory than it has, and kill the process later.
Outcome CheckFits(uint64_t bytes) {
  const uint64_t free = FreeMemory();
  if (free == 0 || bytes <= free) return {};
  return {kUnavailable, "the chain's operands take " + std::to_string(bytes >> 20) +
                            " MiB, and this machine has " + std::to_string(free >> 20) +
                            " MiB of memory free"};
}

}  // namespace

Outcome RunOnDevice(const Session& session, const LoadedChain& chain, const sinter_plan* plan,
                    HostData* data, bool check_only, RunResult* out) {
  DeviceRun run(session, chain, plan, data);
  SINTER_CLI_TRY(run.Upload(!check_only));
  SINTER_CLI_TRY(run.RunAndCheck(&out->check));
  if (check_only) return {};
  SINTER_CLI_TRY(run.Time(1, &out->hot_us));
  SINTER_CLI_TRY(run.Time(run.sets().count, &out->cold_us));
  out->cold_sets = run.sets().count;
  return {};
}

std::vector<const void*> HostData::InputPointers() const {
  std::vector<const void*> pointers;
  for (uint32_t i = 0; i < inputs; ++i) pointers.push_back(buffers[i].data());
  return pointers;
}

std::vector<void*> HostData::OutputPointers() {
  std::vector<void*> pointers;
  for (size_t i = inputs; i < buffers.size(); ++i) pointers.push_back(buffers[i].data());
  return pointers;
}

Outcome MakeHostData(const LoadedChain& chain, uint64_t seed, HostData* out) {
  uint64_t bytes = 0;
  out->inputs = sinter_chain_get_input_count(chain.chain.get());
  const uint32_t count = out->inputs + sinter_chain_get_output_count(chain.chain.get());
  for (uint32_t i = 0; i < count; ++i) {
    sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
    SINTER_CLI_TRY(Abi([&](sinter_error** error) {
      return sinter_chain_get_buffer(chain.chain.get(), i, chain.m, &info, error);
    }));
    bytes = info.bytes > UINT64_MAX - bytes ? UINT64_MAX : bytes + info.bytes;
    SINTER_CLI_TRY(CheckFits(bytes));
    out->infos.push_back(info);
    out->buffers.emplace_back(info.bytes, '\xff');
    if (i < out->inputs) FillRandom(info, SplitMix64(seed * 1000 + i), &out->buffers.back());
  }
  out->budget.bytes = static_cast<double>(FreeMemory());
  return {};
}

}  // namespace sinter::cli
