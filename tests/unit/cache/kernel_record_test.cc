#include "cache/record/kernel_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cache/record/cubin_check.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::SampleKernelRecord;
using cache_testing::SmallCubin;
using testing::HasSubstr;

TEST(KernelRecordTest, ReadsBackEveryField) {
  KernelRecord record = SampleKernelRecord();
  record.spill_bytes = 4;
  record.compile_us = 81234.5;
  record.verification = {"NVIDIA H200", 17, 0.0025};
  const auto back = DecodeKernelRecord(EncodeKernelRecord(record));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->cubin, record.cubin);
  EXPECT_EQ(back->recipe, record.recipe);
  EXPECT_EQ(back->entry, record.entry);
  EXPECT_EQ(back->log, record.log);
  EXPECT_EQ(back->registers, 168u);
  EXPECT_EQ(back->spill_bytes, 4u);
  EXPECT_EQ(back->compile_us, 81234.5);
  EXPECT_EQ(back->verification, record.verification);
}

TEST(KernelRecordTest, KnowsWhetherItWasVerified) {
  KernelRecord record = SampleKernelRecord();
  EXPECT_FALSE(KernelPayloadVerified(EncodeKernelRecord(record)));
  record.verification.device = "NVIDIA H200";
  EXPECT_TRUE(KernelPayloadVerified(EncodeKernelRecord(record)));
  EXPECT_FALSE(KernelPayloadVerified("plan bytes"));
  EXPECT_FALSE(KernelPayloadVerified(""));
}

TEST(KernelRecordTest, RefusesTruncationsTailsAndOtherVersions) {
  const std::string good = EncodeKernelRecord(SampleKernelRecord());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(DecodeKernelRecord(good.substr(0, n)).ok());
  EXPECT_FALSE(DecodeKernelRecord(good + "x").ok());
  std::string other = good;
  other[8] = 9;
  EXPECT_THAT(std::string(DecodeKernelRecord(other).status().message()),
              HasSubstr("version 9, want 2"));
  for (const double us : {-1.0, 1e300, std::nan("")}) {
    KernelRecord endless = SampleKernelRecord();
    endless.compile_us = us;
    EXPECT_FALSE(DecodeKernelRecord(EncodeKernelRecord(endless)).ok()) << us;
  }
  KernelRecord nameless = SampleKernelRecord();
  nameless.entry = "";
  EXPECT_FALSE(DecodeKernelRecord(EncodeKernelRecord(nameless)).ok());
}

TEST(CubinCheckTest, AcceptsASoundCubin) { EXPECT_TRUE(CheckCubin(SmallCubin()).ok()); }

template <typename T>
std::string With(size_t offset, T value) {
  std::string cubin = SmallCubin();
  std::memcpy(&cubin[offset], &value, sizeof(value));
  return cubin;
}

TEST(CubinCheckTest, NamesWhatIsWrong) {
  Elf64_Ehdr header;
  std::memcpy(&header, SmallCubin().data(), sizeof(header));
  const size_t section1 = header.e_shoff + sizeof(Elf64_Shdr);
  const size_t section2 = section1 + sizeof(Elf64_Shdr);
  const struct {
    std::string cubin;
    std::string message;
  } cases[] = {
      {"", "0 bytes"},
      {With<uint8_t>(0, 'X'), "elf magic differs"},
      {With<uint8_t>(EI_CLASS, 1), "elf class"},
      {With<uint8_t>(EI_DATA, 2), "elf data"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_machine), 62), "e_machine 62, want 190"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_phentsize), 8), "e_phentsize"},
      {With<uint64_t>(offsetof(Elf64_Ehdr, e_phoff), ~0ull), "program header table"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_phnum), 60000), "program header table"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shnum), 0), "no sections"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shnum), 5), "section header table"},
      {With<uint64_t>(offsetof(Elf64_Ehdr, e_shoff), ~0ull - 8), "section header table"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shentsize), 1), "e_shentsize"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shstrndx), 4), "e_shstrndx"},
      {With<uint16_t>(offsetof(Elf64_Ehdr, e_shstrndx), 1), "not a string table"},
      {With<uint64_t>(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), 1 << 20), "segment 0"},
      {With<uint64_t>(section1 + offsetof(Elf64_Shdr, sh_size), 1 << 20), "section 1 passes"},
      {With<uint64_t>(section1 + offsetof(Elf64_Shdr, sh_offset), ~0ull), "section 1 passes"},
      {With<uint32_t>(section1 + offsetof(Elf64_Shdr, sh_name), 999), "name of section 1"},
      {With<uint32_t>(section1 + offsetof(Elf64_Shdr, sh_link), 4), "link of section 1"},
      {With<uint64_t>(section2 + offsetof(Elf64_Shdr, sh_size), 3), "has no end"},
  };
  for (const auto& c : cases) {
    const absl::Status status = CheckCubin(c.cubin);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << c.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
}

// Any accepted variant keeps all it names inside the bytes; the sanitizer builds watch the reads.
TEST(CubinCheckTest, SurvivesEveryTruncationAndFlip) {
  const std::string good = SmallCubin();
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(CheckCubin(good.substr(0, n)).ok()) << n;
  int accepted = 0;
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    accepted += CheckCubin(bad).ok() ? 1 : 0;
  }
  std::cout << "cubin flips: tried " << good.size() * 8 << " harmless to bounds " << accepted
            << " deaths 0\n";
}

}  // namespace
}  // namespace sinter
