#include "absl/strings/escaping.h"
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

TEST(PlanKeyTest, EveryFieldChangesTheKey) {
  const std::vector<void (*)(PlanKey*)> changes = {
      [](PlanKey* k) { ++k->format_version; },
      [](PlanKey* k) { k->chain += "x"; },
      [](PlanKey* k) { k->bucket = 128; },
      [](PlanKey* k) { k->device_model = Sha256("h100"); },
      [](PlanKey* k) { k->library_version = "0.1.1"; },
      [](PlanKey* k) { ++k->search_version; },
      [](PlanKey* k) { k->flags ^= uint64_t{1} << 63; },
      [](PlanKey* k) { k->tuning_set = Digest(); },
  };
  std::set<std::string> seen = {EncodeKey(SamplePlanKey())};
  for (const auto& change : changes) {
    PlanKey key = SamplePlanKey();
    change(&key);
    EXPECT_TRUE(seen.insert(EncodeKey(key)).second);
  }
  EXPECT_EQ(seen.size(), 9u);
}

TEST(KernelKeyTest, EveryFieldChangesTheKey) {
  const std::vector<void (*)(KernelKey*)> changes = {
      [](KernelKey* k) { ++k->format_version; },
      [](KernelKey* k) { k->code += "x"; },
      [](KernelKey* k) { k->schedule += "x"; },
      [](KernelKey* k) { k->device_headers = Digest(); },
      [](KernelKey* k) { k->arch = "sm_90"; },
      [](KernelKey* k) { k->options.push_back("-G"); },
      [](KernelKey* k) { std::swap(k->options[0], k->options[1]); },
      [](KernelKey* k) { k->options = {"-O3--std=c++17"}; },
      [](KernelKey* k) { k->options.clear(); },
      [](KernelKey* k) { k->toolchain_id += "0"; },
      [](KernelKey* k) { k->source.bytes[0] ^= 1; },
  };
  std::set<std::string> seen = {EncodeKey(SampleKernelKey())};
  for (const auto& change : changes) {
    KernelKey key = SampleKernelKey();
    change(&key);
    EXPECT_TRUE(seen.insert(EncodeKey(key)).second);
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(KernelKeyTest, BytesDoNotMoveBetweenNeighbouringFields) {
  KernelKey a = SampleKernelKey(), b = SampleKernelKey();
  a.code = "ab", a.schedule = "c";
  b.code = "a", b.schedule = "bc";
  EXPECT_NE(EncodeKey(a), EncodeKey(b));
}

// A change of these bytes orphans every cache in the field: it must be meant, and kKeyVersion must
// rise with it.
TEST(KeyTest, GoldenBytes) {
  PlanKey plan{.format_version = 1,
               .chain = "c",
               .bucket = 8,
               .library_version = "0.1.0",
               .search_version = 2,
               .flags = 1};
  const std::string zeros(64, '0');
  EXPECT_EQ(absl::BytesToHexString(EncodeKey(plan)),
            absl::StrCat("534e54524b455950", "02000000", "01000000", "0100000000000000", "63",
                         "0800000000000000", zeros, "0500000000000000", "302e312e30", "02000000",
                         "0100000000000000", zeros));
  EXPECT_EQ(absl::BytesToHexString(EncodeKey({.format_version = 1,
                                              .code = "d",
                                              .schedule = "s",
                                              .arch = "sm_90a",
                                              .options = {"-O3"},
                                              .toolchain_id = "t"})),
            absl::StrCat("534e54524b45594b", "02000000", "01000000", "0100000000000000", "64",
                         "0100000000000000", "73", zeros, "0600000000000000", "736d5f393061",
                         "0100000000000000", "0300000000000000", "2d4f33", "0100000000000000", "74",
                         zeros));
}

TEST(KeyTest, DecodesWhatItEncoded) {
  const std::string plan = EncodeKey(SamplePlanKey());
  const std::string kernel = EncodeKey(SampleKernelKey());
  const auto plan_back = DecodePlanKey(plan);
  const auto kernel_back = DecodeKernelKey(kernel);
  ASSERT_TRUE(plan_back.ok()) << plan_back.status();
  ASSERT_TRUE(kernel_back.ok()) << kernel_back.status();
  EXPECT_EQ(EncodeKey(*plan_back), plan);
  EXPECT_EQ(EncodeKey(*kernel_back), kernel);
  EXPECT_FALSE(DecodePlanKey(kernel).ok());
  EXPECT_FALSE(DecodeKernelKey(plan).ok());
  EXPECT_EQ(ArchOfKey(kernel), "sm_90a");
  EXPECT_EQ(ArchOfKey(plan), "");
  EXPECT_EQ(ArchOfKey("anything"), "");
}

TEST(KeyTest, RefusesEveryTruncationAndSuffix) {
  const std::string plan = EncodeKey(SamplePlanKey());
  const std::string kernel = EncodeKey(SampleKernelKey());
  for (size_t n = 0; n < plan.size(); ++n) EXPECT_FALSE(DecodePlanKey(plan.substr(0, n)).ok());
  for (size_t n = 0; n < kernel.size(); ++n)
    EXPECT_FALSE(DecodeKernelKey(kernel.substr(0, n)).ok());
  EXPECT_FALSE(DecodePlanKey(plan + "x").ok());
  EXPECT_FALSE(DecodeKernelKey(kernel + "x").ok());
}

TEST(KeyTest, RefusesAnotherKeyVersion) {
  std::string plan = EncodeKey(SamplePlanKey());
  plan[8] = static_cast<char>(kKeyVersion + 1);
  const auto got = DecodePlanKey(plan);
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(std::string(got.status().message()), testing::HasSubstr("key version 3, want 2"));
}

}  // namespace
}  // namespace sinter
