#include "src/base/arch.h"

#include "tests/support/small_cubin.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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
