#include "runtime/nvrtc/build_id.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/digest.h"

namespace sinter {
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
    return absl::UnavailableError(
        absl::StrCat("cannot read the library file '", path, "': ", std::strerror(errno)));
  }
  const std::string id = BuildIdOf(file.bytes());
  return id.empty() ? absl::StrCat("sha256:", Sha256(file.bytes()).Hex()) : id;
}

}  // namespace sinter
