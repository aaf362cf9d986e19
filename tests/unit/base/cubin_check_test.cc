#include "src/base/compile_request.h"
#include "tests/support/files.h"
#include "tests/support/small_cubin.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

const std::string& Small() {
  static const std::string& cubin = *new std::string(SmallCubin(std::string(64, 'c')));
  return cubin;
}

// What NVRTC 13.0 made; the fuzz target's seed. The test runs in the root of the source tree.
std::string OfNvrtc() { return FileText("tests/fuzz/cubin/corpus/nvrtc_13_0"); }

TEST(CubinCheckTest, AcceptsWhatIsSoundAtAnyAlignment) {
  EXPECT_TRUE(CheckCubin(Small()).ok());
  const std::string shifted = "x" + OfNvrtc();
  ASSERT_EQ(shifted.size(), 3569u);
  EXPECT_TRUE(CheckCubin(absl::string_view(shifted).substr(1)).ok());
}

template <typename T>
std::string With(size_t offset, T value) {
  std::string cubin = Small();
  std::memcpy(&cubin[offset], &value, sizeof(value));
  return cubin;
}

size_t SectionAt(int index) {
  Elf64_Ehdr header;
  std::memcpy(&header, Small().data(), sizeof(header));
  return header.e_shoff + index * sizeof(Elf64_Shdr);
}

struct Damaged {
  std::string cubin;
  std::string message;
};

void ExpectRefused(const Damaged& damaged) {
  EXPECT_TRUE(
      Fails(CheckCubin(damaged.cubin), absl::StatusCode::kDataLoss, "cubin: " + damaged.message))
      << damaged.message;
}

TEST(CubinCheckTest, NamesWhatIsWrongInTheHeaderAndItsBound) {
  const Damaged cases[] = {
      {"", "0 bytes, an ELF header has 64"},
      {std::string(200, 'x'), "the ELF magic differs"},
      {With<uint8_t>(0, 'X'), "the ELF magic differs"},
      {With<uint8_t>(EI_CLASS, 1), "ELF class 1, want 2 (64-bit)"},
      {With<uint8_t>(EI_DATA, 2), "ELF data 2, want 1 (little-endian)"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_machine), 62), "e_machine 62, want 190"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_phentsize), 8),
       "segment table has entries of 8 bytes, want 56"},
      {With<uint64_t>(offsetof(Elf64_Ehdr, e_phoff), ~0ull),
       "segment table of 56 bytes at 18446744073709551615 passes the end of 468 bytes"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_phnum), 60000),
       "segment table of 3360000 bytes at 64 passes the end of 468 bytes"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shnum), 0), "e_shnum 0, must be at least 1"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shnum), 5),
       "section table of 320 bytes at 212 passes the end of 468 bytes"},
      {With<uint64_t>(offsetof(Elf64_Ehdr, e_shoff), ~0ull - 8), "section table of 256 bytes at"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shentsize), 1),
       "section table has entries of 1 bytes, want 64"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shstrndx), 4),
       "e_shstrndx 4, must be below e_shnum 4"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shstrndx), 1),
       "section 1 of names has type 1, want 3"},
  };
  for (const Damaged& damaged : cases) ExpectRefused(damaged);
}

TEST(CubinCheckTest, NamesWhatIsWrongInASegmentOrSectionAndItsBound) {
  const Damaged cases[] = {
      {With<uint64_t>(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), 1 << 20),
       "segment 0 of 1048576 bytes at 120 passes the end of 468 bytes"},
      {With<uint64_t>(SectionAt(1) + offsetof(Elf64_Shdr, sh_size), 1 << 20),
       "section 1 of 1048576 bytes at 120 passes the end of 468 bytes"},
      {With<uint64_t>(SectionAt(1) + offsetof(Elf64_Shdr, sh_offset), ~0ull),
       "section 1 of 64 bytes at 18446744073709551615 passes"},
      {With<uint32_t>(SectionAt(1) + offsetof(Elf64_Shdr, sh_name), 28),
       "name of section 1 at 28, must be below the 28 bytes of names"},
      {With<uint32_t>(SectionAt(1) + offsetof(Elf64_Shdr, sh_link), 4),
       "link of section 1 is 4, must be below e_shnum 4"},
      {With<uint64_t>(SectionAt(2) + offsetof(Elf64_Shdr, sh_size), 3),
       "section 2, a string table of 3 bytes, does not end in NUL"},
      {With<uint64_t>(SectionAt(2) + offsetof(Elf64_Shdr, sh_size), 0),
       "name of section 0 at 0, must be below the 0 bytes of names"},
  };
  for (const Damaged& damaged : cases) ExpectRefused(damaged);
}

// NVRTC's images end with their headers, so a truncation always loses some headers.
// `cubin_fuzz_test` tests images with a flipped bit that remain valid.
TEST(CubinCheckTest, RefusesEveryTruncation) {
  for (const std::string& good : {Small(), OfNvrtc()}) {
    for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(CheckCubin(good.substr(0, n)).ok()) << n;
  }
}

template <typename T>
T At(const std::string& cubin, uint64_t offset) {
  T value;
  std::memcpy(&value, &cubin[offset], sizeof(value));
  return value;
}

bool IsInside(const std::string& cubin, uint64_t offset, uint64_t bytes) {
  return offset <= cubin.size() && bytes <= cubin.size() - offset;
}

// Whether the tables, and all segments and sections that have bytes, lie in the image.
bool KeepsAllInside(const std::string& cubin) {
  const auto header = At<Elf64_Ehdr>(cubin, 0);
  if (!IsInside(cubin, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)) ||
      !IsInside(cubin, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr))) {
    return false;
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto segment = At<Elf64_Phdr>(cubin, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!IsInside(cubin, segment.p_offset, segment.p_filesz)) return false;
  }
  for (int i = 0; i < header.e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr));
    const bool stored = section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL;
    if (stored && !IsInside(cubin, section.sh_offset, section.sh_size)) return false;
  }
  return true;
}

// Any accepted variant keeps all it names inside the bytes; the sanitizer builds watch the reads.
TEST(CubinCheckTest, AcceptsNoFlipThatLeadsOutside) {
  for (const std::string& good : {Small(), OfNvrtc()}) {
    ASSERT_TRUE(KeepsAllInside(good));
    size_t accepted = 0, outside = 0;
    for (size_t i = 0; i < good.size() * 8; ++i) {
      std::string bad = good;
      bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
      const bool ok = CheckCubin(bad).ok();
      accepted += ok;
      if (KeepsAllInside(bad)) continue;
      ++outside;
      EXPECT_FALSE(ok) << "bit " << i;
    }
    EXPECT_GT(outside, 100u);              // flips that a check without bounds would let through
    EXPECT_GT(accepted, good.size() * 4);  // code and names are not the check's business
  }
}

}  // namespace
}  // namespace sinter
