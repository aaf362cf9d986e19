// Withdrawn records, against a real redis-server: what was found wrong on one machine is served to
// none, whatever is written over it.
#include "cache/remote/remote_tier.h"
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

using remote_testing::In;
using std::chrono::milliseconds;

constexpr char kFleet[] = "a fleet's key of 32 bytes or so.";

class WithdrawalTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!server_.running()) GTEST_SKIP() << "no redis-server here";
    KernelRecord record = cache_testing::SampleKernelRecord();
    key_ = EncodeKey(cache_testing::SampleKernelKey(1));
    digest_ = Sha256(key_);
    payload_ = EncodeKernelRecord(record);
    record.verification.device = "h200";
    verified_ = EncodeKernelRecord(record);
  }

  std::shared_ptr<RemoteTier> Tier(bool publish, const std::string& group = "") {
    return std::make_shared<RemoteTier>(
        RemoteOptions{
            .secret = kFleet, .publish = publish, .group = group, .get_budget = milliseconds(500)},
        server_.Client(), server_.Client());
  }
  void Publish(RemoteTier* tier, const std::string& payload) {
    tier->Publish(RecordKind::kKernel, key_, digest_, payload);
    ASSERT_TRUE(tier->Flush(milliseconds(3000)));
  }
  void Withdraw(RemoteTier* tier) {
    tier->Withdraw(RecordKind::kKernel, digest_, "wrong at\nseed 7");
    ASSERT_TRUE(tier->Flush(milliseconds(3000)));
  }
  Lookup Ask() { return Tier(false)->Get(RecordKind::kKernel, key_, digest_); }
  std::string Raw(const std::string& name) {
    return (*server_.Client()->GetMany({name}, In(500)))[0].value_or("");
  }
  void PutRaw(const std::string& name, const std::string& value) {
    ASSERT_TRUE(server_.Client()->Put(name, value, 100, true, In(500)).ok());
  }
  std::string name() const { return RemoteName("sinter", RecordKind::kKernel, digest_); }
  std::string mark() const { return WithdrawnName("sinter", RecordKind::kKernel, digest_); }

  remote_testing::RedisServer server_;
  std::string key_, payload_, verified_;
  Digest digest_;
};

TEST_F(WithdrawalTest, AWithdrawnRecordIsServedToNobody) {
  const auto publisher = Tier(true);
  Publish(publisher.get(), payload_);
  ASSERT_TRUE(Ask().hit);
  Withdraw(publisher.get());
  const Lookup miss = Ask();
  EXPECT_EQ(miss.reason, MissReason::kQuarantined);
  EXPECT_THAT(miss.detail, HasSubstr("wrong at?seed 7"));
  EXPECT_EQ(publisher->stats().withdrawn, 1u);
}

TEST_F(WithdrawalTest, NeitherAPublisherNorAnOldValueBringsItBack) {
  const auto publisher = Tier(true);
  Publish(publisher.get(), payload_);
  const std::string old = Raw(name());
  Withdraw(publisher.get());
  Publish(Tier(true).get(), payload_);
  Publish(Tier(true).get(), verified_);  // replaces whatever has the name
  EXPECT_EQ(Ask().reason, MissReason::kQuarantined);
  PutRaw(name(), old);  // a client without a key may still put back the old record
  EXPECT_EQ(Ask().reason, MissReason::kQuarantined);
  PutRaw(mark(), "a mark of nobody");
  EXPECT_EQ(Ask().reason, MissReason::kDamaged);
  PutRaw(mark(), old);
  EXPECT_EQ(Ask().reason, MissReason::kDamaged);
}

TEST_F(WithdrawalTest, AReaderAndAStrangerWithdrawNothing) {
  Publish(Tier(true).get(), payload_);
  Withdraw(Tier(false).get());
  EXPECT_TRUE(Ask().hit);
  EXPECT_EQ(Raw(mark()), "");
  PutRaw(name(), SealValue("another fleet's key of 32 bytes.", name(), EncodeWithdrawal(1, "no")));
  EXPECT_EQ(Ask().reason, MissReason::kDamaged);
}

// A server may forget a withdrawal. A client that has seen it once does not.
TEST_F(WithdrawalTest, TheTiersWithdrawAndRemember) {
  TempDir temp;
  const auto store = [&](const std::string& folder, bool publish, const std::string& group) {
    TierOptions options{.local_root = temp / folder, .sync = false, .remote = Tier(publish, group)};
    return std::make_pair(std::make_unique<TieredStore>(options), options.remote);
  };
  const std::string old = [&] {
    const auto [first, remote] = store("first", true, "chip");
    first->Put(RecordKind::kKernel, key_, payload_);
    first->Flush();
    EXPECT_TRUE(remote->Flush(milliseconds(3000)));
    const std::string value = Raw(name());
    first->Quarantine(RecordKind::kKernel, key_, "wrong at seed 7");
    EXPECT_TRUE(remote->Flush(milliseconds(3000)));
    return value;
  }();
  EXPECT_EQ(store("second", false, "").first->Get(RecordKind::kKernel, key_).reason,
            MissReason::kQuarantined);
  {  // told while it prefetches
    const auto [third, remote] = store("third", false, "chip");
    EXPECT_TRUE(remote->Flush(milliseconds(3000)));
    EXPECT_EQ(remote->stats().prefetched, 0u);
    EXPECT_EQ(remote->stats().withdrawn, 1u);
  }
  PutRaw(name(), old);
  PutRaw(mark(), "");
  ASSERT_TRUE(server_.Client()->Put(mark(), "x", 1, true, In(500)).ok());
  for (const char* folder : {"second", "third"}) {
    const Lookup miss = store(folder, false, "").first->Get(RecordKind::kKernel, key_);
    EXPECT_EQ(miss.reason, MissReason::kQuarantined) << folder;
    EXPECT_THAT(miss.detail, HasSubstr("wrong at seed 7"));
  }
}

// A machine that still has the old record learns of the withdrawal when it publishes it again.
TEST_F(WithdrawalTest, APublisherThatHasTheRecordIsTold) {
  TempDir temp;
  TierOptions options{.local_root = temp / "root", .sync = false, .remote = Tier(true)};
  const auto store = std::make_unique<TieredStore>(options);
  store->Put(RecordKind::kKernel, key_, payload_);
  store->Flush();
  ASSERT_TRUE(options.remote->Flush(milliseconds(3000)));
  Withdraw(Tier(true).get());
  EXPECT_TRUE(store->Get(RecordKind::kKernel, key_).hit);  // nobody was asked
  store->Put(RecordKind::kKernel, key_, verified_);
  ASSERT_TRUE(options.remote->Flush(milliseconds(3000)));
  EXPECT_EQ(store->Get(RecordKind::kKernel, key_).reason, MissReason::kQuarantined);
}

}  // namespace
}  // namespace sinter
