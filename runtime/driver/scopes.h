// Scopes that change the calling thread's driver state and put it back on every path.
#ifndef SINTER_RUNTIME_DRIVER_SCOPES_H_
#define SINTER_RUNTIME_DRIVER_SCOPES_H_

#include "absl/status/status.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver.h"

namespace sinter {

// Makes the device's context current. Works on a thread that has none; costs one query where it is
// current already. Check status() before any call that needs the context.
class ContextScope {
 public:
  explicit ContextScope(const Device& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Device& device_;
  CUcontext previous_ = nullptr;
  bool pushed_ = false;
  absl::Status status_;
};

// Puts the thread into relaxed capture mode, in which calls that would break another stream's
// capture are allowed and leave that capture valid. Needs no current context.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  absl::Status status_;
};

// Both: what every call off the launch path runs in.
class DriverScope {
 public:
  explicit DriverScope(const Device& device) : context_(device), relaxed_(device.driver()) {}
  const absl::Status& status() const {
    return context_.status().ok() ? relaxed_.status() : context_.status();
  }

 private:
  ContextScope context_;
  RelaxedCapture relaxed_;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_SCOPES_H_
