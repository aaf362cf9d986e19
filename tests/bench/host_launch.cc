#include "tests/bench/host_launch.h"

#include "src/base/numbers.h"

namespace sinter::bench {
namespace {

constexpr int kBatches = 31;
constexpr int kLaunches = 400, kMostCalls = 200;  // well within the driver's queue of launches
constexpr int64_t kChangingRows = 8;              // more than a binding keeps maps of

DriverTable g_real;
thread_local std::vector<BareLaunch>* t_record = nullptr;
thread_local CUresult t_failed = CUDA_SUCCESS;

CUresult Record(const CUlaunchConfig& config, CUfunction function, void** params) {
  BareLaunch launch{.function = function, .config = config};
  launch.attributes.assign(config.attrs, config.attrs + config.numAttrs);
  launch.config.attrs = nullptr;
  for (size_t i = 0;; ++i) {
    size_t offset = 0, size = 0;
    const CUresult result = g_real.FuncGetParamInfo(function, i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    if (result != CUDA_SUCCESS) return result;
    launch.params.emplace_back(static_cast<const char*>(params[i]), size);
  }
  t_record->push_back(std::move(launch));
  return CUDA_SUCCESS;
}

CUresult LaunchRecorded(const CUlaunchConfig* config, CUfunction function, void** params,
                        void** extra) {
  if (t_record != nullptr && t_failed == CUDA_SUCCESS) t_failed = Record(*config, function, params);
  return g_real.LaunchKernelEx(config, function, params, extra);
}

double ThreadCpuUs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// The launches with their arguments in place, as a program that knows them would have them.
class Bare {
 public:
  explicit Bare(const std::vector<BareLaunch>& launches) : launches_(launches) {
    for (BareLaunch& launch : launches_) {
      params_.emplace_back();
      for (std::string& param : launch.params) params_.back().push_back(&param[0]);
    }
  }
  absl::Status Enqueue(StreamHandle stream) {
    for (size_t i = 0; i < launches_.size(); ++i) {
      CUlaunchConfig config = launches_[i].config;
      config.hStream = static_cast<CUstream>(stream);
      config.attrs = launches_[i].attributes.data();
      const CUresult result =
          g_real.LaunchKernelEx(&config, launches_[i].function, params_[i].data(), nullptr);
      if (result != CUDA_SUCCESS) return absl::InternalError("a bare launch failed");
    }
    return absl::OkStatus();
  }

 private:
  std::vector<BareLaunch> launches_;
  std::vector<std::vector<void*>> params_;
};

}  // namespace

DriverTable RecordingTable(const DriverTable& real) {
  g_real = real;
  DriverTable table = real;
  table.LaunchKernelEx = &LaunchRecorded;
  return table;
}

absl::StatusOr<std::vector<BareLaunch>> RecordLaunches(
    const std::function<absl::Status()>& enqueue) {
  if (g_real.FuncGetParamInfo == nullptr) {
    return absl::UnavailableError("the driver lacks cuFuncGetParamInfo, which came with CUDA 12.4");
  }
  std::vector<BareLaunch> launches;
  t_record = &launches;
  t_failed = CUDA_SUCCESS;
  const absl::Status status = enqueue();
  t_record = nullptr;
  SINTER_RETURN_IF_ERROR(status);
  if (t_failed != CUDA_SUCCESS) return absl::InternalError("cuFuncGetParamInfo failed");
  return launches;
}

absl::StatusOr<HostTimes> MeasureHost(
    Measurer* measurer, const std::vector<BareLaunch>& bare,
    const std::function<absl::Status(StreamHandle, int64_t fewer)>& launch) {
  const int kernels = static_cast<int>(std::max<size_t>(bare.size(), 1));
  const int calls = std::clamp(kLaunches / kernels, 1, kMostCalls);
  Bare own(bare);
  const std::function<absl::Status(StreamHandle, int)> ways[] = {
      [&](StreamHandle stream, int) { return launch(stream, 0); },
      [&](StreamHandle stream, int) { return own.Enqueue(stream); },
      [&](StreamHandle stream, int i) { return launch(stream, i % kChangingRows); }};
  std::vector<double> times[3];
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int way = 0; way < 3; ++way) {
      SINTER_RETURN_IF_ERROR(measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        const double start = ThreadCpuUs();
        for (int i = 0; i < calls; ++i) SINTER_RETURN_IF_ERROR(ways[way](stream, i));
        times[way].push_back((ThreadCpuUs() - start) / calls);
        return absl::OkStatus();
      }));
    }
  }
  return HostTimes{Median(std::move(times[0])), Median(std::move(times[1])),
                   Median(std::move(times[2]))};
}

double HostAimUs(size_t kernels) { return 0.5 + 0.4 * (static_cast<double>(kernels) - 1); }

}  // namespace sinter::bench
