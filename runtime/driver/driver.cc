#include "runtime/driver/driver.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

constexpr char kAdvice[] =
    "; install the NVIDIA driver or name its library with SINTER_LIBCUDA "
    "(preparing for a named target needs no driver)";

absl::Status NoDriver(absl::string_view why) {
  return Unavailable("no CUDA driver: ", why, kAdvice);
}

absl::StatusOr<void*> OpenLibrary(const std::string& path) {
  if (!path.empty()) {
    if (IsNoRegularFile(path)) return NoDriver(absl::StrCat(path, " is not a regular file"));
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    return NoDriver(dlerror());
  }
  for (const char* name : {"libcuda.so.1", "libcuda.so"}) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return NoDriver(dlerror());
}

// dlsym gives an object pointer; POSIX guarantees that its bits are the function's address.
template <typename Function>
void Resolve(void* library, const char* symbol, Function* out) {
  void* address = dlsym(library, symbol);
  std::memcpy(out, &address, sizeof(address));
}

absl::StatusOr<DriverTable> FillTable(void* library) {
  DriverTable table;
  const char* missing = nullptr;
#define SINTER_RESOLVE(field, symbol, parameters) \
  Resolve(library, symbol, &table.field);         \
  if (table.field == nullptr && missing == nullptr) missing = symbol;
  SINTER_DRIVER_REQUIRED(SINTER_RESOLVE)
#undef SINTER_RESOLVE
#define SINTER_RESOLVE(field, symbol, parameters) Resolve(library, symbol, &table.field);
  SINTER_DRIVER_OPTIONAL(SINTER_RESOLVE)
#undef SINTER_RESOLVE
  if (missing != nullptr) {
    return NoDriver(absl::StrCat("libcuda lacks ", missing, ", it is older than CUDA 12.0"));
  }
  return table;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Driver>> Driver::Open(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(void* library, OpenLibrary(path));
  SINTER_ASSIGN_OR_RETURN(DriverTable table, FillTable(library));
  return FromTable(table);
}

absl::StatusOr<std::shared_ptr<const Driver>> Driver::FromTable(const DriverTable& table) {
  std::shared_ptr<const Driver> driver(new Driver(table));
  const CUresult result = table.Init(0);
  if (result == CUDA_SUCCESS) return driver;
  absl::Status status = NoDriver(absl::StrCat("cuInit: ", driver->Describe(result)));
  AttachDriverResult(status, static_cast<int32_t>(result));
  return status;
}

std::string Driver::Describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (table_.GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (table_.GetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "unknown";
  return absl::StrCat(name, " (", static_cast<int>(result), "): ", text);
}

absl::Status Driver::Error(CUresult result, const char* call) const {
  absl::Status status = MakeError(ErrorCode::kDriver, absl::StrCat(call, ": ", Describe(result)));
  AttachDriverResult(status, static_cast<int32_t>(result));
  if (!IsContextLost(status)) return status;
  return WithMessage(
      status,
      absl::StrCat(status.message(),
                   "; a kernel that ran earlier has faulted and the CUDA context is lost: "
                   "every call of this process on this device fails from now on, start a new "
                   "process (CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer names the kernel)"));
}

absl::StatusOr<int> Driver::DeviceCount() const {
  int count = 0;
  SINTER_RETURN_IF_ERROR(Check(table_.DeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

absl::StatusOr<int> Driver::Version() const {
  int version = 0;
  SINTER_RETURN_IF_ERROR(Check(table_.DriverGetVersion(&version), "cuDriverGetVersion"));
  return version;
}

absl::StatusOr<std::shared_ptr<const Device>> Device::Open(std::shared_ptr<const Driver> driver,
                                                           int ordinal) {
  SINTER_ASSIGN_OR_RETURN(const int count, driver->DeviceCount());
  if (ordinal < 0 || ordinal >= count) {
    return Invalid("device ordinal ", ordinal, " is out of range: the driver shows ", count,
                   count == 1 ? " device" : " devices");
  }
  std::shared_ptr<Device> device(new Device(std::move(driver), ordinal));
  SINTER_RETURN_IF_ERROR(device->Start());
  return std::shared_ptr<const Device>(std::move(device));
}

absl::Status Device::Start() {
  RelaxedCapture relaxed(*driver_);
  SINTER_RETURN_IF_ERROR(relaxed.status());
  const Driver& driver = *driver_;
  SINTER_RETURN_IF_ERROR(driver.Check(driver->DeviceGet(&handle_, ordinal_), "cuDeviceGet"));
  SINTER_RETURN_IF_ERROR(ReadLimits());
  CUcontext context = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->DevicePrimaryCtxRetain(&context, handle_), "cuDevicePrimaryCtxRetain"));
  context_ = context;
  return absl::OkStatus();
}

absl::Status Device::ReadLimits() {
  int cooperative = 0;
  const struct {
    CUdevice_attribute attribute;
    int* value;
  } rows[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &limits_.cc_major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &limits_.cc_minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &limits_.sm_count},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limits_.max_threads_per_block},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &limits_.max_block[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &limits_.max_block[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &limits_.max_block[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &limits_.max_grid[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &limits_.max_grid[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &limits_.max_grid[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &limits_.max_shared_bytes},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits_.l2_bytes},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &limits_.clock_khz},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cooperative},
  };
  for (const auto& row : rows) {
    SINTER_RETURN_IF_ERROR(driver_->Check(
        (*driver_)->DeviceGetAttribute(row.value, row.attribute, handle_), "cuDeviceGetAttribute"));
  }
  limits_.cooperative = cooperative != 0;
  return absl::OkStatus();
}

Device::~Device() {
  if (context_ == nullptr) return;
  RelaxedCapture relaxed(*driver_);
  (*driver_)->DevicePrimaryCtxRelease(handle_);
}

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

namespace {

// What `call(handle*)` makes, in a scope of its own.
template <typename Owner, typename Call>
absl::StatusOr<Owner> Make(const std::shared_ptr<const Device>& device, const char* name,
                           Call&& call) {
  DriverScope scope(*device);
  SINTER_RETURN_IF_ERROR(scope.status());
  decltype(Owner().get()) handle{};
  SINTER_RETURN_IF_ERROR(device->driver().Check(call(device->driver(), &handle), name));
  return Owner(device, handle);
}

}  // namespace

absl::StatusOr<Module> LoadModule(const std::shared_ptr<const Device>& device, const void* image) {
  return Make<Module>(device, "cuModuleLoadData", [&](const Driver& driver, CUmodule* module) {
    return driver->ModuleLoadData(module, image);
  });
}

absl::StatusOr<Stream> MakeStream(const std::shared_ptr<const Device>& device) {
  return Make<Stream>(device, "cuStreamCreate", [](const Driver& driver, CUstream* stream) {
    return driver->StreamCreate(stream, CU_STREAM_NON_BLOCKING);
  });
}

absl::StatusOr<Event> MakeEvent(const std::shared_ptr<const Device>& device) {
  return Make<Event>(device, "cuEventCreate", [](const Driver& driver, CUevent* event) {
    return driver->EventCreate(event, CU_EVENT_DEFAULT);
  });
}

absl::StatusOr<GraphExec> Instantiate(const std::shared_ptr<const Device>& device,
                                      const Graph& graph) {
  return Make<GraphExec>(device, "cuGraphInstantiate",
                         [&](const Driver& driver, CUgraphExec* exec) {
                           return driver->GraphInstantiate(exec, graph.get(), 0);
                         });
}

}  // namespace sinter
