#include "cache/store/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cache/cache_testing.h"
#include "tests/unit/cache/store_kinds.h"

namespace sinter {
namespace {

using cache_testing::OpenKind;
using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::TempDir;
using cache_testing::WriteFile;

using cache_testing::kKernel;
using cache_testing::kPlan;

TEST(ConvertTest, StoresHaveNames) {
  EXPECT_EQ(*LocalStoreKindFromName("tables"), LocalStoreKind::kTables);
  EXPECT_EQ(*LocalStoreKindFromName("leveldb-db"), LocalStoreKind::kDatabase);
  EXPECT_TRUE(absl::IsInvalidArgument(LocalStoreKindFromName("lmdb").status()));
}

TEST(ConvertTest, GoesThereAndBackWithoutLoss) {
  TempDir temp;
  const std::string one = temp / "one", two = temp / "two";
  const auto key = [](int i) { return absl::StrCat("key ", i); };
  {
    const auto tables = OpenKind(LocalStoreKind::kTables, one);
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(tables->Put(kKernel, key(i), Sha256(key(i)), RandomBytes(5000, i)).ok());
    }
    ASSERT_TRUE(tables->Put(kPlan, "p", Sha256("p"), "plan").ok());
    ASSERT_TRUE(tables->Quarantine(kKernel, Sha256("wrong"), "seed 9").ok());
    WriteFile(PathIn(one, kKernel, key(29)), "damage");
  }
  const struct {
    LocalStoreKind from, to;
    std::string from_root, to_root;
    bool remove;
  } steps[] = {
      {LocalStoreKind::kTables, LocalStoreKind::kDatabase, one, two, false},
      {LocalStoreKind::kDatabase, LocalStoreKind::kTables, two, two, true},  // in place
      {LocalStoreKind::kTables, LocalStoreKind::kDatabase, two, two, true},
  };
  for (const auto& step : steps) {
    const auto from = OpenKind(step.from, step.from_root), to = OpenKind(step.to, step.to_root);
    const auto report = ConvertStore(from.get(), to.get(), step.remove);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->records, 30u);
    EXPECT_EQ(report->tombstones, 1u);
    EXPECT_EQ(report->failed, 0u) << report->first_failure;
    EXPECT_EQ(report->unsound, step.from_root == one ? 1u : 0u);
    EXPECT_EQ(report->removed, step.remove ? 30u : 0u);
    EXPECT_EQ(from->List()->size(), step.remove ? 0u : 31u);
    for (int i = 0; i < 29; ++i) {
      EXPECT_EQ(to->Get(kKernel, key(i), Sha256(key(i))).payload, RandomBytes(5000, i));
    }
    EXPECT_EQ(to->Get(kPlan, "p", Sha256("p")).payload, "plan");
    EXPECT_EQ(to->Get(kKernel, "wrong", Sha256("wrong")).reason, MissReason::kQuarantined);
  }
}

TEST(ConvertTest, AStoreThatCannotBeUsedIsSaid) {
  TempDir temp;
  const auto owner = OpenKind(LocalStoreKind::kDatabase, temp / "root");
  const auto second = OpenKind(LocalStoreKind::kDatabase, temp / "root");
  const auto tables = OpenKind(LocalStoreKind::kTables, temp / "root");
  EXPECT_TRUE(absl::IsAborted(ConvertStore(second.get(), tables.get(), false).status()));
  EXPECT_TRUE(absl::IsAborted(ConvertStore(tables.get(), second.get(), false).status()));
}

}  // namespace
}  // namespace sinter
