#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/driver/driver.h"
#include "runtime/measure/probes.h"
#include "src/base/numbers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status CheckRange(absl::string_view what, DeviceBuffer buffer, uint64_t bytes) {
  if (bytes <= buffer.bytes) return absl::OkStatus();
  return OutOfRange(what, " of ", bytes, " bytes exceeds the buffer's ", buffer.bytes);
}

constexpr uint64_t kLeftBytes = uint64_t{1} << 30;  // of memory, to programs that serve

// A stream, and events around what is timed on it.
struct Stopwatch {
  Stream stream;
  Event start, stop;

  absl::StatusOr<double> Time(const Driver& driver, const GraphExec& exec) const {
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->EventRecord(start.get(), stream.get()), "cuEventRecord"));
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->GraphLaunch(exec.get(), stream.get()), "cuGraphLaunch"));
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->EventRecord(stop.get(), stream.get()), "cuEventRecord"));
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->EventSynchronize(stop.get()), "cuEventSynchronize"));
    float milliseconds = 0;
    SINTER_RETURN_IF_ERROR(driver.Check(
        driver->EventElapsedTime(&milliseconds, start.get(), stop.get()), "cuEventElapsedTime"));
    return milliseconds * 1e3;
  }
};

class DriverGraph : public TimedGraph {
 public:
  DriverGraph(const Device& device, const Stopwatch& watch, GraphExec exec)
      : device_(device), watch_(watch), exec_(std::move(exec)) {}

  absl::StatusOr<double> Replay() override {
    DriverScope scope(device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    return watch_.Time(device_.driver(), exec_);
  }

 private:
  const Device& device_;
  const Stopwatch& watch_;
  const GraphExec exec_;
};

class DriverMeasurer : public Measurer {
 public:
  DriverMeasurer(std::shared_ptr<const Device> device, Stopwatch watch, bool background)
      : device_(std::move(device)),
        driver_(device_->driver()),
        watch_(std::move(watch)),
        background_(background) {}

  static absl::StatusOr<std::unique_ptr<Measurer>> Make(std::shared_ptr<const Device> device,
                                                        bool background) {
    Stopwatch watch;
    // The streams of programs have at least its priority: 0 is the lowest that there is.
    SINTER_ASSIGN_OR_RETURN(watch.stream, MakeStream(device));
    SINTER_ASSIGN_OR_RETURN(watch.start, MakeEvent(device));
    SINTER_ASSIGN_OR_RETURN(watch.stop, MakeEvent(device));
    return std::unique_ptr<Measurer>(
        std::make_unique<DriverMeasurer>(std::move(device), std::move(watch), background));
  }

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    if (background_) SINTER_RETURN_IF_ERROR(CheckLeft(bytes));
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

  absl::StatusOr<double> TimeGraph(const GraphCalls& calls, int count, int replays) override {
    if (count < 1 || replays < 1) {
      return Invalid("timing needs at least one call and replay, not ", count, " and ", replays);
    }
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    SINTER_ASSIGN_OR_RETURN(const GraphExec exec, Instantiated(calls, count));
    SINTER_RETURN_IF_ERROR(watch_.Time(driver_, exec).status());  // warm up: uploads the graph
    std::vector<double> times;
    for (int i = 0; i < replays; ++i) {
      SINTER_ASSIGN_OR_RETURN(const double us, watch_.Time(driver_, exec));
      times.push_back(us / count);
    }
    return Median(std::move(times));
  }

  absl::StatusOr<std::unique_ptr<TimedGraph>> MakeGraph(const GraphCalls& calls,
                                                        int count) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    SINTER_ASSIGN_OR_RETURN(GraphExec exec, Instantiated(calls, count));
    return std::unique_ptr<TimedGraph>(
        std::make_unique<DriverGraph>(*device_, watch_, std::move(exec)));
  }

  absl::StatusOr<std::unique_ptr<Measurer>> MakeBackground() override {
    if (driver_->GraphAddNode == nullptr) return CapturesNothing();
    return Make(device_, /*background=*/true);
  }

  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    DriverScope scope(*device_);
    SINTER_RETURN_IF_ERROR(scope.status());
    const absl::Status enqueued = enqueue(watch_.stream.get());
    // Also after a failure: part of the work may be running on memory that the caller frees next.
    const absl::Status finished =
        driver_.Check(driver_->StreamSynchronize(watch_.stream.get()), "cuStreamSynchronize");
    return enqueued.ok() ? finished : enqueued;
  }

 private:
  static CUstream Of(StreamHandle stream) { return static_cast<CUstream>(stream); }

  // The capture always ends, whatever `enqueue` says, so that the stream stays usable.
  absl::Status Capture(const GraphCalls& calls, int count, Graph* graph) {
    SINTER_RETURN_IF_ERROR(driver_.Check(
        driver_->StreamBeginCapture(watch_.stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED),
        "cuStreamBeginCapture"));
    absl::Status status;
    for (int i = 0; i < count && status.ok(); ++i) status = calls.enqueue(watch_.stream.get(), i);
    CUgraph raw = nullptr;
    const absl::Status ended =
        driver_.Check(driver_->StreamEndCapture(watch_.stream.get(), &raw), "cuStreamEndCapture");
    *graph = Graph(device_, raw);
    return status.ok() ? ended : status;
  }

  absl::Status AddNodes(const GraphCalls& calls, int count, Graph* graph) {
    CUgraph raw = nullptr;
    SINTER_RETURN_IF_ERROR(driver_.Check(driver_->GraphCreate(&raw, 0), "cuGraphCreate"));
    *graph = Graph(device_, raw);
    NodeEdges edges;
    for (int i = 0; i < count; ++i) {
      SINTER_ASSIGN_OR_RETURN(edges, calls.add(raw, edges, i));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<GraphExec> Instantiated(const GraphCalls& calls, int count) {
    const bool nodes = calls.add != nullptr && driver_->GraphAddNode != nullptr;
    if (!nodes && background_) return CapturesNothing();
    Graph graph;
    SINTER_RETURN_IF_ERROR(nodes ? AddNodes(calls, count, &graph) : Capture(calls, count, &graph));
    return Instantiate(device_, graph);
  }

  static absl::Status CapturesNothing() {
    return absl::UnimplementedError(
        "timing in the background needs calls as nodes, and cuGraphAddNode_v2, which came with "
        "CUDA 12.3");
  }

  absl::Status CheckLeft(uint64_t bytes) const {
    if (driver_->MemGetInfo == nullptr) return absl::OkStatus();
    size_t free = 0, total = 0;
    SINTER_RETURN_IF_ERROR(driver_.Check(driver_->MemGetInfo(&free, &total), "cuMemGetInfo"));
    if (free >= kLeftBytes && free - kLeftBytes >= bytes) return absl::OkStatus();
    return ResourceExhausted("allocating ", bytes, " bytes in the background: ", free,
                             " are free, of which ", kLeftBytes, " are left to others");
  }

  const std::shared_ptr<const Device> device_;
  const Driver& driver_;
  const Stopwatch watch_;
  const bool background_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> MakeMeasurer(std::shared_ptr<const Device> device) {
  if (device == nullptr) return Invalid("a measurer needs a device");
  return DriverMeasurer::Make(std::move(device), /*background=*/false);
}

}  // namespace sinter
