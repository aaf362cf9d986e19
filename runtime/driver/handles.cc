#include "runtime/driver/handles.h"

#include "src/base/status.h"

namespace sinter {

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
