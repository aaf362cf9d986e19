// Schedules as bytes: what is written reads back, what is out of bounds does not.
#include "src/stitch/schedule.h"

#include "tests/support/damage.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

StitchSchedule Sample() {
  return StitchSchedule{.owner = 3,
                        .block_threads = 256,
                        .unit_threads = 64,
                        .vector = 8,
                        .keep_inputs = true,
                        .keep_alike = true,
                        .blocks_per_sm = 4,
                        .grid = 1056};
}

TEST(StitchSchedule, ReadsBackWhatItWrites) {
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  int valid = 0;
  for (int i = 0; i < 3000; ++i) {
    StitchSchedule s{.owner = one_of({-1, 0, 5, 63}),
                     .block_threads = one_of({32, 128, 256, 512, 1024}),
                     .unit_threads = one_of({1, 2, 16, 32, 64, 128, 256, 512, 1024}),
                     .cluster = one_of({1, 1, 2, 4, 8, 16}),
                     .vector = one_of({1, 2, 4, 8, 16}),
                     .chunks = one_of({1, 2, 8, 32}),
                     .split = one_of({1, 1, 2, 32}),
                     .hold_bytes = one_of({0, 0, 16, 65536})};
    s.keep_inputs = one_of({0, 1}), s.keep_values = one_of({0, 1}), s.keep_alike = one_of({0, 1});
    s.blocks_per_sm = one_of({1, 2, 16, 32});
    s.grid = s.cluster * one_of({1, 7, 132, 65536});
    s.staged = one_of({0, 0, 1});
    if (one_of({0, 0, 1}) == 1) s.handed = {one_of({0, 4}), 5, one_of({9, 63})};
    const absl::StatusOr<StitchSchedule> read = StitchSchedule::FromCanonical(s.Canonical());
    EXPECT_EQ(read.ok(), CheckStitchFields(s).ok());
    if (!read.ok()) continue;
    ++valid;
    EXPECT_TRUE(*read == s) << s.ToString();
    EXPECT_EQ(read->Canonical(), s.Canonical());
  }
  EXPECT_GT(valid, 300);
}

// Kernels that hand nothing over keep the keys that they had.
TEST(StitchSchedule, HasAnotherVersionOnlyWithHandOversAndStagedInputs) {
  const std::string bytes = Sample().Canonical();
  EXPECT_EQ(bytes[0], 7);
  const std::tuple<const char*, int, size_t> cases[] = {{"handed=4", 8, bytes.size() - 4},
                                                        {"staged=1", 9, std::string::npos},
                                                        {"pixels=7", 10, bytes.size() - 4}};
  for (const auto& [words, version, size] : cases) {
    const std::string other = Changed(Sample(), words).Canonical();
    EXPECT_EQ(other[0], version) << words;
    EXPECT_EQ(other.substr(4, size), bytes.substr(4)) << words;
  }
}

TEST(StitchSchedule, MakesSeveralPixelsAtOnceWithoutUnitsAlone) {
  StitchSchedule s{.pixels = 7};
  EXPECT_TRUE(CheckStitchFields(s).ok());
  EXPECT_EQ(s.ToString(), "block 256 vec 1 chunks 1 pixels 7 x1 grid 1");
  EXPECT_EQ(Got(StitchSchedule::FromCanonical(s.Canonical())).pixels, 7);
  for (const char* words : {"chunks=2", "split=2", "pixels=17"}) {
    const StitchSchedule bad = Changed(s, words);
    EXPECT_FALSE(CheckStitchFields(bad).ok()) << bad.ToString();
    EXPECT_FALSE(StitchSchedule::FromCanonical(bad.Canonical()).ok());
  }
}

TEST(StitchSchedule, IsOneLineOfText) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "keep+alike"},
      {"split=8 hold_bytes=4096", "split 8 keep+alike hold 4096"},
      {"handed=4,9", "keep+alike handed 4,9"},
      {"staged=1", "keep+alike staged"}};
  for (const auto& [words, told] : cases) {
    EXPECT_EQ(Changed(Sample(), words).ToString(),
              absl::StrCat("block 256 unit 64 vec 8 ", told, " x4 grid 1056"));
  }
  EXPECT_EQ(Changed(StitchSchedule(), "vector=4 chunks=2 grid=12").ToString(),
            "block 256 vec 4 chunks 2 x1 grid 12");
}

TEST(StitchSchedule, NamesTheFieldThatIsOutOfBounds) {
  const auto check = [](const StitchSchedule& s) {
    const absl::Status status = CheckStitchFields(s);
    EXPECT_EQ(StitchSchedule::FromCanonical(s.Canonical()).status().code(),
              status.ok() ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss)
        << s.ToString();
    return status;
  };
  ExpectRefusedChanges("tests/unit/stitch/refused_schedules.txt", "fields", Sample(), check);
}

TEST(StitchSchedule, BytesThatAreNoScheduleAreDataLoss) {
  const std::string bytes = Sample().Canonical();
  ExpectTruncationsRefused(bytes, StitchSchedule::FromCanonical);
  EXPECT_EQ(StitchSchedule::FromCanonical(bytes + "x").status().code(),
            absl::StatusCode::kDataLoss);
  ExpectFlipsRefusedOrKept(bytes, StitchSchedule::FromCanonical, [](const StitchSchedule& s) {
    EXPECT_TRUE(CheckStitchFields(s).ok()) << s.ToString();
    return s.Canonical();
  });
}

}  // namespace
}  // namespace sinter
