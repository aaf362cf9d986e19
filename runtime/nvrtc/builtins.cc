#include "runtime/nvrtc/builtins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

// With its last '/'; "" for a bare name.
absl::string_view FolderOf(absl::string_view file) { return file.substr(0, file.rfind('/') + 1); }

// Without symbolic links; "" when there is no such file.
std::string RealPath(const std::string& file) {
  const std::unique_ptr<char, decltype(&std::free)> path(realpath(file.c_str(), nullptr),
                                                         &std::free);
  return path == nullptr ? std::string() : std::string(path.get());
}

}  // namespace

std::vector<std::string> BuiltinsCandidates(const std::string& nvrtc_file, int major, int minor) {
  const std::string real = RealPath(nvrtc_file);
  // A toolkit has a second build of NVRTC, libnvrtc.alt.so, with builtins of its own.
  const char* build =
      absl::StrContains(real.empty() ? nvrtc_file : real, "/libnvrtc.alt.so") ? ".alt" : "";
  const std::string soname = absl::StrCat("libnvrtc-builtins", build, ".so.", major, ".", minor);
  std::vector<std::string> names;
  for (const std::string& file : {real, nvrtc_file}) {
    const absl::string_view folder = FolderOf(file);
    const std::string name = absl::StrCat(folder, soname);
    if (!folder.empty() && (names.empty() || names.back() != name)) names.push_back(name);
  }
  names.push_back(soname);
  return names;
}

absl::Status OpenBuiltins(const std::string& nvrtc_file, int major, int minor) {
  std::string first_error;
  for (const std::string& name : BuiltinsCandidates(nvrtc_file, major, minor)) {
    if (dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return absl::OkStatus();
    const char* error = dlerror();
    if (first_error.empty() && error != nullptr) first_error = error;
  }
  return absl::UnavailableError(
      absl::StrCat("'", nvrtc_file, "' needs its builtins: ", first_error));
}

}  // namespace sinter
