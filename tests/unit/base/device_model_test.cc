#include "src/base/device_model.h"

#include <clocale>

#include "absl/strings/ascii.h"
#include "src/base/arch.h"
#include "src/base/data_sheets.h"
#include "tests/support/chips.h"
#include "tests/support/refusals.h"
#include "tests/support/small_cubin.h"

namespace sinter {
namespace {

TEST(BuiltinModels, AreNamedAndMarked) {
  EXPECT_THAT(BuiltinModelNames(),
              ElementsAre("h200", "h100", "a100", "a10", "l4", "l40s", "rtx-4090", "b200",
                          "rtx-5090", "rtx-pro-6000", "gb10"));
  std::set<Digest> digests;
  for (const std::string& name : BuiltinModelNames()) {
    const DeviceModel model = Got(BuiltinModel(absl::AsciiStrToUpper(name)), name);
    EXPECT_EQ(model.name, name);
    EXPECT_EQ(model.measured, name == "h200");
    EXPECT_EQ(model.arch == "sm_90a", name[0] == 'h') << name;
    EXPECT_TRUE(digests.insert(model.ModelDigest()).second) << name;
  }
}

TEST(BuiltinModels, OfDataSheetsPlanNoClustersAndSayWhereFiguresComeFrom) {
  for (const std::string& name : DataSheetNames()) {
    const DeviceModel model = *BuiltinModel(name);
    const DeviceModel again = Got(DeviceModel::FromText(model.ToText()), name);
    EXPECT_EQ(again.ToText(), model.ToText()) << "its text is a model file";
    EXPECT_EQ(model.resident_clusters, (std::array<int, 5>{model.sm_count, 0, 0, 0, 0})) << name;
    EXPECT_LT(model.shared_bytes_per_block, model.shared_bytes_per_sm) << name;
    for (const auto& [key, provenance] : model.provenance) {
      const bool told = provenance.ToText() == "architecture";
      EXPECT_TRUE(told || provenance.from == "h200") << name << " " << key << ": unmeasured";
    }
    EXPECT_EQ(model.provenance.at("hbm_bytes_per_us").ToText(), "architecture") << name;
    EXPECT_EQ(model.provenance.at("stitch_read_us").ToText(), "fitted from h200") << name;
    EXPECT_EQ(model.programmatic_edge_us == 0, !FeaturesOf(model.arch)->early_launch) << name;
  }
}

TEST(DeviceModel, AChipWithoutClustersHasNoneResident) {
  DeviceModel model = *BuiltinModel("a100");
  model.resident_clusters[2] = 4;
  const absl::Status status = DeviceModel::FromText(model.ToText()).status();
  EXPECT_EQ(status.message(),
            "device model: resident_clusters of size 4 = 4, must be 0: sm_80 has no clusters");
}

TEST(BuiltinModels, UnknownNameListsWhatThereIs) {
  EXPECT_TRUE(Fails(BuiltinModel("b300"), absl::StatusCode::kNotFound, "h200, h100"));
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
  const DeviceModel back = Got(DeviceModel::FromText(text));
  EXPECT_EQ(back.hbm_bytes_per_us, model.hbm_bytes_per_us);
  EXPECT_EQ(back.drain_us, model.drain_us);
  EXPECT_EQ(back.ToText(), text);
  EXPECT_EQ(back.ModelDigest(), model.ModelDigest());
}

// Plans depend only on values.
TEST(DeviceModel, DigestSeesEveryValueButNoCommentAndNoProvenance) {
  const std::string text = H200().ToText();
  EXPECT_EQ(DeviceModel::FromText(absl::StrCat("# c\n\n", text))->ModelDigest(),
            H200().ModelDigest());
  const std::string taken = absl::StrReplaceAll(text, {{"[fitted]", "[measured from mine]"}});
  ASSERT_NE(taken, text);
  EXPECT_EQ(DeviceModel::FromText(taken)->ModelDigest(), H200().ModelDigest());
  for (const auto& [key, provenance] : H200().provenance) {
    DeviceModel other = H200();
    const bool list = key == "dsm_bytes_per_us" || key == "resident_clusters";
    const char* value = list ? "9 9 9 9 9" : key == "shared_bytes_per_block" ? "4096" : "1024";
    for (const char* tried : {value, "1", "0.5", "0.75", "2048", "9"}) {
      if (other.Assign(key, tried, provenance).ok() &&
          other.ModelDigest() != H200().ModelDigest()) {
        break;
      }
    }
    EXPECT_NE(other.ModelDigest(), H200().ModelDigest()) << key;
  }
}

// The whole list, so that a figure that changes its provenance is seen.
TEST(BuiltinModels, SayOfEachFigureWhereItComesFrom) {
  std::map<Origin, int> count;
  for (const auto& [key, provenance] : H200().provenance) {
    ++count[provenance.origin];
    EXPECT_EQ(provenance.from, "") << key << ": the h200 is measured itself";
  }
  EXPECT_EQ(count[Origin::kArchitecture], 13);
  EXPECT_EQ(count[Origin::kMeasured], 15);
  EXPECT_EQ(count[Origin::kFitted], 56);
  const DeviceModel h100 = *BuiltinModel("h100");
  EXPECT_EQ(h100.provenance.size(), H200().provenance.size());
  for (const auto& [key, provenance] : h100.provenance) {
    EXPECT_EQ(provenance.origin, H200().provenance.at(key).origin) << key;
    EXPECT_EQ(provenance.from.empty(), provenance.origin == Origin::kArchitecture) << key;
  }
}

TEST(DeviceModel, AssignSetsAFigureAndItsProvenanceOrNothing) {
  DeviceModel model = H200();
  EXPECT_TRUE(model.Assign("stitch_read_us", "0.75", {Origin::kMeasured, ""}).ok());
  EXPECT_EQ(model.stitch.read_us, 0.75);
  EXPECT_EQ(model.provenance["stitch_read_us"].ToText(), "measured");
  EXPECT_TRUE(model.Assign("dsm_bytes_per_us", "1e6 2e6 3e6 4e6 5e6", {Origin::kFitted, "x"}).ok());
  EXPECT_THAT(model.ToText(), HasSubstr("dsm_bytes_per_us = 1e+06 2e+06 3e+06 4e+06 5e+06 "
                                        "[fitted from x]\n"));
  const std::string before = model.ToText();
  const Provenance measured = {Origin::kMeasured, ""};
  EXPECT_TRUE(Says(model.Assign("dsm_us", "1", measured), "no figure \"dsm_us\""));
  EXPECT_FALSE(model.Assign("name", "mine", measured).ok());
  EXPECT_FALSE(model.Assign("measured", "true", measured).ok());
  EXPECT_FALSE(model.Assign("dsm_bytes_per_us", "1e6 2e6 3e6 4e6 -5e6", measured).ok());
  EXPECT_FALSE(model.Assign("clock_mhz", "nan", measured).ok());
  EXPECT_EQ(model.ToText(), before);
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
    EXPECT_TRUE(
        Fails(status, absl::StatusCode::kInvalidArgument, absl::StrCat("\"", key, "\" is missing")))
        << key;
    begin = end;
    ++keys;
  }
  EXPECT_EQ(keys, 87);
}

TEST(DeviceModel, BadTextIsAnErrorNamingFieldValueAndBound) {
  for (const auto& [change, message] : RefusalsOf("tests/unit/base/bad_models.txt", "models")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(change, " -> ");
    const std::string to = absl::StrReplaceAll(parts.second, {{";", "\n"}});
    const std::string text = absl::StrReplaceAll(H200().ToText(), {{parts.first, to}});
    ASSERT_NE(text, H200().ToText()) << change;
    EXPECT_TRUE(Fails(DeviceModel::FromText(text), absl::StatusCode::kInvalidArgument, message))
        << change;
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
    EXPECT_TRUE(!cut.ok() || at > text.rfind(' ')) << at;  // only the last line may be shortened
  }
}

TEST(Arch, HasTheFeaturesOfItsCapability) {
  const struct {
    const char* arch;
    int capability;
    bool translated, products, clusters, early_launch;
  } rows[] = {
      {"sm_80", 80, false, false, false, false},     {"sm_86", 86, false, false, false, false},
      {"sm_89", 89, false, false, false, false},     {"sm_90", 90, false, false, true, true},
      {"sm_90a", 90, false, true, true, true},       {"sm_100", 100, false, false, true, true},
      {"sm_121", 121, false, false, true, true},     {"compute_80", 80, true, false, false, false},
      {"compute_120", 120, true, false, true, true},
  };
  for (const auto& row : rows) {
    const ArchFeatures features = Got(FeaturesOf(row.arch), row.arch);
    EXPECT_EQ(features.capability, row.capability) << row.arch;
    EXPECT_EQ(features.translated, row.translated) << row.arch;
    EXPECT_EQ(features.products, row.products) << row.arch;
    EXPECT_EQ(features.clusters, row.clusters) << row.arch;
    EXPECT_EQ(features.early_launch, row.early_launch) << row.arch;
  }
}

TEST(Arch, AnyOtherIsRefusedNamingThoseThatThereAre) {
  for (const char* arch : {"", "sm_75", "sm_90b", "sm_100a", "compute_90a", "sm_080", "sm_ 80",
                           "80", "sm_80 ", "sm_999999999999", "compute_sm_80"}) {
    const absl::Status status = FeaturesOf(arch).status();
    EXPECT_TRUE(Fails(status, absl::StatusCode::kInvalidArgument, absl::StrCat("\"", arch, "\"")))
        << arch;
    EXPECT_TRUE(Says(status, "must be sm_90a, or, for stitched"));
  }
}

TEST(Code, IsACubinOrPtxThatEndsInItsOnlyNul) {
  const std::string ptx = "//\n.version 8.0\n.target sm_80\n.visible .entry k(\n)\n{\n}\n";
  EXPECT_TRUE(CheckCode(ptx + '\0').ok());
  EXPECT_TRUE(IsPtx(ptx));
  EXPECT_EQ(CheckCode(ptx).code(), absl::StatusCode::kDataLoss) << "the driver reads to a NUL";
  EXPECT_FALSE(CheckCode(ptx + '\0' + '\0').ok());
  EXPECT_FALSE(CheckCode(std::string(1, '\0') + ptx + '\0').ok());
  EXPECT_FALSE(CheckCode(std::string("//\n.version 8.0\n") + '\0').ok()) << "no target";
  const std::string cubin = SmallCubin("code");
  EXPECT_FALSE(IsPtx(cubin));
  EXPECT_TRUE(CheckCode(cubin).ok());
  EXPECT_FALSE(CheckCode(cubin.substr(1)).ok());
  EXPECT_FALSE(CheckCode("").ok());
}

}  // namespace
}  // namespace sinter
