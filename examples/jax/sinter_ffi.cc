// A chain as a call of XLA's foreign functions. `sinter_run` gets the chain as JSON and the rows M
// as attributes, its inputs as operands, and writes its outputs. Built by chain.py against the
// headers of jaxlib.
#include <sinter/sinter_experimental.h>
//
#include <cstdint>
#include <map>
#include <mutex>
#include <sinter/sinter.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

constexpr uint64_t kAligned = 256;  // of a workspace, in bytes

ffi::Error Failed(const sinter::Status& status) {
  return ffi::Error::InvalidArgument(std::string(status.name()) + ": " + status.message());
}

// The plans of this process by device, chain and bucket's M. The first call of a size prepares it,
// and blocks.
class Plans {
 public:
  sinter::Result<sinter::Plan> Get(int32_t device, const std::string& json, int64_t m) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto key = std::make_tuple(device, json, m);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    sinter::Result<sinter::Plan> plan = Prepare(device, json, m);
    if (plan.ok()) plans_.emplace(key, *plan);
    return plan;
  }

 private:
  sinter::Result<sinter::Plan> Prepare(int32_t device, const std::string& json, int64_t m) {
    if (contexts_.count(device) == 0) {
      sinter::Result<sinter::Context> context = sinter::Context::Open(device);
      if (!context.ok()) return context.status();
      contexts_.emplace(device, *context);
    }
    sinter_chain* chain = nullptr;
    const sinter::Status read = sinter::Status::Of([&](sinter_error** error) {
      return sinter_x_chain_from_json(json.c_str(), &chain, error);
    });
    if (!read.ok()) return read;
    return contexts_.at(device).Prepare(sinter::Chain(chain), m);
  }

  std::mutex mutex_;
  std::map<int32_t, sinter::Context> contexts_;
  std::map<std::tuple<int32_t, std::string, int64_t>, sinter::Plan> plans_;
};

ffi::Error Run(sinter_stream stream, int32_t device, ffi::ScratchAllocator scratch,
               ffi::RemainingArgs inputs, ffi::RemainingRets outputs, std::string_view chain,
               int64_t m) {
  static auto* plans = new Plans;  // XLA may call until the process ends
  const sinter::Result<sinter::Plan> plan = plans->Get(device, std::string(chain), m);
  if (!plan.ok()) return Failed(plan.status());
  std::vector<sinter_device_ptr> buffers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto input = inputs.get<ffi::AnyBuffer>(i);
    if (!input.has_value()) return input.error();
    buffers.push_back(reinterpret_cast<sinter_device_ptr>(input->untyped_data()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto output = outputs.get<ffi::AnyBuffer>(i);
    if (!output.has_value()) return output.error();
    buffers.push_back(reinterpret_cast<sinter_device_ptr>((*output)->untyped_data()));
  }
  // A workspace serves one plan on one stream at a time: XLA's own, zeroed for this call.
  sinter_device_ptr workspace = 0;
  if (const uint64_t bytes = plan->WorkspaceSize(); bytes > 0) {
    const auto memory =
        scratch.Allocate(bytes + kAligned);  // of no alignment that the interface names
    if (!memory.has_value())
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no memory for the workspace");
    workspace = (reinterpret_cast<sinter_device_ptr>(*memory) + kAligned - 1) / kAligned * kAligned;
    const sinter::Status zeroed = plan->InitWorkspace(workspace, bytes, stream);
    if (!zeroed.ok()) return Failed(zeroed);
  }
  const sinter::Status launched = plan->Launch(stream, m, buffers, workspace);
  return launched.ok() ? ffi::Error::Success() : Failed(launched);
}

}  // namespace

// It only enqueues kernels, but prepares at its first call, which may not be in a capture: no
// command buffers.
XLA_FFI_DEFINE_HANDLER_SYMBOL(sinter_run, Run,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<sinter_stream>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("chain")
                                  .Attr<int64_t>("m"));
