#include "runtime/launch/cubin_check.h"

#include <elf.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

constexpr uint16_t kMachineCuda = 190;

absl::Status Damaged(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("cubin refused: ", why));
}

bool Inside(absl::string_view file, uint64_t offset, uint64_t size) {
  return offset <= file.size() && size <= file.size() - offset;
}

absl::Status CheckSections(absl::string_view file, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, file.data() + header.e_shoff + uint64_t{sizeof(section)} * i,
                sizeof(section));
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (!Inside(file, section.sh_offset, section.sh_size)) {
      return Damaged(absl::StrCat("section ", i, " of ", section.sh_size, " bytes at ",
                                  section.sh_offset, " ends past the file of ", file.size(),
                                  " bytes"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModuleImage(absl::string_view cubin) {
  Elf64_Ehdr header;
  if (cubin.size() < sizeof(header)) {
    return Damaged(absl::StrCat(cubin.size(), " bytes are no ELF file"));
  }
  std::memcpy(&header, cubin.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Damaged("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return Damaged("not a 64-bit little-endian ELF file");
  }
  if (header.e_machine != kMachineCuda) {
    return Damaged(absl::StrCat("ELF machine ", header.e_machine, " is not CUDA (190)"));
  }
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr) ||
      !Inside(cubin, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
    return Damaged("its section table lies outside the file");
  }
  if (header.e_phnum != 0 &&
      (header.e_phentsize != sizeof(Elf64_Phdr) ||
       !Inside(cubin, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)))) {
    return Damaged("its program table lies outside the file");
  }
  return CheckSections(cubin, header);
}

}  // namespace sinter
