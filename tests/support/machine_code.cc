#include "tests/support/machine_code.h"

#include <elf.h>

namespace sinter {
namespace {

template <class T>
T ReadAt(absl::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Bank 4 holds addresses of symbols; bytes without a place in the file are zero.
bool IsRun(absl::string_view name, const Elf64_Shdr& section) {
  const bool constants =
      absl::StartsWith(name, ".nv.constant") && !absl::StartsWith(name, ".nv.constant4");
  return section.sh_type != SHT_NOBITS &&
         (constants || absl::StartsWith(name, ".text.") || absl::StartsWith(name, ".rela.text."));
}

}  // namespace

std::string MachineCode(absl::string_view cubin) {
  const auto header = ReadAt<Elf64_Ehdr>(cubin, 0);
  const auto section = [&](int i) {
    return ReadAt<Elf64_Shdr>(cubin,
                              header.e_shoff + static_cast<uint64_t>(i) * sizeof(Elf64_Shdr));
  };
  const uint64_t names = section(header.e_shstrndx).sh_offset;
  std::string code;
  for (int i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const absl::string_view name = cubin.data() + names + s.sh_name;
    if (!IsRun(name, s)) continue;
    absl::StrAppend(&code, name, "\n", s.sh_size, "\n", cubin.substr(s.sh_offset, s.sh_size));
  }
  return code;
}

}  // namespace sinter
