// What the cache tests share: a folder that cleans up after itself, keys, and a small cubin.
#ifndef SINTER_TESTS_UNIT_CACHE_CACHE_TESTING_H_
#define SINTER_TESTS_UNIT_CACHE_CACHE_TESTING_H_

#include <elf.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/key/key.h"
#include "cache/record/kernel_record.h"
#include "cache/store/directory.h"
#include "src/base/digest.h"

namespace sinter {
namespace cache_testing {

constexpr RecordKind kKernel = RecordKind::kKernel, kPlan = RecordKind::kPlan;

class TempDir {
 public:
  explicit TempDir(const char* base = nullptr) {
    if (base == nullptr) base = getenv("TMPDIR");
    std::string name = absl::StrCat(base != nullptr ? base : "/tmp", "/sinter-cache-XXXXXX");
    path_ = mkdtemp(&name[0]) != nullptr ? name : std::string();
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Overwrites in place, as bit rot does: same inode.
inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  chmod(path.c_str(), 0600);
}

inline std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    std::memcpy(&bytes[i], &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

inline KernelKey SampleKernelKey(int i = 0) {
  KernelKey key;
  key.format_version = 1;
  key.sub_dag = absl::StrCat("dag-", i);
  key.schedule = "schedule";
  key.device_library = Sha256("device library");
  key.arch = "sm_90a";
  key.options = {"-O3", "--std=c++17"};
  key.toolchain_id = "nvrtc 13.0 build 00ff";
  return key;
}

inline PlanKey SamplePlanKey(int i = 0) {
  PlanKey key;
  key.format_version = 1;
  key.chain = absl::StrCat("chain-", i);
  key.bucket = 64;
  key.device_model = Sha256("h200");
  key.library_version = "0.1.0";
  key.search_version = 3;
  key.flags = 1;
  key.tuning_set = Sha256("tuning");
  return key;
}

// <root>/v1/<record path> of a key.
inline std::string PathIn(const std::string& root, RecordKind kind, const std::string& key) {
  return absl::StrCat(root, "/v1/", RecordPath(kind, Sha256(key)));
}
inline std::string TombstoneIn(const std::string& root, RecordKind kind, const std::string& key) {
  return absl::StrCat(root, "/v1/", TombstonePath(kind, Sha256(key)));
}

inline int CountFiles(const std::string& folder) {
  std::error_code ignored;
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file()) ++count;
  }
  return count;
}

// The smallest ELF that has what a cubin has: code, names, a zero-fill section, one segment.
inline std::string SmallCubin(size_t code_bytes = 64) {
  const std::string names("\0.text\0.shstrtab\0.nv.shared\0", 28);
  const std::string code = RandomBytes(code_bytes, code_bytes);
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

inline KernelRecord SampleKernelRecord() {
  KernelRecord record;
  record.cubin = SmallCubin();
  record.recipe = "recipe bytes";
  record.entry = "sinter_chain_0";
  record.log = "used 168 registers";
  record.registers = 168;
  return record;
}

}  // namespace cache_testing
}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_CACHE_CACHE_TESTING_H_
