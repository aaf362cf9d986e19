#include "runtime/nvrtc/library_search.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sinter {
namespace {

bool Readable(const std::string& file) { return access(file.c_str(), R_OK) == 0; }

struct Folder {
  std::string path;
  bool is_default;  // searched after the loader's cache
};

// What the loader would search for a dlopen of the main program.
std::vector<Folder> LoaderFolders() {
  std::vector<Folder> folders;
  void* self = dlopen(nullptr, RTLD_LAZY);
  if (self == nullptr) return folders;
  Dl_serinfo head{};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &head) == 0) {
    const std::unique_ptr<uint64_t[]> memory(new uint64_t[head.dls_size / 8 + 1]);
    auto* info = reinterpret_cast<Dl_serinfo*>(memory.get());
    *info = head;
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(self, RTLD_DI_SERINFO, info) == 0) {
      const Dl_serpath* paths = info->dls_serpath;
      for (unsigned int i = 0; i < info->dls_cnt; ++i) {
        folders.push_back({paths[i].dls_name, (paths[i].dls_flags & LA_SER_DEFAULT) != 0});
      }
    }
  }
  dlclose(self);
  return folders;
}

// The paths that the loader's cache holds for `soname`: its string table has them whole, each ended
// by a zero.
std::vector<std::string> CachedPaths(const std::string& soname) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string needle = absl::StrCat("/", soname) + '\0';
  std::vector<std::string> paths;
  for (size_t at = bytes.find(needle); at != std::string::npos; at = bytes.find(needle, at + 1)) {
    const size_t zero = bytes.rfind('\0', at);
    const size_t begin = zero == std::string::npos ? 0 : zero + 1;
    paths.push_back(bytes.substr(begin, at + needle.size() - 1 - begin));
  }
  return paths;
}

// Sets `ambiguous` when the cache holds several files of the name.
std::string FileOfSoname(const std::string& soname, bool* ambiguous) {
  const std::vector<Folder> folders = LoaderFolders();
  for (const bool defaults : {false, true}) {
    for (const Folder& folder : folders) {
      const std::string file = absl::StrCat(folder.path, "/", soname);
      if (folder.is_default == defaults && Readable(file)) return file;
    }
    if (defaults) break;
    const std::vector<std::string> cached = CachedPaths(soname);
    *ambiguous = cached.size() > 1;
    if (*ambiguous) return "";
    if (cached.size() == 1 && Readable(cached[0])) return cached[0];
  }
  return "";
}

// Without symbolic links: a toolkit's libraries are named through several.
std::string RealFolder(const std::string& file) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(file.c_str(), nullptr),
                                                         &std::free);
  const std::string path = real == nullptr ? file : real.get();
  return path.substr(0, path.rfind('/') + 1);
}

std::vector<std::string> Glob(const std::string& pattern) {
  std::vector<std::string> names;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return names;
}

}  // namespace

int NvrtcMinorOf(const std::string& file, int major) {
  const std::string prefix = absl::StrCat(RealFolder(file), "libnvrtc-builtins.so.", major, ".");
  int newest = -1;
  for (const std::string& builtins : Glob(prefix + "[0-9]*")) {
    int minor = 0;
    if (absl::SimpleAtoi(builtins.substr(prefix.size()), &minor)) newest = std::max(newest, minor);
  }
  return newest;
}

std::vector<std::string> NvrtcCandidates(const std::string& path) {
  if (!path.empty()) return {path};
  struct Candidate {
    std::string name;
    int major, minor;
  };
  std::vector<Candidate> candidates;
  for (const int major : {13, 12}) {
    const std::string soname = absl::StrCat("libnvrtc.so.", major);
    bool ambiguous = false;
    const std::string loaders = FileOfSoname(soname, &ambiguous);
    candidates.push_back({soname, major, loaders.empty() ? -1 : NvrtcMinorOf(loaders, major)});
    for (const std::string& file : Glob(absl::StrCat("/usr/local/cuda*/lib64/", soname))) {
      candidates.push_back({file, major, NvrtcMinorOf(file, major)});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::tie(a.major, a.minor) > std::tie(b.major, b.minor);
                   });
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.name);
  return names;
}

std::string FindNvrtcFile(const std::string& path) {
  for (const std::string& name : NvrtcCandidates(path)) {
    if (name.find('/') != std::string::npos) {
      if (Readable(name)) return name;
      continue;
    }
    bool ambiguous = false;
    const std::string file = FileOfSoname(name, &ambiguous);
    if (!file.empty() || ambiguous) return file;
  }
  return "";
}

}  // namespace sinter
