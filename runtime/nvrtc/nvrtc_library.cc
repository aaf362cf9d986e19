#include "runtime/nvrtc/nvrtc_library.h"

#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/nvrtc/library_search.h"
#include "src/base/exit_gate.h"
#include "src/base/regular_file.h"
#include "src/base/status.h"
#include "src/base/toolchain.h"

namespace sinter {
namespace {

absl::Status NoCompiler(absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("no NVRTC: ", why,
                   "; install the CUDA toolkit's NVRTC (12 or 13) or name its library with "
                   "SINTER_NVRTC (kernels that are cached need none)"));
}

absl::StatusOr<void*> OpenLibrary(const std::string& path) {
  std::string first_error;
  for (const std::string& name : NvrtcCandidates(path)) {
    if (IsNoRegularFile(name)) continue;
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    const char* error = dlerror();
    if (first_error.empty() && error != nullptr) first_error = error;
  }
  return NoCompiler(first_error);
}

// dlsym gives an object pointer; POSIX guarantees that its bits are the function's address.
template <typename Function>
bool Resolve(void* library, const char* symbol, Function* out) {
  void* address = dlsym(library, symbol);
  std::memcpy(out, &address, sizeof(address));
  return address != nullptr;
}

absl::StatusOr<NvrtcTable> FillTable(void* library) {
  NvrtcTable table;
  const char* missing = nullptr;
#define SINTER_RESOLVE(field, parameters) \
  if (!Resolve(library, "nvrtc" #field, &table.field)) missing = "nvrtc" #field;
  SINTER_NVRTC_FUNCTIONS(SINTER_RESOLVE)
#undef SINTER_RESOLVE
  if (!Resolve(library, "nvrtcGetErrorString", &table.GetErrorString)) {
    missing = "nvrtcGetErrorString";
  }
  (void)Resolve(library, "nvrtcSetFlowCallback", &table.SetFlowCallback);
  if (missing != nullptr) return NoCompiler(absl::StrCat("the library lacks ", missing));
  return table;
}

// The file that the library was loaded from, whatever name was asked for.
std::string FileOf(const NvrtcTable& table) {
  void* address = nullptr;
  std::memcpy(&address, &table.Version, sizeof(address));
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> NvrtcLibrary::Open(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(void* library, OpenLibrary(path));
  SINTER_ASSIGN_OR_RETURN(const NvrtcTable table, FillTable(library));
  int major = 0;
  int minor = 0;
  if (table.Version(&major, &minor) != NVRTC_SUCCESS) return NoCompiler("nvrtcVersion failed");
  const std::string file = FileOf(table);
  if (absl::Status status = OpenBuiltins(file, major, minor); !status.ok()) {
    return NoCompiler(status.message());
  }
  SINTER_ASSIGN_OR_RETURN(const std::string id, FileIdentity(file));
  ExitGate::WaitAtExit();
  return FromTable(table, MakeToolchainId(major, minor, id));
}

std::shared_ptr<const NvrtcLibrary> NvrtcLibrary::FromTable(const NvrtcTable& table,
                                                            const std::string& toolchain_id) {
  return std::shared_ptr<const NvrtcLibrary>(new NvrtcLibrary(table, toolchain_id));
}

void NvrtcLibrary::WaitAtExit() const {
  if (!compiled_) ExitGate::WaitAtExit();
}

void NvrtcLibrary::NoteFirstCompile() const {
  ExitGate::WaitAtExit();
  compiled_ = true;
}

}  // namespace sinter
