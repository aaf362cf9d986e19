// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus.
#include <elf.h>

#include "runtime/nvrtc/nvrtc_library.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::build_id_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/build_id/corpus";  // the test runs in the root of the tree

template <typename T>
std::string Raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Note(uint32_t type, const std::string& name, const std::string& value) {
  const Elf64_Nhdr head{static_cast<Elf64_Word>(name.size()), static_cast<Elf64_Word>(value.size()),
                        type};
  const auto padded = [](std::string text) {
    text.resize((text.size() + 3) / 4 * 4);
    return text;
  };
  return Raw(head) + padded(name) + padded(value);
}

// A file with a segment of notes for each of `notes`.
std::string Elf(const std::vector<std::string>& notes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phoff = sizeof(header);
  header.e_phnum = static_cast<Elf64_Half>(notes.size());
  std::string segments, bytes;
  for (const std::string& note : notes) {
    Elf64_Phdr segment{};
    segment.p_type = PT_NOTE;
    segment.p_offset = sizeof(header) + notes.size() * sizeof(segment) + bytes.size();
    segment.p_filesz = note.size();
    segments += Raw(segment);
    bytes += note;
  }
  return Raw(header) + segments + bytes;
}

void WriteCorpus() {
  const std::string gnu("GNU\0", 4), other = Note(7, std::string("ABCDE\0", 6), "xyz");
  const std::string id = Note(NT_GNU_BUILD_ID, gnu, "0123456789abcdef0123");
  const std::string two = Elf({other + id});
  WriteSeed(absl::StrCat(kCorpus, "/two_notes"), two);
  WriteSeed(absl::StrCat(kCorpus, "/two_segments"), Elf({other, id}));
  WriteSeed(absl::StrCat(kCorpus, "/without_id"), Elf({other}));
  WriteSeed(absl::StrCat(kCorpus, "/cut_in_header"), two.substr(0, 40));
  WriteSeed(absl::StrCat(kCorpus, "/cut_in_id"), two.substr(0, two.size() - 10));
}

TEST(BuildIdFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  int found = 0;
  EXPECT_GE(ReplayCorpus(Target, kCorpus, 20000, 0,
                         [&](const std::string&, const std::string& seed) {
                           found += BuildIdOf(seed).empty() ? 0 : 1;
                         }),
            5);
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace sinter::build_id_fuzz
