#include "src/base/cubin_check.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint16_t kMachineCuda = 190;

template <typename... Parts>
absl::Status Damaged(const Parts&... what) {
  return absl::DataLossError(absl::StrCat("cubin: ", what...));
}

// Whether `size` bytes at `offset` lie inside `cubin`; the sum of the two may overflow.
bool Inside(absl::string_view cubin, uint64_t offset, uint64_t size) {
  return offset <= cubin.size() && size <= cubin.size() - offset;
}

template <typename... Parts>
absl::Status PassesTheEnd(absl::string_view cubin, uint64_t offset, uint64_t size,
                          const Parts&... what) {
  return Damaged(what..., " of ", size, " bytes at ", offset, " passes the end of ", cubin.size(),
                 " bytes");
}

template <typename T>
T ReadAt(absl::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// OK if a table of `count` entries of type T lies inside the file and its entries have that size.
template <typename T>
absl::Status CheckTable(absl::string_view cubin, absl::string_view name, uint64_t offset,
                        uint64_t count, uint64_t entry_bytes) {
  if (entry_bytes != sizeof(T)) {
    return Damaged(name, " table has entries of ", entry_bytes, " bytes, want ", sizeof(T));
  }
  if (!Inside(cubin, offset, count * sizeof(T))) {
    return PassesTheEnd(cubin, offset, count * sizeof(T), name, " table");
  }
  return absl::OkStatus();
}

absl::Status CheckIdent(const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Damaged("the ELF magic differs");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Damaged("ELF class ", header.e_ident[EI_CLASS], ", want ", ELFCLASS64, " (64-bit)");
  }
  if (header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return Damaged("ELF data ", header.e_ident[EI_DATA], ", want ", ELFDATA2LSB,
                   " (little-endian)");
  }
  if (header.e_machine != kMachineCuda) {
    return Damaged("e_machine ", header.e_machine, ", want ", kMachineCuda, " (CUDA)");
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(absl::string_view cubin, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(
      CheckTable<Elf64_Phdr>(cubin, "segment", header.e_phoff, header.e_phnum, header.e_phentsize));
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto segment = ReadAt<Elf64_Phdr>(cubin, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!Inside(cubin, segment.p_offset, segment.p_filesz)) {
      return PassesTheEnd(cubin, segment.p_offset, segment.p_filesz, "segment ", i);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckContents(absl::string_view cubin, const Elf64_Shdr& section, int index) {
  if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) return absl::OkStatus();
  if (!Inside(cubin, section.sh_offset, section.sh_size)) {
    return PassesTheEnd(cubin, section.sh_offset, section.sh_size, "section ", index);
  }
  if (section.sh_type == SHT_STRTAB && section.sh_size > 0 &&
      cubin[section.sh_offset + section.sh_size - 1] != '\0') {
    return Damaged("section ", index, ", a string table of ", section.sh_size,
                   " bytes, does not end in NUL");
  }
  return absl::OkStatus();
}

absl::Status CheckSections(absl::string_view cubin, const Elf64_Ehdr& header) {
  const int count = header.e_shnum;
  if (count == 0) return Damaged("e_shnum 0, must be at least 1");
  SINTER_RETURN_IF_ERROR(
      CheckTable<Elf64_Shdr>(cubin, "section", header.e_shoff, count, header.e_shentsize));
  if (header.e_shstrndx >= count) {
    return Damaged("e_shstrndx ", header.e_shstrndx, ", must be below e_shnum ", count);
  }
  const auto at = [&](int i) {
    return ReadAt<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = at(header.e_shstrndx);
  if (names.sh_type != SHT_STRTAB) {
    return Damaged("section ", header.e_shstrndx, " of names has type ", names.sh_type, ", want ",
                   SHT_STRTAB, " (string table)");
  }
  for (int i = 0; i < count; ++i) {
    const Elf64_Shdr section = at(i);
    SINTER_RETURN_IF_ERROR(CheckContents(cubin, section, i));
    if (section.sh_name >= names.sh_size) {
      return Damaged("name of section ", i, " at ", section.sh_name, ", must be below the ",
                     names.sh_size, " bytes of names");
    }
    if (section.sh_link >= static_cast<uint32_t>(count)) {
      return Damaged("link of section ", i, " is ", section.sh_link, ", must be below e_shnum ",
                     count);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCubin(absl::string_view cubin) {
  if (cubin.size() < sizeof(Elf64_Ehdr)) {
    return Damaged(cubin.size(), " bytes, an ELF header has ", sizeof(Elf64_Ehdr));
  }
  const auto header = ReadAt<Elf64_Ehdr>(cubin, 0);
  SINTER_RETURN_IF_ERROR(CheckIdent(header));
  SINTER_RETURN_IF_ERROR(CheckSegments(cubin, header));
  return CheckSections(cubin, header);
}

}  // namespace sinter
