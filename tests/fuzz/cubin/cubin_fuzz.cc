// Fuzz target over the bounds check of cubins: of what it accepts, everything that the headers name
// is read, as a driver would.
#include <elf.h>

#include "src/base/compile_request.h"
#include "tests/fuzz/target.h"
#include "tests/support/common.h"

namespace sinter::cubin_fuzz {
namespace {

// Bounds are asked of string_view, none of the check's arithmetic is repeated.
absl::string_view Range(absl::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.substr(offset, size).size() != size) std::abort();
  return bytes.substr(offset, size);
}

template <typename T>
T At(absl::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, Range(bytes, offset, sizeof(value)).data(), sizeof(value));
  return value;
}

void ReadSegments(absl::string_view cubin, const Elf64_Ehdr& header) {
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(cubin, header.e_phoff + i * sizeof(Elf64_Phdr));
    (void)Range(cubin, segment.p_offset, segment.p_filesz);
  }
}

void ReadSections(absl::string_view cubin, const Elf64_Ehdr& header) {
  const auto at = [&](uint64_t i) {
    return At<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = at(header.e_shstrndx);
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr section = at(i);
    if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS) {
      (void)Range(cubin, section.sh_offset, section.sh_size);
    }
    const absl::string_view table = Range(cubin, names.sh_offset, names.sh_size);
    if (table.substr(section.sh_name).find('\0') == absl::string_view::npos) std::abort();
    (void)at(section.sh_link);
  }
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const std::string copy(reinterpret_cast<const char*>(data), size);
  if (!sinter::CheckCubin(copy).ok()) return 0;
  const auto header = At<Elf64_Ehdr>(copy, 0);
  ReadSegments(copy, header);
  ReadSections(copy, header);
  return 0;
}

}  // namespace sinter::cubin_fuzz
