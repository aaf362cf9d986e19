#include "runtime/query/model_choice.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

DeviceInfo H200() {
  FakeDriver fake;
  return *QueryDevice(*OpenFake(fake));
}

// Each figure is another one, so that none is taken for another.
TEST(DeviceQuery, ReportsTheChip) {
  sinter::FakeChip chip;
  chip.name = "NVIDIA H999";
  chip.cc_major = 9;
  chip.cc_minor = 3;
  chip.sm_count = 101;
  chip.l2_bytes = 50331648;
  chip.clock_khz = 1755000;
  chip.shared_bytes = 200704;
  chip.memory_bytes = size_t{77} << 30;
  FakeDriver fake({sinter::FakeChip(), chip});
  const auto device = OpenFake(fake, 1);
  const DeviceInfo info = Got(QueryDevice(*device));
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
  const auto named = Got(NamedModel(model.ToText(), H200()));
  EXPECT_EQ(named.ToText(), model.ToText());
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

TEST(ModelChoice, AnotherArchitectureIsRefusedByName) {
  for (const auto& [major, minor] : std::vector<std::pair<int, int>>{{8, 0}, {8, 9}, {10, 0}}) {
    DeviceInfo info = H200();
    info.cc_major = major;
    info.cc_minor = minor;
    const auto choice = ChooseModel(info);
    EXPECT_EQ(choice.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(choice.status()), HasSubstr(info.Arch()));
  }
}

TEST(ModelChoice, ADriverThatReportsNonsenseIsRefused) {
  DeviceInfo info = H200();
  info.sm_count = 0;
  EXPECT_EQ(ChooseModel(info).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sinter
