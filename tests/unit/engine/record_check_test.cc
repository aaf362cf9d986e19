// Records that lie: refused as counted misses with a reason, mended, and never handed on.
#include "src/engine/record_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cache/key/key.h"
#include "src/base/status.h"
#include "src/engine/tuned_choice.h"
#include "src/plan/kernel_code.h"
#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::FakeWorld;
using ::testing::HasSubstr;

constexpr int kDamaged = static_cast<int>(MissReason::kDamaged);

// A world that another process has warmed for 16 rows.
class RecordCheckTest : public ::testing::Test {
 protected:
  RecordCheckTest() {
    EXPECT_TRUE(world_.MakeEngine()->Prepare(world_.chain, 16, {}).ok());
    plan_key_ = world_.disk->Keys(RecordKind::kPlan).front();
    sound_ = Payload(RecordKind::kPlan, plan_key_);
    plans_ = world_.plans;
    compiles_ = world_.compiles;
  }

  std::string& Payload(RecordKind kind, const std::string& key) {
    return world_.disk->records[{kind, key}];
  }
  PlanRecord Record() { return DecodePlanRecord(sound_).value(); }
  // With the digests that its keys have.
  static std::string Encoded(PlanRecord record) {
    for (PlanVariant& variant : record.variants) {
      for (size_t i = 0; i < variant.kernel_keys.size(); ++i) {
        variant.plan.kernels[i].kernel_digest = Sha256(variant.kernel_keys[i]);
      }
    }
    return EncodePlanRecord(record);
  }
  void Store(const PlanRecord& record) { Payload(RecordKind::kPlan, plan_key_) = Encoded(record); }
  Plan Chosen() { return Record().variants.front().plan; }

  // Prepares with what lies there: the plan is made again for `why`, counted, and mended.
  void ExpectRefused(const std::string& why) {
    EXPECT_FALSE(
        world_.MakeEngine()
            ->CheckStored(RecordKind::kPlan, plan_key_, Payload(RecordKind::kPlan, plan_key_))
            .ok());
    world_.log.clear();
    const auto engine = world_.MakeEngine();
    ASSERT_TRUE(engine->Prepare(world_.chain, 16, {}).ok());
    EXPECT_EQ(world_.plans, plans_ + 1);
    EXPECT_EQ(world_.compiles, compiles_) << "its kernels are there";
    EXPECT_EQ(engine->Stats().store.misses[kDamaged], 1u);
    EXPECT_THAT(world_.log, Contains(AllOf(HasSubstr("is made again"), HasSubstr(why))));
    EXPECT_EQ(Payload(RecordKind::kPlan, plan_key_), sound_) << "mended";
  }

  FakeWorld world_;
  std::string plan_key_, sound_;
  int plans_ = 0, compiles_ = 0;
};

TEST_F(RecordCheckTest, WhatAnotherProcessLeftIsTaken) {
  const auto engine = world_.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world_.chain, 16, {}).ok());
  EXPECT_EQ(world_.plans, plans_);
  EXPECT_EQ(engine->Stats().store.misses[kDamaged], 0u);
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kKernel}) {
    for (const std::string& key : world_.disk->Keys(kind)) {
      EXPECT_TRUE(engine->CheckStored(kind, key, Payload(kind, key)).ok())
          << engine->CheckStored(kind, key, Payload(kind, key));
    }
  }
}

TEST_F(RecordCheckTest, ADigestThatIsNotItsKeys) {
  PlanRecord record = Record();
  record.variants.front().plan.kernels[0].kernel_digest.bytes[0] ^= 1;
  Payload(RecordKind::kPlan, plan_key_) = EncodePlanRecord(record);
  ExpectRefused("a kernel's digest is not that of its key");
}

TEST_F(RecordCheckTest, AnOperandBehindItsBuffer) {
  PlanRecord record = Record();
  record.variants.front().plan.kernels[0].spec.operands[0].offset_bytes = uint64_t{1} << 40;
  Store(record);
  ExpectRefused("a: 1024 bytes at 1099511627776 lie outside buffer 0 of 1024 bytes");
}

// What source holds as a literal is the key's.
TEST_F(RecordCheckTest, AnOutputOfAnotherStride) {
  PlanRecord record = Record();
  OperandBinding& out = record.variants.front().plan.kernels[0].spec.operands[3];
  ASSERT_EQ(out.role, Role::kOut);
  out.row_stride += 8;
  Store(record);
  ExpectRefused("kernel key: its code is another kernel's");
}

// With keys that were made for the lie.
TEST_F(RecordCheckTest, AnOutputOfAnotherStrideAndTheKeyToIt) {
  PlanRecord record = Record();
  PlanVariant& variant = record.variants.front();
  KernelSpec& spec = variant.plan.kernels[0].spec;
  spec.operands[3].row_stride += 8;
  KernelKey key = DecodeKernelKey(variant.kernel_keys[0]).value();
  key.code = CodeOf(spec)->Bytes();
  variant.kernel_keys[0] = EncodeKey(key);
  Store(record);
  ExpectRefused("out: ");
}

// A grid is no part of a key: whether it may run is the plan's judge's to say.
TEST_F(RecordCheckTest, MoreBlocksThanAreResident) {
  PlanRecord record = Record();
  record.variants.front().plan.kernels[0].spec.schedule.grid *= 2;
  Store(record);
  ExpectRefused("grid 240 is above the");
}

TEST_F(RecordCheckTest, AVariantThatStandsIn) {
  PlanRecord record = Record();
  record.variants.back().plan.workspace_bytes = uint64_t{1} << 40;
  Store(record);
  ExpectRefused("plan 'unfused': workspace_bytes");
}

TEST_F(RecordCheckTest, AnotherChainsRecord) {
  PlanRecord record = Record();
  record.chain.bytes[0] ^= 1;
  Store(record);
  ExpectRefused("for chain");
}

TEST_F(RecordCheckTest, AnotherBucketsRecord) {
  PlanRecord record = Record();
  record.bucket = 32;
  Store(record);
  ExpectRefused("at bucket 32");
}

// Compiled otherwise than asked for: what it computes need not have the order of rows.
TEST_F(RecordCheckTest, AKeyOfOtherOptions) {
  PlanRecord record = Record();
  PlanVariant& variant = record.variants.front();
  KernelKey key = DecodeKernelKey(variant.kernel_keys[0]).value();
  key.options = {"--use_fast_math"};
  variant.kernel_keys[0] = EncodeKey(key);
  Store(record);
  ExpectRefused("kernel key: its options is another kernel's");
}

TEST_F(RecordCheckTest, WithoutTheUnfusedPlan) {
  PlanRecord record = Record();
  ASSERT_FALSE(record.variants.back().plan.fused);
  record.variants.pop_back();
  Store(record);
  ExpectRefused("without the unfused plan");
}

TEST_F(RecordCheckTest, WithItsNamesSwapped) {
  PlanRecord record = Record();
  for (PlanVariant& variant : record.variants) variant.plan.fused = !variant.plan.fused;
  Store(record);
  ExpectRefused("its unfused plan is fused");
}

// Counted before it is decoded: its first plan is no plan at all.
TEST_F(RecordCheckTest, MoreKernelsThanOps) {
  const uint64_t ops = world_.chain.ops().size();
  EXPECT_TRUE(DecodePlanRecord(sound_, {ops, nullptr}).ok());
  PlanRecord record = Record();
  PlanVariant& variant = record.variants.front();
  variant.plan.kernels.assign(ops + 1, variant.plan.kernels[0]);
  variant.kernel_keys.assign(ops + 1, variant.kernel_keys[0]);
  Store(record);
  ExpectRefused(absl::StrCat(ops + 1, " kernels, at most ", ops));
}

TEST_F(RecordCheckTest, ARecordThatIsTooLarge) {
  PlanRecord record = Record();
  record.tuning.assign(kMostPlanRecordBytes, 'x');
  Store(record);
  ExpectRefused("bytes, at most 16777216");
}

TEST_F(RecordCheckTest, AReaderThatMayNotGoOnIsObeyedBetweenPlans) {
  class Stopping : public KeepGoing {
   public:
    absl::Status Check() const override {
      return ++asked < 2 ? absl::OkStatus() : absl::DeadlineExceededError("enough");
    }
    mutable int asked = 0;
  } stopping;
  EXPECT_TRUE(absl::IsDeadlineExceeded(DecodePlanRecord(sound_, {64, &stopping}).status()));
  EXPECT_EQ(stopping.asked, 2);
}

// At export, where there is time to make sources.
TEST_F(RecordCheckTest, NoPackTakesAKeyOfAnotherSource) {
  PlanRecord record = Record();
  KernelKey key = DecodeKernelKey(record.variants.front().kernel_keys[0]).value();
  key.source.bytes[8] ^= 1;
  record.variants.front().kernel_keys[0] = EncodeKey(key);
  EXPECT_THAT(
      world_.MakeEngine()->CheckStored(RecordKind::kPlan, plan_key_, Encoded(record)).message(),
      HasSubstr("its source is another kernel's"));
}

TEST_F(RecordCheckTest, ADamagedRecordIsCountedToo) {
  Payload(RecordKind::kPlan, plan_key_).resize(sound_.size() / 2);
  ExpectRefused("record");
}

TEST_F(RecordCheckTest, UnderMustHitItIsAMiss) {
  PlanRecord record = Record();
  record.variants.front().plan.workspace_bytes = uint64_t{1} << 40;
  Store(record);
  PrepareOptions options;
  options.must_hit = true;
  const absl::Status status = world_.MakeEngine()->Prepare(world_.chain, 16, options).status();
  EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kCacheMiss)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("workspace_bytes 1099511627776 is above"));
  EXPECT_EQ(world_.plans, plans_);
}

// The attack: the plan's kernels get the keys of others, whose records are gone. What is then
// compiled must not lie under those keys when the plan record is mended.
TEST_F(RecordCheckTest, KeysOfOtherKernels) {
  PlanRecord record = Record();
  PlanVariant &grid = record.variants[0], &cluster = record.variants[1];
  const std::string innocent = cluster.kernel_keys[0];
  ASSERT_EQ(grid.kernel_keys.size(), 1u);
  grid.kernel_keys[0] = innocent;
  Store(record);
  ASSERT_EQ(world_.disk->records.count({RecordKind::kKernel, innocent}), 0u);
  ExpectRefused("kernel key: its schedule is another kernel's");
  EXPECT_EQ(world_.disk->records.count({RecordKind::kKernel, innocent}), 0u);
}

// The same, the specs agreeing: only code generation knows that the source is another one.
TEST_F(RecordCheckTest, AKeyOfAnotherSource) {
  PlanRecord record = Record();
  PlanVariant& variant = record.variants.front();
  const std::string own = variant.kernel_keys[0];
  KernelKey key = DecodeKernelKey(own).value();
  key.source.bytes[8] ^= 1;
  const std::string lying = EncodeKey(key);
  variant.kernel_keys[0] = lying;
  Store(record);
  const auto plan = world_.MakeEngine()->Prepare(world_.chain, 16, {}).value();
  EXPECT_EQ(world_.disk->records.count({RecordKind::kKernel, lying}), 0u);
  EXPECT_EQ(world_.compiles, compiles_) << "the kernel is there, under its own key";
  EXPECT_EQ(plan->plan().kernels[0].kernel_digest, Sha256(own));
  EXPECT_EQ(Payload(RecordKind::kPlan, plan_key_), sound_) << "mended";
}

TEST_F(RecordCheckTest, AKernelUnderAnotherKey) {
  PrepareOptions unfused;
  unfused.choice = PrepareOptions::Choice::kUnfused;
  ASSERT_TRUE(world_.MakeEngine()->Prepare(world_.chain, 16, unfused).ok());
  const std::string own = Record().variants.front().kernel_keys[0];
  const std::string sound = Payload(RecordKind::kKernel, own);
  for (const std::string& other : world_.disk->Keys(RecordKind::kKernel)) {
    if (other == own) continue;
    Payload(RecordKind::kKernel, own) = Payload(RecordKind::kKernel, other);
    const auto engine = world_.MakeEngine();
    EXPECT_FALSE(
        engine->CheckStored(RecordKind::kKernel, own, Payload(RecordKind::kKernel, own)).ok());
    const int compiles = world_.compiles;
    ASSERT_TRUE(engine->Prepare(world_.chain, 16, {}).ok());
    EXPECT_EQ(world_.compiles, compiles + 1);
    EXPECT_EQ(engine->Stats().store.misses[kDamaged], 1u);
    EXPECT_EQ(Payload(RecordKind::kKernel, own), sound) << "mended";
  }
  EXPECT_EQ(world_.disk->Keys(RecordKind::kKernel).size(), 3u);
}

TEST_F(RecordCheckTest, AKernelWithAnotherEntry) {
  const std::string own = Record().variants.front().kernel_keys[0];
  KernelRecord record = DecodeKernelRecord(Payload(RecordKind::kKernel, own)).value();
  record.entry = "another";
  Payload(RecordKind::kKernel, own) = EncodeKernelRecord(record);
  const auto engine = world_.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world_.chain, 16, {}).ok());
  EXPECT_EQ(world_.compiles, compiles_ + 1);
  EXPECT_EQ(engine->Stats().store.misses[kDamaged], 1u);
}

TEST_F(RecordCheckTest, RecordsOfOthersAreNotVouchedFor) {
  const auto engine = world_.MakeEngine();
  PlanKey key = DecodePlanKey(plan_key_).value();
  key.library_version += "x";
  EXPECT_THAT(engine->CheckStored(RecordKind::kPlan, EncodeKey(key), sound_).message(),
              HasSubstr("of library"));
  key = DecodePlanKey(plan_key_).value();
  key.device_model.bytes[0] ^= 1;
  EXPECT_THAT(engine->CheckStored(RecordKind::kPlan, EncodeKey(key), sound_).message(),
              HasSubstr("device model"));
  EXPECT_FALSE(engine->CheckStored(RecordKind::kPlan, "no key", sound_).ok());
  EXPECT_FALSE(engine->CheckStored(RecordKind::kKernel, "no key", "no record").ok());
}

// An entry whose plan was changed and whose file was sealed again.
TEST(TunedRecordCheck, ATuningSetThatLiesIsPassedOver) {
  struct Case {
    const char* why;
    std::function<void(Plan&)> change;
  };
  const Case cases[] = {
      {"lie outside the workspace",
       [](Plan& plan) { plan.kernels[0].spec.operands.back().row_stride = 1 << 20; }},
      {"workspace_bytes", [](Plan& plan) { plan.workspace_bytes = uint64_t{1} << 48; }},
      {"lie outside buffer 0", [](Plan& plan) { plan.kernels[0].spec.constant_rows = true; }},
      {"flags",
       [](Plan& plan) { plan.kernels[0].spec.workspace_flags_offset = kWorkspaceFlagBytes; }},
      {"shared memory", [](Plan& plan) { plan.kernels[0].spec.schedule.stages = 32; }},
  };
  for (const Case& one : cases) {
    FakeWorld world;
    world.times = {{"grid", 8}, {"cluster", 11}, {"first", 10}, {"second", 10}};
    TuningEntry entry = *world.MakeEngine()->Tune(world.chain, 16, {})->entry;
    Plan plan = Plan::Decode(entry.bytes).value();
    one.change(plan);
    entry.bytes = plan.Encode();
    FakeWorld user;
    auto set = std::make_shared<TuningSet>();
    set->Add(entry);
    user.tuning = std::make_shared<const TuningSet>(TuningSet::FromText(set->ToText()).value());
    const auto engine = user.MakeEngine();
    ASSERT_TRUE(engine->Prepare(user.chain, 16, {}).ok()) << one.why;
    EXPECT_EQ(engine->Stats().tuned_refused, 1u) << one.why;
    EXPECT_EQ(engine->Stats().tuned_plans, 0u) << one.why;
    EXPECT_THAT(user.log, Contains(AllOf(HasSubstr("is not used"), HasSubstr(one.why)))) << one.why;
  }
}

}  // namespace
}  // namespace sinter
