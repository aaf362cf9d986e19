#include <elf.h>

#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/digest.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// An ELF file whose one segment holds two notes, the second of them a build id.
std::string ElfWithBuildId() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof(header);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof(header) + sizeof(segment);
  const Elf64_Nhdr other{5, 3, 7};
  const Elf64_Nhdr id{4, 4, NT_GNU_BUILD_ID};
  std::string notes(reinterpret_cast<const char*>(&other), sizeof(other));
  notes += std::string("ABCD\0\0\0\0", 8) + std::string("xyz\0", 4);
  notes.append(reinterpret_cast<const char*>(&id), sizeof(id));
  notes += std::string("GNU\0", 4) + "\xde\xad\xbe\xef";
  segment.p_filesz = notes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
         std::string(reinterpret_cast<const char*>(&segment), sizeof(segment)) + notes;
}

TEST(BuildId, IsFoundBehindOtherNotes) { EXPECT_EQ(BuildIdOf(ElfWithBuildId()), "deadbeef"); }

// 65535 segments of a million notes each would be walked for a minute.
TEST(BuildId, WalksAThousandNotesOfAllSegments) {
  const auto with_notes_before = [](size_t count, int segments) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phoff = sizeof(header);
    header.e_phnum = static_cast<Elf64_Half>(segments);
    const Elf64_Nhdr empty{0, 0, 1}, id{4, 4, NT_GNU_BUILD_ID};
    std::string notes;
    for (size_t i = 0; i < count; ++i) {
      notes.append(reinterpret_cast<const char*>(&empty), sizeof(empty));
    }
    const size_t of_empty = notes.size();
    notes.append(reinterpret_cast<const char*>(&id), sizeof(id));
    notes += std::string("GNU\0", 4) + "\xde\xad\xbe\xef";
    std::string elf(reinterpret_cast<const char*>(&header), sizeof(header));
    for (int i = 0; i < segments; ++i) {
      Elf64_Phdr segment{};
      segment.p_type = PT_NOTE;
      segment.p_offset = sizeof(header) + sizeof(segment) * static_cast<size_t>(segments);
      segment.p_filesz = i + 1 == segments ? notes.size() : of_empty;
      elf.append(reinterpret_cast<const char*>(&segment), sizeof(segment));
    }
    return elf + notes;
  };
  EXPECT_EQ(BuildIdOf(with_notes_before(999, 1)), "deadbeef");
  EXPECT_EQ(BuildIdOf(with_notes_before(1000, 1)), "");
  EXPECT_EQ(BuildIdOf(with_notes_before(99, 10)), "deadbeef");
  EXPECT_EQ(BuildIdOf(with_notes_before(100, 10)), "");
  EXPECT_EQ(BuildIdOf(with_notes_before(1000000, 65535)), "");
}

TEST(BuildId, SurvivesEveryTruncationAndEveryFlippedByte) {
  const std::string good = ElfWithBuildId();
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_EQ(BuildIdOf(good.substr(0, i)), "");
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      BuildIdOf(bad);  // any answer, no crash
    }
  }
}

TEST(FileIdentity, IsADigestWithoutABuildIdAndAnErrorWithoutAFile) {
  const std::string path = ::testing::TempDir() + "/sinter_build_id_test";
  std::ofstream(path) << "no elf";
  EXPECT_EQ(FileIdentity(path).value(), "sha256:" + Sha256("no elf").Hex());
  EXPECT_EQ(FileIdentity(path + ".absent").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sinter
