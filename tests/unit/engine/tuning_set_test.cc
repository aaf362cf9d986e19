#include "src/engine/tuning_set.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

TuningEntry Entry(absl::string_view chain, int64_t bucket = 16, double measured_us = 4.25) {
  TuningEntry e;
  e.key.chain = Sha256(chain);
  e.key.bucket = bucket;
  e.key.chip = ChipDigest(BuiltinModel("h200").value());
  e.about =
      absl::StrCat("on h200 sm_90a 132 SMs\nmeasured_us ", measured_us, "\ndevice NVIDIA H200\n");
  e.record = std::string("\0\xff record", 9);
  return e;
}

TuningSet SetOf(std::initializer_list<TuningEntry> entries) {
  TuningSet set;
  for (const TuningEntry& entry : entries) set.Add(entry);
  return set;
}

// A body with the digest line that belongs to it.
std::string Sealed(const std::string& body) {
  return absl::StrCat(body, "sha256 ", Sha256(body).Hex(), "\n");
}

TEST(TuningSetTest, TextReadsBackAndNamesItsDigest) {
  const TuningSet set = SetOf({Entry("a"), Entry("b", 32), Entry("a", 128)});
  const std::string text = set.ToText();
  EXPECT_THAT(text, StartsWith("sinter tuning set 2\nchain "));
  EXPECT_THAT(text, EndsWith("sha256 " + set.SetDigest().Hex() + "\n"));
  EXPECT_THAT(text, HasSubstr("\n  measured_us 4.25\n  device NVIDIA H200\n  record 00ff2072"));
  const TuningSet read = TuningSet::FromText(text).value();
  EXPECT_EQ(read.ToText(), text);
  const TuningEntry* entry = read.Find(Entry("b", 32).key);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->record, Entry("b").record);
  EXPECT_EQ(entry->about, Entry("b").about);
  EXPECT_EQ(read.Find(Entry("b", 48).key), nullptr);
}

TEST(TuningSetTest, TheOrderOfAddsDoesNotShow) {
  const TuningSet one = SetOf({Entry("a"), Entry("b"), Entry("c")});
  const TuningSet other = SetOf({Entry("c"), Entry("a", 16, 9), Entry("b"), Entry("a")});
  EXPECT_EQ(one.ToText(), other.ToText());
  EXPECT_EQ(one.SetDigest(), other.SetDigest());
  EXPECT_NE(one.SetDigest(), SetOf({Entry("a", 16, 9), Entry("b"), Entry("c")}).SetDigest());
  EXPECT_NE(TuningSet().SetDigest(), Digest());
}

TEST(TuningSetTest, AnotherSetsEntriesWinWhenMerged) {
  TuningSet set = SetOf({Entry("a", 16, 4), Entry("b", 16, 5)});
  set.Merge(SetOf({Entry("b", 16, 6), Entry("c", 16, 7)}));
  EXPECT_EQ(set.entries().size(), 3u);
  EXPECT_EQ(set.Find(Entry("a").key)->about, Entry("a", 16, 4).about);
  EXPECT_EQ(set.Find(Entry("b").key)->about, Entry("b", 16, 6).about);
  EXPECT_EQ(set.Find(Entry("c").key)->about, Entry("c", 16, 7).about);
}

TEST(TuningSetTest, AnyChangedOrMissingByteIsAnError) {
  const std::string text = SetOf({Entry("a"), Entry("b")}).ToText();
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {'\x01', '\x20', '\x80'}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      EXPECT_TRUE(absl::IsDataLoss(TuningSet::FromText(damaged).status())) << i;
    }
    EXPECT_TRUE(absl::IsDataLoss(TuningSet::FromText(text.substr(0, i)).status())) << i;
  }
  EXPECT_FALSE(TuningSet::FromText(text + "\n").ok());
  EXPECT_FALSE(TuningSet::FromText(text + text).ok());
}

// Damage that whoever made it sealed again.
TEST(TuningSetTest, ABodyThatIsNotCanonicalIsRefusedWithItsLine) {
  const std::string text = SetOf({Entry("a"), Entry("b")}).ToText();
  const std::string body = text.substr(0, text.size() - 72);
  ASSERT_EQ(Sealed(body), text);
  for (size_t i = 20; i < body.size(); ++i) {
    std::string changed = body;
    changed.erase(i, 1);
    TuningSet::FromText(Sealed(changed)).IgnoreError();
    changed = body;
    changed[i] = '\n';
    TuningSet::FromText(Sealed(changed)).IgnoreError();
  }
  const auto why = [&](const std::string& from, const std::string& to) {
    std::string changed = body;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return std::string(TuningSet::FromText(Sealed(changed)).status().message());
  };
  EXPECT_THAT(why("  measured_us 4.25", "  measured_us  4.25"), HasSubstr("canonical"));
  EXPECT_THAT(why("  measured_us 4.25\n", "  \n"), HasSubstr("canonical"));
  EXPECT_THAT(why("  measured_us 4.25\n", "measured_us 4.25\n"),
              HasSubstr("line 4: expected \"record"));
  EXPECT_THAT(why(" m 16 ", " m 16.5 "),
              HasSubstr("line 2: expected \"chain <digest> m <integer>"));
  EXPECT_THAT(why(" flags 0", ""), HasSubstr("flags <integer>"));
  EXPECT_THAT(why("  record 00", "  record 0"), HasSubstr("hexadecimal"));
  EXPECT_THAT(why("  record 00", "  record 0x"), HasSubstr("hexadecimal"));
  EXPECT_THAT(why("  record 00ff", "  record 00FF"), HasSubstr("canonical"));
  EXPECT_THAT(why("tuning set 2\n", "tuning set 1\n"), HasSubstr("format \"1\", must be 2"));
  const size_t second = body.find("\nchain ", 30) + 1;
  const std::string first_entry = body.substr(20, second - 20), second_entry = body.substr(second);
  const std::string head = body.substr(0, 20);
  EXPECT_TRUE(Says(TuningSet::FromText(Sealed(head + second_entry + first_entry)), "out of order"));
  EXPECT_TRUE(Says(TuningSet::FromText(Sealed(head + first_entry + first_entry)), "twice"));
}

TEST(TuningSetTest, WhateverADeviceIsCalledTheTextReadsBack) {
  for (const char* name : {"", " ", "two\nlines", "\x01", "  padded  ", "tab\there"}) {
    TuningEntry entry = Entry("a");
    entry.about = absl::StrCat("device ", name, "\n");
    EXPECT_TRUE(TuningSet::FromText(SetOf({entry}).ToText()).ok()) << name;
  }
  TuningEntry entry = Entry("a");
  entry.about = std::string(5000, 'x');
  EXPECT_TRUE(TuningSet::FromText(SetOf({entry}).ToText()).ok());
}

TEST(TuningSetTest, ACostModelsFiguresAreNoPartOfTheChip) {
  const DeviceModel h200 = BuiltinModel("h200").value();
  DeviceModel recalibrated = h200;
  recalibrated.stage_us *= 2;
  recalibrated.l2_bytes_per_us *= 2;
  EXPECT_NE(recalibrated.ModelDigest(), h200.ModelDigest());
  EXPECT_EQ(ChipDigest(recalibrated), ChipDigest(h200));
  DeviceModel smaller = h200;
  smaller.sm_count -= 1;
  EXPECT_NE(ChipDigest(smaller), ChipDigest(h200));
  EXPECT_NE(ChipDigest(BuiltinModel("h100").value()), ChipDigest(h200));
  const TuningSet set = SetOf({Entry("a")});
  EXPECT_TRUE(set.HasChip(ChipDigest(h200)));
  EXPECT_FALSE(set.HasChip(ChipDigest(smaller)));
}

class TuningFileTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Refusal(const std::string& path) const {
    const absl::Status status = ReadTuningFile(path).status();
    EXPECT_TRUE(Fails(status, absl::StatusCode::kInvalidArgument, "tuning set " + path + ": "));
    return std::string(status.message());
  }
  const TempDir folder_;
};

TEST_F(TuningFileTest, AFileThatOthersMayWriteIsRefused) {
  const std::string path = Path("set.txt");
  ASSERT_TRUE(WriteTuningFile(SetOf({Entry("a")}), path).ok());
  for (const mode_t mode : {0664, 0646, 0666}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_THAT(Refusal(path), HasSubstr("writable by group or others")) << mode;
  }
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  EXPECT_TRUE(ReadTuningFile(path).ok());
  if (geteuid() != 0) return;  // only root gives files away
  ASSERT_EQ(chown(path.c_str(), 1, 1), 0);
  EXPECT_THAT(Refusal(path), HasSubstr("owned by another user"));
}

TEST_F(TuningFileTest, AFileReadsBackAndIsReplacedWhole) {
  const std::string path = Path("set.txt");
  const TuningSet first = SetOf({Entry("a")}), second = SetOf({Entry("a", 16, 3), Entry("b")});
  ASSERT_TRUE(WriteTuningFile(first, path).ok());
  const int held = open(path.c_str(), O_RDONLY);
  ASSERT_TRUE(WriteTuningFile(second, path).ok());
  EXPECT_EQ(ReadTuningFile(path)->ToText(), second.ToText());
  // Whoever opened the old file still reads all of it.
  std::string old(first.ToText().size() + 1, '\0');
  EXPECT_EQ(read(held, &old[0], old.size()), static_cast<ssize_t>(old.size() - 1));
  old.pop_back();
  EXPECT_EQ(old, first.ToText());
  close(held);
  // No other file is left in the folder.
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(TuningFileTest, WhatCannotBeASetIsRefusedWithPathAndReason) {
  EXPECT_THAT(Refusal(Path("none")), HasSubstr("No such file"));
  EXPECT_THAT(Refusal(folder_.path()), HasSubstr("not a regular file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(Path("pipe")), HasSubstr("not a regular file"));
  std::ofstream(Path("empty")).close();
  EXPECT_THAT(Refusal(Path("empty")), HasSubstr("not a tuning set"));
  std::ofstream(Path("large")).close();
  std::filesystem::resize_file(Path("large"), kMaxTuningFile + 1);
  EXPECT_THAT(Refusal(Path("large")), HasSubstr("must be at most 67108864"));
  std::ofstream(Path("damaged")) << SetOf({Entry("a")}).ToText().replace(300, 1, "~");
  EXPECT_THAT(Refusal(Path("damaged")), HasSubstr("damaged: its content has SHA-256"));
}

TEST_F(TuningFileTest, AnUnwritablePlaceIsAnErrorThatNamesIt) {
  EXPECT_TRUE(Fails(WriteTuningFile(TuningSet(), Path("no/such/folder.txt")),
                    absl::StatusCode::kInvalidArgument, "no/such/folder.txt: cannot be written"));
  EXPECT_FALSE(WriteTuningFile(TuningSet(), folder_.path()).ok());
}

}  // namespace
}  // namespace sinter
