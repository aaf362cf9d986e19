// False records are refused as counted misses with a reason, replaced, and never handed on.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

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
  void Store(const PlanRecord& record) {
    Payload(RecordKind::kPlan, plan_key_) = EncodePlanRecord(record);
  }
  void Change(const std::function<void(PlanRecord&)>& change) {
    PlanRecord record = Record();
    change(record);
    Store(record);
  }
  // With plans and keys.
  PlanRecord Complete() {
    PlanRecord record = Record();
    PlanRequest request{.form = IdentityForm(std::make_shared<const Chain>(world_.chain)),
                        .bucket = 16};
    PlanningHooks hooks{.assembly = MakePlanAssembly};
    hooks.device_headers = [this](const KernelSpec& spec) { return world_.HeadersOf(spec); };
    const EngineCore core(world_.MakePorts(), Config(), LogSink(), std::move(hooks));
    const absl::Status status =
        CompletePlanRecord(request, world_.model, core, BuildControl(), &record);
    EXPECT_TRUE(status.ok()) << status;
    return record;
  }

  // Prepares with the stored record: the plan is made again for `why`, counted, and replaced.
  void ExpectRefused(const std::string& why, const PrepareOptions& options = {}) {
    EXPECT_FALSE(
        world_.MakeEngine()
            ->CheckStored(RecordKind::kPlan, plan_key_, Payload(RecordKind::kPlan, plan_key_))
            .ok());
    world_.log.clear();
    const auto engine = world_.MakeEngine();
    ASSERT_TRUE(engine->Prepare(world_.chain, 16, options).ok());
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

TEST_F(RecordCheckTest, ADataflowOfAnotherChain) {
  Change([&](PlanRecord& record) {
    record.variants.front().decisions.kernels[0].schedule.dataflow = Dataflow::kSpatialGate;
  });
  ExpectRefused("plan 'fused': kernel 0: ");
}

// A grid is not a part of a key: the assembly decides whether it may run.
TEST_F(RecordCheckTest, MoreBlocksThanAreResident) {
  Change(
      [&](PlanRecord& record) { record.variants.front().decisions.kernels[0].schedule.grid *= 2; });
  ExpectRefused("grid 240 is above the");
}

// A plan that may run for the chosen one is judged when it is wanted.
TEST_F(RecordCheckTest, AVariantThatStandsIn) {
  PrepareOptions unfused{.choice = PrepareOptions::Choice::kUnfused};
  ASSERT_TRUE(world_.MakeEngine()->Prepare(world_.chain, 16, unfused).ok());
  compiles_ = world_.compiles;
  Change([&](PlanRecord& record) {
    record.variants.back().decisions.kernels.pop_back();
    record.variants.back().sources.pop_back();
  });
  const auto engine = world_.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world_.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().store.misses[kDamaged], 0u);
  EXPECT_EQ(world_.plans, plans_);
  ExpectRefused("plan 'unfused': ", unfused);
}

TEST_F(RecordCheckTest, AVariantThatStandsInForARefusedKernel) {
  Change([&](PlanRecord& record) {
    record.variants.back().decisions.kernels.pop_back();
    record.variants.back().sources.pop_back();
  });
  for (const std::string& key : world_.disk->Keys(RecordKind::kKernel)) {
    world_.disk->records.erase({RecordKind::kKernel, key});
  }
  world_.refused = {"grid", "cluster"};
  const auto engine = world_.MakeEngine();
  const auto plan = Got(engine->Prepare(world_.chain, 16, {}));
  EXPECT_EQ(plan->plan().name(), "unfused");
  EXPECT_EQ(plan->plan().kernels.size(), 2u);
  EXPECT_EQ(engine->Stats().store.misses[kDamaged], 1u);
  EXPECT_EQ(Payload(RecordKind::kPlan, plan_key_), sound_) << "mended";
}

TEST_F(RecordCheckTest, AnotherChainsRecord) {
  Change([&](PlanRecord& record) { record.chain.bytes[0] ^= 1; });
  ExpectRefused("for chain");
}

TEST_F(RecordCheckTest, AnotherBucketsRecord) {
  Change([&](PlanRecord& record) { record.bucket = 32; });
  ExpectRefused("at bucket 32");
}

TEST_F(RecordCheckTest, WithoutTheUnfusedPlan) {
  Change([&](PlanRecord& record) {
    ASSERT_FALSE(record.variants.back().decisions.fused);
    record.variants.pop_back();
  });
  ExpectRefused("without the unfused plan");
}

TEST_F(RecordCheckTest, WithItsNamesSwapped) {
  Change([&](PlanRecord& record) {
    for (PlanVariant& variant : record.variants) variant.decisions.fused = !variant.decisions.fused;
  });
  ExpectRefused("its unfused plan is fused");
}

// The count is checked before the plans are decoded: the first plan is not a valid plan.
TEST_F(RecordCheckTest, MoreKernelsThanOps) {
  const uint64_t ops = world_.chain.ops().size();
  EXPECT_TRUE(DecodePlanRecord(sound_, {ops, nullptr}).ok());
  PlanRecord record = Record();
  PlanVariant& variant = record.variants.front();
  variant.decisions.kernels.assign(ops + 1, variant.decisions.kernels[0]);
  variant.sources.assign(ops + 1, variant.sources[0]);
  Store(record);
  ExpectRefused(absl::StrCat(ops + 1, " kernels, at most ", ops));
}

TEST_F(RecordCheckTest, ARecordThatIsTooLarge) {
  Change([&](PlanRecord& record) { record.tuning.assign(kMostPlanRecordBytes, 'x'); });
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
TEST_F(RecordCheckTest, NoPackTakesAnotherSource) {
  PlanRecord record = Record();
  record.variants.front().sources[0].bytes[8] ^= 1;
  EXPECT_TRUE(
      Says(world_.MakeEngine()->CheckStored(RecordKind::kPlan, plan_key_, EncodePlanRecord(record)),
           "a source is another kernel's"));
}

TEST_F(RecordCheckTest, ADamagedRecordIsCountedToo) {
  Payload(RecordKind::kPlan, plan_key_).resize(sound_.size() / 2);
  ExpectRefused("record");
}

TEST_F(RecordCheckTest, UnderMustHitItIsAMiss) {
  Change([&](PlanRecord& record) {
    record.variants.front().decisions.kernels[0].schedule.stages = 1000;
  });
  const absl::Status status =
      world_.MakeEngine()->Prepare(world_.chain, 16, {.must_hit = true}).status();
  EXPECT_EQ(StatusNumber(status), static_cast<int32_t>(ErrorCode::kCacheMiss)) << status;
  EXPECT_TRUE(Says(status, "stages 1000"));
  EXPECT_EQ(world_.plans, plans_);
}

// The attack: a kernel gets the source of another, whose record is gone. The compiled result must
// not be stored under the key that both make together.
TEST_F(RecordCheckTest, ASourceOfAnotherKernel) {
  const std::string own = Complete().variants.front().kernel_keys[0];
  Change(
      [&](PlanRecord& record) { record.variants[0].sources[0] = record.variants[1].sources[0]; });
  const auto plan = world_.MakeEngine()->Prepare(world_.chain, 16, {}).value();
  EXPECT_EQ(world_.disk->Count(RecordKind::kKernel), 1);
  EXPECT_EQ(world_.compiles, compiles_) << "the kernel is there, under its own key";
  EXPECT_EQ(plan->plan().kernels[0].kernel_digest, Sha256(own));
  EXPECT_EQ(Payload(RecordKind::kPlan, plan_key_), sound_) << "mended";
}

TEST_F(RecordCheckTest, AKernelUnderAnotherKey) {
  ASSERT_TRUE(world_.MakeEngine()
                  ->Prepare(world_.chain, 16, {.choice = PrepareOptions::Choice::kUnfused})
                  .ok());
  const std::string own = Complete().variants.front().kernel_keys[0];
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
  const std::string own = Complete().variants.front().kernel_keys[0];
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
  EXPECT_TRUE(Says(engine->CheckStored(RecordKind::kPlan, EncodeKey(key), sound_), "of library"));
  key = DecodePlanKey(plan_key_).value();
  key.device_model.bytes[0] ^= 1;
  EXPECT_TRUE(Says(engine->CheckStored(RecordKind::kPlan, EncodeKey(key), sound_), "device model"));
  EXPECT_FALSE(engine->CheckStored(RecordKind::kPlan, "no key", sound_).ok());
  EXPECT_FALSE(engine->CheckStored(RecordKind::kKernel, "no key", "no record").ok());
}

// An entry whose plan was changed and whose file was sealed again.
TEST(TunedRecordCheck, ATuningSetThatLiesIsPassedOver) {
  struct Case {
    const char* why;
    std::function<void(Decisions&)> change;
  };
  const Case cases[] = {
      {"is not a result of a run", [](Decisions& d) { d.kernels[0].ops.values = {1}; }},
      {"product 3 of a run of 2", [](Decisions& d) { d.kernels[0].ops.first = 2; }},
      {"shared memory", [](Decisions& d) { d.kernels[0].schedule.stages = 32; }},
  };
  for (const Case& one : cases) {
    FakeWorld world{.times = {{"grid", 8}, {"cluster", 11}, {"first", 10}, {"second", 10}}};
    TuningEntry entry = *world.MakeEngine()->Tune(world.chain, 16, {})->entry;
    PlanRecord record = DecodePlanRecord(entry.record).value();
    one.change(record.variants[0].decisions);
    entry.record = EncodePlanRecord(record);
    FakeWorld user;
    user.tuning =
        std::make_shared<const TuningSet>(TuningSet::FromText(SetWith(entry)->ToText()).value());
    const auto engine = user.MakeEngine();
    ASSERT_TRUE(engine->Prepare(user.chain, 16, {}).ok()) << one.why;
    EXPECT_EQ(engine->Stats().tuned_refused, 1u) << one.why;
    EXPECT_EQ(engine->Stats().tuned_plans, 0u) << one.why;
    EXPECT_THAT(user.log, Contains(AllOf(HasSubstr("is not used"), HasSubstr(one.why)))) << one.why;
  }
}

}  // namespace
}  // namespace sinter
