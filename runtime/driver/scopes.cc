#include "runtime/driver/scopes.h"

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

}  // namespace sinter
