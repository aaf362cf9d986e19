#include "tests/bench/cublaslt_api.h"

#include <dlfcn.h>

namespace sinter::bench {

absl::StatusOr<std::shared_ptr<const CublasLt>> CublasLt::Open(const std::string& path) {
  std::vector<std::string> names = {path};
  if (path.empty()) {
    names = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12",
             "/usr/local/cuda/lib64/libcublasLt.so.12"};
  }
  void* library = nullptr;
  for (const std::string& name : names) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    const char* why = dlerror();
    return absl::UnavailableError(absl::StrCat("no cuBLASLt: ", why == nullptr ? "" : why));
  }
  auto api = std::make_shared<CublasLt>();
#define SINTER_BENCH_LOAD(field, symbol, parameters)                           \
  api->field = reinterpret_cast<decltype(api->field)>(dlsym(library, symbol)); \
  if (api->field == nullptr) return absl::UnavailableError("cuBLASLt lacks " symbol);
  SINTER_BENCH_CUBLASLT(SINTER_BENCH_LOAD)
#undef SINTER_BENCH_LOAD
  api->Version = reinterpret_cast<size_t (*)()>(dlsym(library, "cublasLtGetVersion"));
  return std::shared_ptr<const CublasLt>(std::move(api));
}

absl::Status LtCheck(int result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, " returned status ", result));
}

}  // namespace sinter::bench
