// Schedules as bytes: what is written reads back, what is out of bounds does not.
#include "src/stitch/schedule.h"

#include "tests/support/test.h"

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
  StitchSchedule s = Sample();
  const std::string bytes = s.Canonical();
  EXPECT_EQ(bytes[0], 7);
  s.handed = {4};
  EXPECT_EQ(s.Canonical()[0], 8);
  EXPECT_EQ(s.Canonical().substr(4, bytes.size() - 4), bytes.substr(4));
  s = Sample();
  s.staged = true;
  EXPECT_EQ(s.Canonical()[0], 9);
  EXPECT_EQ(s.Canonical().substr(4), bytes.substr(4));
  s = Sample();
  s.pixels = 7;
  EXPECT_EQ(s.Canonical()[0], 10);
  EXPECT_EQ(s.Canonical().substr(4, bytes.size() - 4), bytes.substr(4));
}

TEST(StitchSchedule, MakesSeveralPixelsAtOnceWithoutUnitsAlone) {
  StitchSchedule s{.pixels = 7};
  EXPECT_TRUE(CheckStitchFields(s).ok());
  EXPECT_EQ(s.ToString(), "block 256 vec 1 chunks 1 pixels 7 x1 grid 1");
  EXPECT_EQ(Got(StitchSchedule::FromCanonical(s.Canonical())).pixels, 7);
  StitchSchedule chunked = s, split = s, wide = s;
  chunked.chunks = 2, split.split = 2, wide.pixels = 17;
  for (const StitchSchedule& bad : {chunked, split, wide}) {
    EXPECT_FALSE(CheckStitchFields(bad).ok()) << bad.ToString();
    EXPECT_FALSE(StitchSchedule::FromCanonical(bad.Canonical()).ok());
  }
}

TEST(StitchSchedule, IsOneLineOfText) {
  EXPECT_EQ(Sample().ToString(), "block 256 unit 64 vec 8 keep+alike x4 grid 1056");
  StitchSchedule composed = Sample();
  composed.split = 8, composed.hold_bytes = 4096;
  EXPECT_EQ(composed.ToString(),
            "block 256 unit 64 vec 8 split 8 keep+alike hold 4096 x4 grid 1056");
  StitchSchedule handing = Sample();
  handing.handed = {4, 9};
  EXPECT_EQ(handing.ToString(), "block 256 unit 64 vec 8 keep+alike handed 4,9 x4 grid 1056");
  StitchSchedule staged = Sample();
  staged.staged = true;
  EXPECT_EQ(staged.ToString(), "block 256 unit 64 vec 8 keep+alike staged x4 grid 1056");
  StitchSchedule flat;
  flat.vector = 4, flat.chunks = 2, flat.grid = 12;
  EXPECT_EQ(flat.ToString(), "block 256 vec 4 chunks 2 x1 grid 12");
}

TEST(StitchSchedule, NamesTheFieldThatIsOutOfBounds) {
  struct Bad {
    const char* message;
    void (*damage)(StitchSchedule*);
  };
  const Bad cases[] = {
      {"block_threads is 0", [](StitchSchedule* s) { s->block_threads = 0; }},
      {"block_threads is 48", [](StitchSchedule* s) { s->block_threads = 48; }},
      {"block_threads is 1056", [](StitchSchedule* s) { s->block_threads = 1056; }},
      {"unit_threads is 0", [](StitchSchedule* s) { s->unit_threads = 0; }},
      {"unit_threads is 12", [](StitchSchedule* s) { s->unit_threads = 12; }},
      {"unit_threads is 96", [](StitchSchedule* s) { s->unit_threads = 96; }},
      {"unit_threads is 512", [](StitchSchedule* s) { s->unit_threads = 512; }},
      {"cluster is 3", [](StitchSchedule* s) { s->cluster = 3; }},
      {"cluster is 32", [](StitchSchedule* s) { s->cluster = 32; }},
      {"unit_threads is 64, must be block_threads", [](StitchSchedule* s) { s->cluster = 2; }},
      {"vector is 0", [](StitchSchedule* s) { s->vector = 0; }},
      {"vector is 3", [](StitchSchedule* s) { s->vector = 3; }},
      {"vector is 32", [](StitchSchedule* s) { s->vector = 32; }},
      {"chunks is 0", [](StitchSchedule* s) { s->chunks = 0; }},
      {"chunks is 33", [](StitchSchedule* s) { s->chunks = 33; }},
      {"split is 3", [](StitchSchedule* s) { s->split = 3; }},
      {"split is 64", [](StitchSchedule* s) { s->split = 64; }},
      {"split is 16", [](StitchSchedule* s) { s->split = 16, s->unit_threads = 8; }},
      {"hold_bytes is -16", [](StitchSchedule* s) { s->hold_bytes = -16; }},
      {"hold_bytes is 24", [](StitchSchedule* s) { s->hold_bytes = 24; }},
      {"hold_bytes is 232464", [](StitchSchedule* s) { s->hold_bytes = 227 * 1024 + 16; }},
      {"hold_bytes is 64, must be 0",
       [](StitchSchedule* s) { s->hold_bytes = 64, s->keep_inputs = false; }},
      {"hold_bytes is 64, must be 0", [](StitchSchedule* s) { s->hold_bytes = 64, s->owner = -1; }},
      {"handed is 9",
       [](StitchSchedule* s) {
         s->handed = {9, 4};
       }},
      {"handed is 4",
       [](StitchSchedule* s) {
         s->handed = {4, 4};
       }},
      {"handed is -1", [](StitchSchedule* s) { s->handed = {-1}; }},
      {"count of handed is 9, must be at most 8",
       [](StitchSchedule* s) { s->handed = {0, 1, 2, 3, 4, 5, 6, 7, 8}; }},
      {"count of handed is 1, must be 0",
       [](StitchSchedule* s) { s->handed = {4}, s->cluster = 2, s->unit_threads = 256; }},
      {"count of handed is 1, must be 0",
       [](StitchSchedule* s) { s->handed = {4}, s->owner = -1; }},
      {"staged is 1, must be 0", [](StitchSchedule* s) { s->staged = true, s->owner = -1; }},
      {"staged is 1, must be 0", [](StitchSchedule* s) { s->staged = true, s->handed = {4}; }},
      {"blocks_per_sm is 0", [](StitchSchedule* s) { s->blocks_per_sm = 0; }},
      {"blocks_per_sm is 33", [](StitchSchedule* s) { s->blocks_per_sm = 33; }},
      {"grid is 0", [](StitchSchedule* s) { s->grid = 0; }},
      {"grid is 1048577", [](StitchSchedule* s) { s->grid = (1 << 20) + 1; }},
      {"grid is 1057",
       [](StitchSchedule* s) { s->grid = 1057, s->cluster = 2, s->unit_threads = 256; }},
  };
  for (const Bad& bad : cases) {
    StitchSchedule s = Sample();
    bad.damage(&s);
    EXPECT_TRUE(Says(CheckStitchFields(s), bad.message));
    const absl::StatusOr<StitchSchedule> read = StitchSchedule::FromCanonical(s.Canonical());
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << bad.message;
  }
}

TEST(StitchSchedule, BytesThatAreNoScheduleAreDataLoss) {
  const std::string bytes = Sample().Canonical();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(StitchSchedule::FromCanonical(bytes.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_EQ(StitchSchedule::FromCanonical(bytes + "x").status().code(),
            absl::StatusCode::kDataLoss);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const absl::StatusOr<StitchSchedule> read = StitchSchedule::FromCanonical(flipped);
    if (read.ok()) {
      EXPECT_TRUE(CheckStitchFields(*read).ok()) << bit;
      EXPECT_EQ(read->Canonical(), flipped) << "bit " << bit << " is lost";
    }
  }
}

}  // namespace
}  // namespace sinter
