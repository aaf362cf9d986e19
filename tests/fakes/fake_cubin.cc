#include "tests/fakes/fake_cubin.h"

#include <elf.h>

#include <cstring>

namespace sinter {

std::string FakeCubin(const std::string& entry, size_t filler) {
  const std::string names =
      std::string("\0.shstrtab\0", 11) + ".text." + entry + std::string(filler + 1, '\0');
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = 190;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof(header) + names.size();
  Elf64_Shdr sections[2] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof(header);
  sections[1].sh_size = names.size();
  std::string image(reinterpret_cast<const char*>(&header), sizeof(header));
  image += names;
  image.append(reinterpret_cast<const char*>(sections), sizeof(sections));
  return image;
}

}  // namespace sinter
