#include "tests/gpu/dsm_device.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/launch/loader.h"
#include "runtime/measure/measurer.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/status.h"
#include "src/reference/parallel.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kAtOnce = 250;  // launches between two waits

float Number(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

std::string FirstWrong(const DsmCase& c, const DsmReport& r) {
  std::string text =
      absl::StrCat(r[kDsmWrong], " wrong elements; one: launch ", r[kDsmLaunch],
                   r[kDsmLaunch] % 2 == 1 ? " (staggered)" : "", ", round ", r[kDsmRound],
                   ", block ", r[kDsmBlock], ", element ", r[kDsmElement], ": ");
  if (c.IsShuffle()) {
    return absl::StrCat(text, "0x", absl::Hex(r[kDsmGot]), " instead of 0x",
                        absl::Hex(r[kDsmWanted]));
  }
  return absl::StrCat(text, Number(r[kDsmGot]), " (0x", absl::Hex(r[kDsmGot]), ") instead of ",
                      Number(r[kDsmWanted]));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DsmDevice>> DsmDevice::Open(const Config& config, int lanes) {
  std::unique_ptr<DsmDevice> made(new DsmDevice());
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const Driver> driver,
                          Driver::Open(config.driver_path));
  SINTER_ASSIGN_OR_RETURN(made->device_, Device::Open(driver, 0));
  SINTER_ASSIGN_OR_RETURN(made->loader_, MakeLoader(made->device_));
  for (int i = 0; i < lanes; ++i) {
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<Measurer> lane, MakeMeasurer(made->device_));
    made->lanes_.push_back(std::move(lane));
  }
  made->compiler_ = MakeNvrtcCompiler(config.nvrtc_path);
  return made;
}

std::vector<absl::StatusOr<CompiledKernel>> DsmDevice::CompileAll(
    const std::vector<CompileRequest>& requests) {
  std::vector<absl::StatusOr<CompiledKernel>> compiled(requests.size(),
                                                       absl::UnknownError("not compiled"));
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  reference::ParallelFor(threads, static_cast<int64_t>(requests.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const size_t at = static_cast<size_t>(i);
                             compiled[at] = compiler_->Compile(requests[at]);
                           }
                         });
  return compiled;
}

absl::StatusOr<std::unique_ptr<DsmRun>> DsmRun::Make(DsmDevice* device, const DsmCase& c,
                                                     const CompiledKernel& compiled,
                                                     uint64_t seed) {
  std::unique_ptr<DsmRun> made(new DsmRun(c));
  const LaunchRecipe recipe = DsmRecipe(c);
  SINTER_RETURN_IF_ERROR(made->Upload(device->lane(0), seed));
  SINTER_ASSIGN_OR_RETURN(made->kernel_, device->loader().Load(compiled.cubin, recipe));
  std::vector<DevicePtr> pointers;
  for (const DeviceBuffer& buffer : made->buffers_) pointers.push_back(buffer.ptr);
  SINTER_ASSIGN_OR_RETURN(
      made->bound_,
      made->kernel_->Bind(recipe, {pointers.data(), static_cast<int>(pointers.size()), 0}));
  return made;
}

absl::Status DsmRun::Upload(Measurer& lane, uint64_t seed) {
  const DsmData data = MakeDsmData(case_, seed);
  for (const uint64_t bytes :
       {uint64_t{4} * data.in.size(), uint64_t{4} * data.wanted.size(), data.scratch_bytes,
        data.counter_bytes, uint64_t{4} * kDsmReportWords}) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, lane.Allocate(bytes));
    SINTER_RETURN_IF_ERROR(lane.Fill(buffer, 0));
    buffers_.push_back(buffer);
  }
  SINTER_RETURN_IF_ERROR(lane.Upload(buffers_[0], data.in.data(), buffers_[0].bytes));
  return lane.Upload(buffers_[1], data.wanted.data(), buffers_[1].bytes);
}

absl::Status DsmRun::Launch(Measurer& lane, int count) {
  for (const int end = launches_ + count; launches_ < end;) {
    SINTER_RETURN_IF_ERROR(lane.RunAndWait([&](StreamHandle stream) -> absl::Status {
      for (int i = 0; i < kAtOnce && launches_ < end; ++i) {
        // A launch for m = 0 is none.
        SINTER_RETURN_IF_ERROR(kernel_->Launch(*bound_, stream, ++launches_, 0, false));
      }
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<DsmReport> DsmRun::Read(Measurer& lane) const {
  DsmReport report;
  SINTER_RETURN_IF_ERROR(lane.Download(report.data(), buffers_[4], sizeof report));
  return report;
}

absl::Status DsmRun::Check(const DsmReport& report, uint32_t digest_of_sets) const {
  if (report[kDsmWrong] != 0) return absl::DataLossError(FirstWrong(case_, report));
  const auto launches = static_cast<uint64_t>(launches_);
  const auto compared = static_cast<uint32_t>(DsmComparedPerLaunch(case_) * launches);
  if (report[kDsmCompared] != compared) {
    return absl::DataLossError(absl::StrCat("compared ", report[kDsmCompared],
                                            " elements instead of ", compared, " (modulo 2^32)"));
  }
  const auto digest = static_cast<uint32_t>(digest_of_sets * (launches / kDsmSets));
  if (case_.IsFixedOrder() && launches % kDsmSets == 0 && report[kDsmDigest] != digest) {
    return absl::DataLossError("equal inputs gave different bits");
  }
  return absl::OkStatus();
}

}  // namespace sinter::gpu_testing
