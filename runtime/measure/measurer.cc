#include "runtime/measure/measurer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/driver/handles.h"
#include "runtime/driver/scopes.h"
#include "src/base/median.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status CheckRange(absl::string_view what, DeviceBuffer buffer, uint64_t bytes) {
  if (bytes <= buffer.bytes) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(what, " of ", bytes, " bytes exceeds the buffer's ", buffer.bytes));
}

class DriverMeasurer : public Measurer {
 public:
  DriverMeasurer(std::shared_ptr<const Device> device, Stream stream, Event start, Event stop)
      : device_(std::move(device)),
        driver_(device_->driver()),
        stream_(std::move(stream)),
        start_(std::move(start)),
        stop_(std::move(stop)) {}

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    CUdeviceptr pointer = 0;
    const absl::Status status =
        driver_.Check(driver_->MemAlloc(&pointer, std::max<uint64_t>(bytes, 1)), "cuMemAlloc");
    if (!status.ok()) return Annotate(status, absl::StrCat("allocating ", bytes, " bytes"));
    return DeviceBuffer{static_cast<DevicePtr>(pointer), bytes};
  }

  void Free(DeviceBuffer buffer) override {
    if (buffer.ptr == 0) return;
    DriverScope scope(*device_);
    driver_->MemFree(static_cast<CUdeviceptr>(buffer.ptr));
  }

  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override {
    SINTER_RETURN_IF_ERROR(CheckRange("upload", to, bytes));
    if (bytes == 0) return absl::OkStatus();
    return RunAndWait([&](StreamHandle stream) {
      return driver_.Check(driver_->MemcpyHtoDAsync(to.ptr, from, bytes, Of(stream)),
                           "cuMemcpyHtoDAsync");
    });
  }

  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override {
    SINTER_RETURN_IF_ERROR(CheckRange("download", from, bytes));
    if (bytes == 0) return absl::OkStatus();
    return RunAndWait([&](StreamHandle stream) {
      return driver_.Check(driver_->MemcpyDtoHAsync(to, from.ptr, bytes, Of(stream)),
                           "cuMemcpyDtoHAsync");
    });
  }

  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override {
    if (buffer.bytes == 0) return absl::OkStatus();
    return RunAndWait([&](StreamHandle stream) {
      return driver_.Check(driver_->MemsetD8Async(buffer.ptr, byte, buffer.bytes, Of(stream)),
                           "cuMemsetD8Async");
    });
  }

  absl::StatusOr<double> TimeGraph(const std::function<absl::Status(StreamHandle, int)>& enqueue,
                                   int calls, int replays) override {
    if (calls < 1 || replays < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("timing needs at least one call and replay, not ", calls, " and ", replays));
    }
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    SINTER_ASSIGN_OR_RETURN(const Graph graph, Capture(enqueue, calls));
    SINTER_ASSIGN_OR_RETURN(const GraphExec exec, Instantiate(device_, graph));
    SINTER_RETURN_IF_ERROR(Replay(exec).status());  // warm up: the first replay uploads the graph
    std::vector<double> times;
    for (int i = 0; i < replays; ++i) {
      SINTER_ASSIGN_OR_RETURN(const double us, Replay(exec));
      times.push_back(us / calls);
    }
    return Median(std::move(times));
  }

  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const absl::Status enqueued = enqueue(stream_.get());
    // Also after a failure: part of the work may be running on memory that the caller frees next.
    const absl::Status finished =
        driver_.Check(driver_->StreamSynchronize(stream_.get()), "cuStreamSynchronize");
    return enqueued.ok() ? finished : enqueued;
  }

 private:
  static CUstream Of(StreamHandle stream) { return static_cast<CUstream>(stream); }

  // The capture always ends, whatever `enqueue` says, so that the stream stays usable.
  absl::StatusOr<Graph> Capture(const std::function<absl::Status(StreamHandle, int)>& enqueue,
                                int calls) {
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->StreamBeginCapture(stream_.get(), CU_STREAM_CAPTURE_MODE_RELAXED),
                      "cuStreamBeginCapture"));
    absl::Status status;
    for (int i = 0; i < calls && status.ok(); ++i) status = enqueue(stream_.get(), i);
    CUgraph raw = nullptr;
    const absl::Status ended =
        driver_.Check(driver_->StreamEndCapture(stream_.get(), &raw), "cuStreamEndCapture");
    Graph graph(device_, raw);
    if (!status.ok()) return status;
    if (!ended.ok()) return ended;
    return graph;
  }

  absl::StatusOr<double> Replay(const GraphExec& exec) {
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->EventRecord(start_.get(), stream_.get()), "cuEventRecord"));
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->GraphLaunch(exec.get(), stream_.get()), "cuGraphLaunch"));
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->EventRecord(stop_.get(), stream_.get()), "cuEventRecord"));
    SINTER_RETURN_IF_ERROR(
        driver_.Check(driver_->EventSynchronize(stop_.get()), "cuEventSynchronize"));
    float milliseconds = 0;
    SINTER_RETURN_IF_ERROR(driver_.Check(
        driver_->EventElapsedTime(&milliseconds, start_.get(), stop_.get()), "cuEventElapsedTime"));
    return milliseconds * 1e3;
  }

  const std::shared_ptr<const Device> device_;
  const Driver& driver_;
  const Stream stream_;
  const Event start_;
  const Event stop_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> MakeMeasurer(std::shared_ptr<const Device> device) {
  if (device == nullptr) return absl::InvalidArgumentError("a measurer needs a device");
  SINTER_ASSIGN_OR_RETURN(Stream stream, MakeStream(device));
  SINTER_ASSIGN_OR_RETURN(Event start, MakeEvent(device));
  SINTER_ASSIGN_OR_RETURN(Event stop, MakeEvent(device));
  return std::unique_ptr<Measurer>(std::make_unique<DriverMeasurer>(
      std::move(device), std::move(stream), std::move(start), std::move(stop)));
}

}  // namespace sinter
