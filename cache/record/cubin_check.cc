#include "cache/record/cubin_check.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint16_t kMachineCuda = 190;

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("cubin: ", what));
}

bool Inside(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

template <typename T>
T ReadAt(absl::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

absl::Status CheckIdent(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Bad("elf magic differs");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Bad("elf class is not 64-bit");
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) return Bad("elf data is not little-endian");
  if (header.e_machine != kMachineCuda) {
    return Bad(absl::StrCat("e_machine ", header.e_machine, ", want ", kMachineCuda));
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(absl::string_view cubin, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0) return absl::OkStatus();
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return Bad("e_phentsize");
  if (!Inside(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), cubin.size())) {
    return Bad("program header table passes the end");
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(cubin, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!Inside(segment.p_offset, segment.p_filesz, cubin.size())) {
      return Bad(absl::StrCat("segment ", i, " passes the end"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSection(absl::string_view cubin, const Elf64_Shdr& section, int index) {
  if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) return absl::OkStatus();
  if (!Inside(section.sh_offset, section.sh_size, cubin.size())) {
    return Bad(absl::StrCat("section ", index, " passes the end"));
  }
  if (section.sh_type == SHT_STRTAB && section.sh_size > 0 &&
      cubin[section.sh_offset + section.sh_size - 1] != '\0') {
    return Bad(absl::StrCat("string table ", index, " has no end"));
  }
  return absl::OkStatus();
}

absl::Status CheckSections(absl::string_view cubin, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0) return Bad("no sections");
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return Bad("e_shentsize");
  if (!Inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), cubin.size())) {
    return Bad("section header table passes the end");
  }
  if (header.e_shstrndx >= header.e_shnum) return Bad("e_shstrndx");
  const auto at = [&](int i) {
    return ReadAt<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = at(header.e_shstrndx);
  if (names.sh_type != SHT_STRTAB) return Bad("section names are not a string table");
  for (int i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr section = at(i);
    SINTER_RETURN_IF_ERROR(CheckSection(cubin, section, i));
    if (section.sh_name != 0 && section.sh_name >= names.sh_size) {
      return Bad(absl::StrCat("name of section ", i, " passes its table"));
    }
    if (section.sh_link >= header.e_shnum) return Bad(absl::StrCat("link of section ", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCubin(absl::string_view cubin) {
  if (cubin.size() < sizeof(Elf64_Ehdr)) {
    return Bad(absl::StrCat(cubin.size(), " bytes, an elf header needs ", sizeof(Elf64_Ehdr)));
  }
  const auto header = ReadAt<Elf64_Ehdr>(cubin, 0);
  SINTER_RETURN_IF_ERROR(CheckIdent(header));
  SINTER_RETURN_IF_ERROR(CheckSegments(cubin, header));
  return CheckSections(cubin, header);
}

}  // namespace sinter
