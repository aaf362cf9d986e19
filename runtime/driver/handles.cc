#include "runtime/driver/handles.h"

#include "src/base/status.h"

namespace sinter {

ContextScope::ContextScope(const Device& device) : device_(device) {
  const Driver& driver = device.driver();
  status_ = driver.Check(driver->CtxGetCurrent(&previous_), "cuCtxGetCurrent");
  if (!status_.ok() || previous_ == device.context()) return;
  status_ = driver.Check(driver->CtxPushCurrent(device.context()), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

ContextScope::~ContextScope() {
  if (!pushed_) return;
  const Driver& driver = device_.driver();
  CUcontext ours = nullptr;
  if (driver->CtxPopCurrent(&ours) == CUDA_SUCCESS) return;
  // A pop that failed left our context on top. The last resort replaces it, or pops it when there
  // was none.
  if (driver->CtxPopCurrent(&ours) != CUDA_SUCCESS) driver->CtxSetCurrent(previous_);
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  status_ = driver.Check(driver->ThreadExchangeStreamCaptureMode(&mode),
                         "cuThreadExchangeStreamCaptureMode");
  if (status_.ok()) previous_ = mode;
}

RelaxedCapture::~RelaxedCapture() {
  if (!status_.ok()) return;
  CUstreamCaptureMode mode = previous_;
  if (driver_->ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) return;
  mode = previous_;
  driver_->ThreadExchangeStreamCaptureMode(&mode);
}

absl::StatusOr<Module> LoadModule(const std::shared_ptr<const Device>& device, const void* image) {
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  const Driver& driver = device->driver();
  CUmodule module = nullptr;
  SINTER_RETURN_IF_ERROR(driver.Check(driver->ModuleLoadData(&module, image), "cuModuleLoadData"));
  return Module(device, module);
}

absl::StatusOr<Stream> MakeStream(const std::shared_ptr<const Device>& device) {
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  const Driver& driver = device->driver();
  CUstream stream = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(device, stream);
}

absl::StatusOr<Event> MakeEvent(const std::shared_ptr<const Device>& device) {
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  const Driver& driver = device->driver();
  CUevent event = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  return Event(device, event);
}

absl::StatusOr<GraphExec> Instantiate(const std::shared_ptr<const Device>& device,
                                      const Graph& graph) {
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  const Driver& driver = device->driver();
  CUgraphExec exec = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->GraphInstantiate(&exec, graph.get(), 0), "cuGraphInstantiate"));
  return GraphExec(device, exec);
}

}  // namespace sinter
