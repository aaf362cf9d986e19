#include "src/base/compile_request.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/status.h"

namespace sinter {
absl::string_view IncludedHeader(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "\"")) return "";
  const size_t end = line.find('"');
  return end == absl::string_view::npos ? "" : line.substr(0, end);
}

namespace {

constexpr absl::string_view kPrefix = "nvrtc-";
constexpr absl::string_view kHashPrefix = "sha256:";
constexpr size_t kLeastDigits = 8;

bool AllOf(absl::string_view text, bool (*is)(unsigned char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [is](char c) { return is(static_cast<unsigned char>(c)); });
}

bool IsVersion(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  return parts.size() == 2 && AllOf(parts[0], absl::ascii_isdigit) &&
         AllOf(parts[1], absl::ascii_isdigit);
}

bool IsIdentity(absl::string_view text) {
  absl::ConsumePrefix(&text, kHashPrefix);
  return text.size() >= kLeastDigits && AllOf(text, absl::ascii_isxdigit);
}

}  // namespace

std::string MakeToolchainId(int major, int minor, absl::string_view identity) {
  return absl::StrCat(kPrefix, major, ".", minor, "-", identity);
}

int NvrtcVersionOf(absl::string_view toolchain_id) {
  if (!absl::ConsumePrefix(&toolchain_id, kPrefix)) return 0;
  const absl::string_view version = toolchain_id.substr(0, toolchain_id.find('-'));
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  int major = 0, minor = 0;
  const bool known = IsVersion(version) && absl::SimpleAtoi(parts[0], &major) &&
                     absl::SimpleAtoi(parts[1], &minor) && major < 10000 && minor < 100;
  return known ? 100 * major + minor : 0;
}

absl::Status ToolchainDenyList::Add(absl::string_view entries) {
  std::vector<std::string> fresh;
  for (absl::string_view entry : absl::StrSplit(entries, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    if (entry.empty()) continue;
    if (!IsVersion(entry) && !IsIdentity(entry)) {
      return Invalid("denied toolchain \"", entry.substr(0, 64),
                     "\" is neither a version such as 13.0 nor ", kLeastDigits,
                     " or more hex digits of a build id");
    }
    fresh.push_back(absl::AsciiStrToLower(entry));
  }
  if (fresh.empty()) return absl::OkStatus();
  auto addition = std::make_unique<Addition>();
  addition->entries = std::move(fresh);
  addition->before = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(addition->before, addition.get(), std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  addition.release();
  return absl::OkStatus();
}

ToolchainDenyList::~ToolchainDenyList() {
  const Addition* addition = newest_.load(std::memory_order_acquire);
  while (addition != nullptr) delete std::exchange(addition, addition->before);
}

std::string ToolchainDenyList::Match(absl::string_view toolchain_id) const {
  if (empty() || !absl::ConsumePrefix(&toolchain_id, kPrefix)) return std::string();
  const std::vector<absl::string_view> parts =
      absl::StrSplit(toolchain_id, absl::MaxSplits('-', 1));
  if (parts.size() != 2) return std::string();
  for (const Addition* addition = newest_.load(std::memory_order_acquire); addition != nullptr;
       addition = addition->before) {
    for (const std::string& entry : addition->entries) {
      const bool match =
          IsVersion(entry) ? parts[0] == entry : absl::StartsWithIgnoreCase(parts[1], entry);
      if (match) return entry;
    }
  }
  return std::string();
}

namespace {

constexpr uint16_t kMachineCuda = 190;

template <typename... Parts>
absl::Status Damaged(const Parts&... what) {
  return DataLoss("cubin: ", what...);
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
