// Streams and captures of GPU tests, on the driver itself.
#pragma once

#include "runtime/driver/driver.h"
#include "tests/gpu/gpu_fixture.h"

namespace sinter::gpu_testing {

class StreamTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    const auto driver = Got(Driver::Open(TestConfig().driver_path));
    device_ = Got(Device::Open(driver, 0));
  }

  const Driver& driver() const { return device_->driver(); }
  absl::Status Synchronize(const Stream& stream) const {
    DriverScope scope(*device_);
    return driver().Check(driver()->StreamSynchronize(stream.get()), "cuStreamSynchronize");
  }
  absl::Status BeginCapture(const Stream& stream) const {
    DriverScope scope(*device_);
    return driver().Check(driver()->StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
                          "cuStreamBeginCapture");
  }
  absl::StatusOr<Graph> EndCapture(const Stream& stream) const {
    DriverScope scope(*device_);
    CUgraph graph = nullptr;
    SINTER_RETURN_IF_ERROR(
        driver().Check(driver()->StreamEndCapture(stream.get(), &graph), "cuStreamEndCapture"));
    return Graph(device_, graph);
  }
  absl::Status Replay(const GraphExec& exec, const Stream& stream) const {
    {
      DriverScope scope(*device_);
      SINTER_RETURN_IF_ERROR(
          driver().Check(driver()->GraphLaunch(exec.get(), stream.get()), "cuGraphLaunch"));
    }
    return Synchronize(stream);
  }

  std::shared_ptr<const Device> device_;
};

}  // namespace sinter::gpu_testing
