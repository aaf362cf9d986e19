// The smallest ELF that has what a cubin has: code, names, a section without bytes, one segment.
#pragma once

#include <elf.h>

#include "tests/support/common.h"

namespace sinter {

// Any bytes may stand for the code.
inline std::string SmallCubin(const std::string& code) {
  const std::string names("\0.text\0.shstrtab\0.nv.shared\0", 28);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = 190;
  header.e_ehsize = sizeof(header);
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 2;
  const uint64_t code_at = sizeof(header) + sizeof(Elf64_Phdr);
  const uint64_t names_at = code_at + code.size();
  header.e_shoff = names_at + names.size();
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_offset = code_at;
  segment.p_filesz = segment.p_memsz = code.size();
  Elf64_Shdr sections[4] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_PROGBITS;
  sections[1].sh_offset = code_at;
  sections[1].sh_size = code.size();
  sections[2].sh_name = 7;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = names_at;
  sections[2].sh_size = names.size();
  sections[3].sh_name = 17;
  sections[3].sh_type = SHT_NOBITS;
  sections[3].sh_offset = header.e_shoff;
  sections[3].sh_size = 1 << 20;
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
  out += code + names;
  out.append(reinterpret_cast<const char*>(sections), sizeof(sections));
  return out;
}

}  // namespace sinter
