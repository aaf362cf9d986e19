#include "src/base/device_model.h"

#include <clocale>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sinter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DeviceModel H200() { return BuiltinModel("h200").value(); }

TEST(BuiltinModels, AreNamedAndMarked) {
  EXPECT_THAT(BuiltinModelNames(), ElementsAre("h200", "h100"));
  EXPECT_TRUE(BuiltinModel("h200")->measured);
  EXPECT_FALSE(BuiltinModel("h100")->measured);
  for (const std::string& name : BuiltinModelNames()) {
    EXPECT_EQ(BuiltinModel(name)->name, name);
    EXPECT_EQ(BuiltinModel(name)->arch, "sm_90a");
  }
  EXPECT_NE(BuiltinModel("h200")->ModelDigest(), BuiltinModel("h100")->ModelDigest());
}

TEST(BuiltinModels, UnknownNameListsWhatThereIs) {
  const absl::Status status = BuiltinModel("b200").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("h200, h100"));
}

TEST(DeviceModel, ResidentBlocksFollowTheTable) {
  const DeviceModel model = H200();
  EXPECT_EQ(model.ResidentBlocks(1), 132);
  EXPECT_EQ(model.ResidentBlocks(2), 132);
  EXPECT_EQ(model.ResidentBlocks(4), 120);
  EXPECT_EQ(model.ResidentBlocks(8), 120);
  EXPECT_EQ(model.ResidentBlocks(16), 112);
  for (int bad : {0, -1, 3, 32}) EXPECT_EQ(model.ResidentBlocks(bad), 0) << bad;
}

TEST(DeviceModel, ClusterIndexKnowsFiveSizes) {
  for (size_t i = 0; i < kClusterSizes.size(); ++i) {
    EXPECT_EQ(ClusterIndex(kClusterSizes[i]), static_cast<int>(i));
  }
  EXPECT_EQ(ClusterIndex(3), -1);
}

TEST(DeviceModel, TextRoundTripsExactly) {
  DeviceModel model = H200();
  model.hbm_bytes_per_us = 4.55e6 / 3;  // no short decimal
  model.drain_us = 0.1 + 0.2;
  const std::string text = model.ToText();
  const absl::StatusOr<DeviceModel> back = DeviceModel::FromText(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->hbm_bytes_per_us, model.hbm_bytes_per_us);
  EXPECT_EQ(back->drain_us, model.drain_us);
  EXPECT_EQ(back->ToText(), text);
  EXPECT_EQ(back->ModelDigest(), model.ModelDigest());
}

TEST(DeviceModel, DigestSeesEveryLineButNoComment) {
  const std::string text = H200().ToText();
  EXPECT_EQ(DeviceModel::FromText(absl::StrCat("# c\n\n", text))->ModelDigest(),
            H200().ModelDigest());
  DeviceModel other = H200();
  other.stage_us *= 2;
  EXPECT_NE(other.ModelDigest(), H200().ModelDigest());
}

TEST(DeviceModel, TextIgnoresTheLocale) {
  const std::string before = H200().ToText();
  if (std::setlocale(LC_NUMERIC, "de_DE.UTF-8") == nullptr) std::setlocale(LC_NUMERIC, "C.UTF-8");
  EXPECT_EQ(H200().ToText(), before);
  EXPECT_TRUE(DeviceModel::FromText(before).ok());
  std::setlocale(LC_NUMERIC, "C");
}

TEST(DeviceModel, EveryMissingKeyIsAnErrorNamingIt) {
  const std::string text = H200().ToText();
  size_t begin = 0;
  int keys = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin) + 1;
    const std::string key = text.substr(begin, text.find(' ', begin) - begin);
    const absl::Status status =
        DeviceModel::FromText(text.substr(0, begin) + text.substr(end)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("\"", key, "\" is missing")));
    begin = end;
    ++keys;
  }
  EXPECT_EQ(keys, 32);
}

TEST(DeviceModel, BadTextIsAnErrorNamingFieldValueAndBound) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kRows[] = {
      {"sm_count = 132", "sm_count = 0", "sm_count = \"0\", must be an integer in 1..4096"},
      {"sm_count = 132", "sm_count = 1.5", "must be an integer"},
      {"sm_count = 132", "sm_count = 99999999999", "must be an integer"},
      {"sm_count = 132", "sm_count =", "sm_count = \"\""},
      {"sm_count = 132", "sm_count 132", "line 4 is not of the form key = value"},
      {"sm_count = 132", "sm_count = 132\nsm_count = 132", "repeats key \"sm_count\""},
      {"sm_count = 132", "sm_count = 132\nsms = 1", "unknown key \"sms\""},
      {"sm_count = 132", "sm_count = 100", "resident_clusters of size 1 = 132, must fit"},
      {"measured = true", "measured = yes", "must be true or false"},
      {"name = h200", "name = h 200", "letters, digits"},
      {"name = h200", "name = ", "1..64 characters"},
      {"clock_mhz = 1980", "clock_mhz = nan", "clock_mhz = \"nan\", must be a number"},
      {"clock_mhz = 1980", "clock_mhz = inf", "must be a number"},
      {"clock_mhz = 1980", "clock_mhz = -1", "must be a number"},
      {"launch_us = 0.62", "launch_us = 1e300", "must be a number in 0..1e+06"},
      {"launch_us = 0.62", "launch_us = 0.62us", "must be a number"},
      {"resident_clusters = 132 66 30 15 7", "resident_clusters = 132 66 30 15", "5 numbers"},
      {"resident_clusters = 132 66 30 15 7", "resident_clusters = 132 66 30 15 7 3", "5 numbers"},
      {"resident_clusters = 132 66 30 15 7", "resident_clusters = 132 66 x 15 7", "\"x\""},
      {"resident_clusters = 132 66 30 15 7", "resident_clusters = 132 66 30 15 9", "of size 16"},
  };
  for (const auto& row : kRows) {
    const std::string text = absl::StrReplaceAll(H200().ToText(), {{row.from, row.to}});
    ASSERT_NE(text, H200().ToText()) << row.from;
    const absl::Status status = DeviceModel::FromText(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message)) << row.to;
  }
}

TEST(DeviceModel, BoundsTheKeysOfAText) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += absl::StrCat("k", i, " = 1\n");
  EXPECT_EQ(DeviceModel::FromText(text).status().message(),
            "device model: line 257: has more than 256 keys");
}

TEST(DeviceModel, ArbitraryBytesNeverCrash) {
  const std::string text = H200().ToText();
  for (size_t at = 0; at < text.size(); ++at) {
    for (char byte : {'\0', '\n', '=', '#', '\xff', '9'}) {
      std::string damaged = text;
      damaged[at] = byte;
      const absl::StatusOr<DeviceModel> model = DeviceModel::FromText(damaged);
      EXPECT_TRUE(!model.ok() || DeviceModel::FromText(model->ToText()).ok()) << damaged;
    }
    const absl::StatusOr<DeviceModel> cut = DeviceModel::FromText(text.substr(0, at));
    EXPECT_TRUE(!cut.ok() || at > text.rfind(' ')) << at;  // only the last number may be shortened
  }
}

}  // namespace
}  // namespace sinter
