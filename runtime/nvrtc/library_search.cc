#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/digest.h"
#include "src/base/status.h"

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
  return Unavailable("'", nvrtc_file, "' needs its builtins: ", first_error);
}

namespace {

// Copies a T out of `bytes` at `offset`; false when it does not lie inside.
template <typename T>
bool ReadAt(absl::string_view bytes, uint64_t offset, T* out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(out, bytes.data() + offset, sizeof(T));
  return true;
}

uint64_t Aligned(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

// Files of linkers have fewer than ten. Segments may overlap, so that those of a crafted file could
// be walked thousands of times.
constexpr int kMostNotes = 1000;  // of all segments

// Counts down `left` for each note.
std::string BuildIdInNotes(absl::string_view notes, int* left) {
  uint64_t at = 0;
  Elf64_Nhdr note;
  while (*left > 0 && ReadAt(notes, at, &note)) {
    --*left;
    const uint64_t name_at = at + sizeof(note);
    const uint64_t id_at = name_at + Aligned(note.n_namesz);
    const uint64_t end = id_at + Aligned(note.n_descsz);
    if (id_at + note.n_descsz > notes.size()) return "";
    const absl::string_view name = notes.substr(name_at, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == absl::string_view("GNU\0", 4)) {
      return absl::BytesToHexString(notes.substr(id_at, note.n_descsz));
    }
    at = end;
  }
  return "";
}

// A file mapped for reading. Library files are replaced by renaming, not truncated in place.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // of a pipe, too
    if (fd < 0) return;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      void* data = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (data != MAP_FAILED) {
        bytes_ = absl::string_view(static_cast<const char*>(data), info.st_size);
      }
    }
    close(fd);
  }
  ~MappedFile() {
    if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  absl::string_view bytes() const { return bytes_; }

 private:
  absl::string_view bytes_;
};

}  // namespace

std::string BuildIdOf(absl::string_view elf) {
  Elf64_Ehdr header;
  if (!ReadAt(elf, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return "";
  }
  int notes_left = kMostNotes;
  for (int i = 0; i < header.e_phnum && notes_left > 0; ++i) {
    Elf64_Phdr segment;
    const uint64_t offset = uint64_t{sizeof(segment)} * i;
    if (header.e_phoff > elf.size() || !ReadAt(elf, header.e_phoff + offset, &segment)) return "";
    if (segment.p_type != PT_NOTE || segment.p_offset > elf.size()) continue;
    const std::string id =
        BuildIdInNotes(elf.substr(segment.p_offset, segment.p_filesz), &notes_left);
    if (!id.empty()) return id;
  }
  return "";
}

absl::StatusOr<std::string> FileIdentity(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().empty()) {
    return Unavailable("cannot read the library file '", path, "': ", std::strerror(errno));
  }
  const std::string id = BuildIdOf(file.bytes());
  return id.empty() ? absl::StrCat("sha256:", Sha256(file.bytes()).Hex()) : id;
}

}  // namespace sinter
