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
  return absl::UnavailableError(absl::StrCat("no CUDA driver: ", why, kAdvice));
}

absl::StatusOr<void*> OpenLibrary(const std::string& path) {
  if (!path.empty()) {
    if (IsNoRegularFile(path)) return NoDriver(absl::StrCat(path, " is no regular file"));
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

}  // namespace sinter
