#include "runtime/query/model_choice.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

DeviceInfo H200() {
  FakeDriver fake;
  return *QueryDevice(*OpenFake(fake));
}

// Each figure is another one, so that none is taken for another.
TEST(DeviceQuery, ReportsTheChip) {
  sinter::FakeChip chip{.name = "NVIDIA H999",
                        .cc_major = 9,
                        .cc_minor = 3,
                        .sm_count = 101,
                        .l2_bytes = 50331648,
                        .clock_khz = 1755000,
                        .shared_bytes = 200704,
                        .memory_bytes = size_t{77} << 30};
  FakeDriver fake({sinter::FakeChip(), chip});
  const DeviceInfo info = Got(QueryDevice(*OpenFake(fake, 1)));
  EXPECT_EQ(info.name, "NVIDIA H999");
  EXPECT_EQ(info.Arch(), "sm_93");
  EXPECT_EQ(info.sm_count, 101);
  EXPECT_EQ(info.l2_bytes, 50331648);
  EXPECT_EQ(info.clock_mhz, 1755);
  EXPECT_EQ(info.memory_bytes, int64_t{77} << 30);
  EXPECT_EQ(info.driver_version, 13000);
  EXPECT_EQ(info.shared_bytes_per_block, 200704);
}

TEST(DeviceQuery, AFigureThatTheDriverWithholdsIsAnError) {
  FakeDriver fake;
  const auto device = OpenFake(fake);
  for (int call = 1;; ++call) {
    fake.FailCall(call, CUDA_ERROR_UNKNOWN);
    const absl::StatusOr<DeviceInfo> info = QueryDevice(*device);
    if (info.ok()) {
      EXPECT_GE(call, 5);  // four calls ask for figures
      break;
    }
    EXPECT_FALSE(info.status().message().empty());
  }
}

TEST(ModelChoice, AKnownChipGetsItsModelUnchangedWhateverTheDriverSays) {
  DeviceInfo info = H200();
  info.clock_mhz = 1500;
  info.l2_bytes = 50 << 20;
  const auto choice = Got(ChooseModel(info));
  EXPECT_EQ(choice.warning, "");
  EXPECT_EQ(choice.model.ModelDigest(), BuiltinModel("h200")->ModelDigest());
}

TEST(ModelChoice, AnotherHopperGetsTheNearestModelAdaptedAndOneWarning) {
  const struct {
    const char* name;
    int sm_count;
    const char* base;
  } rows[] = {
      {"NVIDIA GH200 480GB", 132, "h200"},
      {"NVIDIA H100 PCIe", 114, "h100"},
      {"NVIDIA H20", 78, "h200"},
      {"NVIDIA H200 MIG 3g.71gb", 60, "h200"},
  };
  for (const auto& row : rows) {
    DeviceInfo info = H200();
    info.name = row.name;
    info.sm_count = row.sm_count;
    info.l2_bytes = 40 << 20;
    info.clock_mhz = 1700;
    const auto choice = Got(ChooseModel(info));
    EXPECT_THAT(choice.warning, HasSubstr(row.name));
    EXPECT_EQ(choice.warning.find('\n'), std::string::npos);
    const DeviceModel& model = choice.model;
    EXPECT_EQ(model.name, std::string(row.base) + "-adapted");
    EXPECT_FALSE(model.measured);
    EXPECT_EQ(model.sm_count, row.sm_count);
    EXPECT_EQ(model.l2_bytes, 40 << 20);
    EXPECT_EQ(model.clock_mhz, 1700);
    EXPECT_EQ(model.provenance.at("clock_mhz").ToText(), "architecture");
    EXPECT_EQ(model.provenance.at("stitch_read_us").ToText(), "fitted from h200");
    EXPECT_EQ(model.provenance.at("launch_us").ToText(), "measured from h200");
    for (size_t i = 0; i < kClusterSizes.size(); ++i) {
      EXPECT_LE(model.resident_clusters[i] * kClusterSizes[i], row.sm_count);
    }
    EXPECT_TRUE(DeviceModel::FromText(model.ToText()).ok());
  }
}

TEST(ModelChoice, ANamedModelIsTakenAsItIs) {
  DeviceModel model = *BuiltinModel("h200");
  model.name = "mine";
  model.shared_bytes_per_block /= 2;  // less is what a device has, too
  EXPECT_EQ(Got(NamedModel(model.ToText(), H200())).ToText(), model.ToText());
}

TEST(ModelChoice, AModelOfAnotherDeviceIsRefusedNamingTheField) {
  DeviceModel model = *BuiltinModel("h200");
  const auto why = [&] { return Text(NamedModel(model.ToText(), H200()).status()); };
  model.shared_bytes_per_block += 1024;
  EXPECT_THAT(why(), HasSubstr("shared_bytes_per_block = 233472"));
  model.sm_count = 140;
  EXPECT_THAT(why(), HasSubstr("device model h200: sm_count = 140, the device"));
  EXPECT_EQ(NamedModel(model.ToText(), H200()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  model.arch = "sm_100a";
  EXPECT_THAT(why(), HasSubstr("arch = sm_100a"));
  EXPECT_EQ(NamedModel("sm_count = 132", H200()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

DeviceInfo Chip(const char* name, int capability, int sm_count) {
  DeviceInfo info = H200();
  info.name = name;
  info.cc_major = capability / 10;
  info.cc_minor = capability % 10;
  info.sm_count = sm_count;
  return info;
}

TEST(ModelChoice, AnotherArchitectureIsRefusedByName) {
  for (const int capability : {75, 93, 130}) {
    const auto choice = ChooseModel(Chip("NVIDIA T4", capability, 40));
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        Text(choice.status()),
        HasSubstr(absl::StrCat("device 'NVIDIA T4': arch = \"sm_", capability,
                               "\", must be sm_90a, or, for stitched kernels and products only,")));
  }
}

TEST(ModelChoice, AChipOfADataSheetGetsItsModel) {
  const struct {
    const char *name, *model;
    int capability, sm_count;
  } rows[] = {
      {"NVIDIA A100-SXM4-80GB", "a100", 80, 108},
      {"NVIDIA A10", "a10", 86, 72},
      {"NVIDIA L4", "l4", 89, 58},
      {"NVIDIA L40S", "l40s", 89, 142},
      {"NVIDIA GeForce RTX 4090", "rtx-4090", 89, 128},
      {"NVIDIA B200", "b200", 100, 148},
      {"NVIDIA GeForce RTX 5090", "rtx-5090", 120, 170},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", 120, 188},
      {"NVIDIA GB10", "gb10", 121, 48},
  };
  for (const auto& row : rows) {
    const auto choice = Got(ChooseModel(Chip(row.name, row.capability, row.sm_count)), row.name);
    EXPECT_EQ(choice.warning, "") << row.name;
    EXPECT_EQ(choice.model.ModelDigest(), BuiltinModel(row.model)->ModelDigest()) << row.name;
  }
}

TEST(ModelChoice, AChipWithoutADataSheetGetsThatOfTheNearestArchitecture) {
  const struct {
    const char *name, *model, *arch;
    int capability, sm_count;
  } rows[] = {
      {"NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-adapted", "sm_89", 89, 76},
      {"NVIDIA GeForce RTX 3090", "a10-adapted", "sm_86", 86, 82},
      {"NVIDIA GeForce RTX 4060", "l4-adapted", "sm_89", 89, 24},
      {"Orin", "a10-adapted", "sm_87", 87, 16},
      {"NVIDIA B300", "b200-adapted", "sm_103", 103, 148},
      {"NVIDIA GB200", "b200-adapted", "sm_100", 100, 152},
      {"NVIDIA H100 of a kind that reports 8.9", "rtx-4090-adapted", "sm_89", 89, 132},
  };
  for (const auto& row : rows) {
    DeviceInfo info = Chip(row.name, row.capability, row.sm_count);
    info.shared_bytes_per_block = 64 << 10;
    const auto choice = Got(ChooseModel(info), row.name);
    EXPECT_THAT(choice.warning, HasSubstr("no model of its own")) << row.name;
    EXPECT_EQ(choice.model.name, row.model) << row.name;
    EXPECT_EQ(choice.model.arch, row.arch) << row.name;
    EXPECT_EQ(choice.model.sm_count, row.sm_count) << row.name;
    EXPECT_EQ(choice.model.shared_bytes_per_block, 64 << 10) << row.name;
    EXPECT_EQ(choice.model.ResidentBlocks(2), 0) << row.name;
    EXPECT_TRUE(DeviceModel::FromText(choice.model.ToText()).ok()) << row.name;
  }
}

// The driver translates PTX for the chip and for later ones.
TEST(ModelChoice, AModelOfPtxDescribesEveryLaterChipWithItsSms) {
  DeviceModel model = *BuiltinModel("a100");
  model.arch = "compute_80";
  EXPECT_EQ(Got(NamedModel(model.ToText(), H200())).ToText(), model.ToText());
  EXPECT_TRUE(NamedModel(model.ToText(), Chip("NVIDIA A100-SXM4-80GB", 80, 108)).ok());
  EXPECT_THAT(Text(NamedModel(model.ToText(), Chip("NVIDIA A30", 80, 56)).status()),
              HasSubstr("sm_count = 108, the device 'NVIDIA A30' has 56"));
  model.arch = "compute_100";
  EXPECT_THAT(Text(NamedModel(model.ToText(), H200()).status()),
              HasSubstr("arch = compute_100, the device 'NVIDIA H200' has sm_90a"));
}

TEST(ModelChoice, ADriverThatReportsNonsenseIsRefused) {
  DeviceInfo info = H200();
  info.sm_count = 0;
  EXPECT_EQ(ChooseModel(info).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sinter
