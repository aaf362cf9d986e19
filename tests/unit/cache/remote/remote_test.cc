// The remote tier against a real redis-server, and against servers that are dead, slow or lying.
#include "cache/remote/remote_tier.h"
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

using remote_testing::FakeServer;
using remote_testing::HoldPort;
using remote_testing::In;
using remote_testing::Listen;
using remote_testing::Loopback;
using remote_testing::RedisServer;
using remote_testing::Replying;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr RecordKind kKernel = RecordKind::kKernel;
constexpr char kSecret[] = "a fleet's key of 32 bytes or so.";

double MsSince(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

RemoteOptions Options(bool publish) {
  return RemoteOptions{.secret = kSecret,
                       .publish = publish,
                       .group = "h200-test",
                       .get_budget = milliseconds(250),
                       .background_budget = milliseconds(1000)};
}

std::shared_ptr<RemoteTier> MakeTier(const RemoteOptions& options, const RedisServer& server) {
  return std::make_shared<RemoteTier>(options, server.Client(), server.Client());
}

struct Sample {
  std::string key, payload;
  Digest digest;
};
Sample MakeSample(int i) {
  Sample sample{.key = EncodeKey(SampleKernelKey(i))};
  KernelRecord record = SampleKernelRecord();
  record.registers = static_cast<uint32_t>(i);
  sample.payload = EncodeKernelRecord(record);
  sample.digest = Sha256(sample.key);
  return sample;
}

// One server for all; each test in a name space of its own.
class RedisTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new RedisServer("pass word"); }
  static void TearDownTestSuite() { delete server_; }
  void SetUp() override {
    if (!server_->running()) GTEST_SKIP() << "no redis-server here";
  }
  RemoteOptions Mine(bool publish) const {
    RemoteOptions options = Options(publish);
    options.name_space = testing::UnitTest::GetInstance()->current_test_info()->name();
    return options;
  }
  static RedisServer* server_;
};
RedisServer* RedisTest::server_ = nullptr;

// Pushes samples 0 up to `count`, except number 2.
absl::StatusOr<PushReport> PushSamples(RemoteTier* tier, int count) {
  std::vector<std::pair<RecordKind, Digest>> records;
  for (int i = 0; i < count; ++i) records.emplace_back(kKernel, MakeSample(i).digest);
  return tier->Push(records, [](size_t i) -> absl::StatusOr<std::string> {
    if (i == 2) return absl::NotFoundError("not wanted");
    const Sample sample = MakeSample(static_cast<int>(i));
    return EncodeEnvelope(MakeEnvelope(kKernel, sample.key, sample.payload, "test", 1));
  });
}

TEST_F(RedisTest, APushWritesWhatTheServerLacksAndNoMore) {
  const auto publisher = MakeTier(Mine(true), *server_);
  const Sample there = MakeSample(0), wrong = MakeSample(1);
  publisher->Publish(kKernel, there.key, there.digest, there.payload);
  publisher->Withdraw(kKernel, wrong.digest, "seed 1");
  ASSERT_TRUE(publisher->Flush(milliseconds(2000)));
  const auto pushed = Got(PushSamples(publisher.get(), 200));
  EXPECT_EQ(pushed.records, 200u);
  EXPECT_EQ(pushed.present, 1u);
  EXPECT_EQ(pushed.withdrawn, 1u);
  EXPECT_EQ(pushed.skipped, 1u);
  EXPECT_EQ(pushed.pushed, 197u);
  EXPECT_GT(pushed.pushed_bytes, 197u * 100);
  const auto again = Got(PushSamples(publisher.get(), 200));
  EXPECT_EQ(again.pushed, 0u);
  EXPECT_EQ(again.present, 198u);
  const auto reader = MakeTier(Mine(false), *server_);
  const Sample last = MakeSample(199);
  EXPECT_TRUE(reader->Get(kKernel, last.key, last.digest).hit);
  uint64_t fetched = 0;
  reader->Prefetch([](RecordKind, const Digest&) { return true; },
                   [&](const Digest&, const Envelope&) { ++fetched; });
  ASSERT_TRUE(reader->Flush(milliseconds(5000)));
  EXPECT_EQ(fetched, 198u);
  EXPECT_TRUE(Fails(PushSamples(reader.get(), 3), absl::StatusCode::kFailedPrecondition,
                    "SINTER_REMOTE_ROLE=publisher"));
}

TEST_F(RedisTest, APushThatIsCutOffSaysHowFarItCame) {
  RedisServer server;
  ASSERT_TRUE(server.running());
  const auto publisher = MakeTier(Options(true), server);
  std::vector<std::pair<RecordKind, Digest>> records;
  for (int i = 0; i < 5; ++i) records.emplace_back(kKernel, MakeSample(i).digest);
  const auto cut = publisher->Push(records, [&](size_t i) -> absl::StatusOr<std::string> {
    if (i == 3) server.End();
    const Sample sample = MakeSample(static_cast<int>(i));
    return EncodeEnvelope(MakeEnvelope(kKernel, sample.key, sample.payload, "test", 1));
  });
  EXPECT_TRUE(Fails(cut, absl::StatusCode::kUnavailable,
                    "cache push: 3 of 5 records written, then (run it again to go on): remote"));
}

TEST_F(RedisTest, WhatIsPublishedIsFoundByReaders) {
  const auto publisher = MakeTier(Mine(true), *server_);
  const Sample sample = MakeSample(1), other = MakeSample(2);
  publisher->Publish(kKernel, sample.key, sample.digest, sample.payload);
  ASSERT_TRUE(publisher->Flush(milliseconds(2000)));
  EXPECT_EQ(publisher->stats().puts, 1u);
  const auto reader = MakeTier(Mine(false), *server_);
  const Lookup hit = reader->Get(kKernel, sample.key, sample.digest);
  ASSERT_TRUE(hit.hit) << hit.detail;
  EXPECT_EQ(hit.payload, sample.payload);
  EXPECT_STREQ(hit.tier, "remote");
  EXPECT_EQ(reader->Get(kKernel, other.key, other.digest).reason, MissReason::kAbsent);
  reader->Publish(kKernel, other.key, other.digest, other.payload);
  reader->Flush(milliseconds(1000));
  EXPECT_EQ(publisher->Get(kKernel, other.key, other.digest).reason, MissReason::kAbsent);
}

TEST_F(RedisTest, ValuesOfStrangersDamageAndReplaysAreRefusedAndReplaced) {
  const auto publisher = MakeTier(Mine(true), *server_);
  const Sample sample = MakeSample(1), other = MakeSample(2);
  publisher->Publish(kKernel, other.key, other.digest, other.payload);
  ASSERT_TRUE(publisher->Flush(milliseconds(2000)));
  const auto raw = server_->Client();
  const std::string name = RemoteName(Mine(true).name_space, kKernel, sample.digest);
  const std::string good =
      **(*raw->GetMany({RemoteName(Mine(true).name_space, kKernel, other.digest)}, In(500)))
            .begin();
  std::vector<std::string> bad = {
      "",
      "nonsense",
      good,
      good.substr(0, 40),
      good.substr(40),
      SealValue("another fleet's key of 32 bytes.", name, good.substr(40)),
      SealValue(kSecret, name, good.substr(40)),
      SealValue(kSecret, name, "no envelope")};
  for (size_t i = 0; i < good.size(); i += 7) {
    bad.push_back(good);
    bad.back()[i] = static_cast<char>(bad.back()[i] ^ 1);
  }
  uint64_t refused = 0;
  for (const std::string& value : bad) {
    ASSERT_TRUE(raw->Put(name, value, 100, true, In(500)).ok());
    const Lookup lookup = publisher->Get(kKernel, sample.key, sample.digest);
    EXPECT_FALSE(lookup.hit);
    EXPECT_EQ(lookup.reason, MissReason::kDamaged);
    EXPECT_EQ(publisher->stats().refused, ++refused);
  }
  std::cout << "remote values forged, damaged or replayed: tried " << bad.size() << " refused "
            << refused << " accepted 0\n";
  EXPECT_EQ(publisher->breaker(), CircuitBreaker::State::kClosed);
  // The first value stays, unless it did not hold.
  publisher->Publish(kKernel, sample.key, sample.digest, sample.payload);
  ASSERT_TRUE(publisher->Flush(milliseconds(2000)));
  EXPECT_TRUE(publisher->Get(kKernel, sample.key, sample.digest).hit);
}

TEST_F(RedisTest, APutReplacesAValueOnlyWhereAskedTo) {
  const auto raw = server_->Client();
  const std::string name = Mine(true).name_space + ":value";
  for (const bool replace : {false, true}) {
    ASSERT_TRUE(raw->Put(name, "first", 100, true, In(500)).ok());
    EXPECT_TRUE(raw->Put(name, "second", 100, replace, In(500)).ok());
    EXPECT_EQ(raw->GetMany({name}, In(500))->front(), replace ? "second" : "first");
  }
}

TEST_F(RedisTest, AValueThatHoldsStays) {
  const auto first = MakeTier(Mine(true), *server_), second = MakeTier(Mine(true), *server_);
  const Sample sample = MakeSample(1);
  first->Publish(kKernel, sample.key, sample.digest, sample.payload);
  ASSERT_TRUE(first->Flush(milliseconds(2000)));
  second->Publish(kKernel, sample.key, sample.digest, MakeSample(2).payload);
  ASSERT_TRUE(second->Flush(milliseconds(2000)));
  EXPECT_EQ(first->Get(kKernel, sample.key, sample.digest).payload, sample.payload);
}

TEST_F(RedisTest, ValuesAndGroupsEndWithTheirTime) {
  RemoteOptions options = Mine(true);
  options.ttl_s = 1;
  const auto publisher = MakeTier(options, *server_);
  const Sample sample = MakeSample(1);
  publisher->Publish(kKernel, sample.key, sample.digest, sample.payload);
  ASSERT_TRUE(publisher->Flush(milliseconds(2000)));
  EXPECT_TRUE(publisher->Get(kKernel, sample.key, sample.digest).hit);
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_FALSE(publisher->Get(kKernel, sample.key, sample.digest).hit);
  EXPECT_TRUE(
      server_->Client()->Members(options.name_space + ":v1:group:h200-test", In(500))->empty());
}

TEST_F(RedisTest, OnlyOneHoldsALeaseAndOnlyItsTokenGivesItBack) {
  RemoteOptions options = Mine(true);
  options.lease_wait = milliseconds(100);
  const auto first = MakeTier(options, *server_), second = MakeTier(options, *server_);
  const Sample sample = MakeSample(1);
  std::shared_ptr<void> lease = first->Lease(kKernel, sample.digest, 1000000);
  ASSERT_NE(lease, nullptr);
  const auto start = steady_clock::now();
  EXPECT_EQ(second->Lease(kKernel, sample.digest, 1000000), nullptr);
  EXPECT_LT(MsSince(start), 600);
  const auto raw = server_->Client();
  const std::string name = absl::StrCat(options.name_space, ":v1:lease:k:", sample.digest.Hex());
  EXPECT_TRUE(raw->Release(name, "a token of mine", In(500)).ok());
  EXPECT_EQ(second->Lease(kKernel, sample.digest, 1000000), nullptr);
  lease.reset();
  ASSERT_TRUE(first->Flush(milliseconds(2000)));
  EXPECT_NE(second->Lease(kKernel, sample.digest, 1000000), nullptr);
  const auto reader = MakeTier(Mine(false), *server_);
  EXPECT_EQ(reader->Lease(kKernel, MakeSample(5).digest, 1000000), nullptr);
}

TEST_F(RedisTest, WaitersOfALeaseGoOnWhenTheValueComes) {
  const auto first = MakeTier(Mine(true), *server_), second = MakeTier(Mine(true), *server_);
  const Sample sample = MakeSample(1);
  std::shared_ptr<void> lease = first->Lease(kKernel, sample.digest, 1000000);
  ASSERT_NE(lease, nullptr);
  std::thread builder([&] {
    std::this_thread::sleep_for(milliseconds(150));
    first->Publish(kKernel, sample.key, sample.digest, sample.payload);
  });
  const auto start = steady_clock::now();
  EXPECT_EQ(second->Lease(kKernel, sample.digest, 5000000), nullptr);
  const double waited = MsSince(start);
  builder.join();
  EXPECT_TRUE(second->Get(kKernel, sample.key, sample.digest).hit);
  EXPECT_GE(waited, 100);
  EXPECT_LT(waited, 2000);
}

TEST_F(RedisTest, AMachineThatStartsPrefetchesWhatItLacks) {
  {
    const auto publisher = MakeTier(Mine(true), *server_);
    for (int i = 0; i < 100; ++i) {
      const Sample sample = MakeSample(i);
      publisher->Publish(kKernel, sample.key, sample.digest, sample.payload);
    }
    ASSERT_TRUE(publisher->Flush(milliseconds(60000)));
    ASSERT_TRUE(
        server_->Client()
            ->AddMember(Mine(true).name_space + ":v1:group:h200-test", "nonsense", 10, In(500))
            .ok());
  }
  TempDir temp;
  TierOptions options{.local_root = temp / "root", .sync = false};
  {
    TierOptions before = options;
    const Sample sample = MakeSample(0);
    std::make_unique<TieredStore>(before)->Put(kKernel, sample.key, sample.payload);
  }
  options.remote = MakeTier(Mine(false), *server_);
  const auto start = steady_clock::now();
  const auto store = std::make_unique<TieredStore>(options);
  const double construction = MsSince(start);
  ASSERT_TRUE(options.remote->Flush(milliseconds(60000)));
  store->Flush();
  EXPECT_EQ(options.remote->stats().prefetched, 99u);
  server_->Pause();
  for (int i = 0; i < 100; ++i) {
    const Lookup found = store->Get(kKernel, MakeSample(i).key);
    EXPECT_TRUE(found.hit) << i;
    EXPECT_EQ(found.payload, MakeSample(i).payload);
  }
  server_->Resume();
  EXPECT_EQ(store->Stats().local_hits, 100u);
  std::cout << "remote prefetch of 99 kernels in " << MsSince(start)
            << " ms; the store was made in " << construction << " ms\n";
}

TEST_F(RedisTest, TheTiersPublishAskAndKeep) {
  TempDir temp;
  const Sample sample = MakeSample(1);
  {
    const auto lock_free =
        std::make_unique<TieredStore>(TierOptions{.remote = MakeTier(Mine(true), *server_)});
    EXPECT_NE(lock_free->LockForBuild(kKernel, sample.key, 1000000), nullptr);
    lock_free->Put(kKernel, sample.key, sample.payload);
  }
  TierOptions options{.local_root = temp / "root", .sync = false};
  RemoteOptions remote = Mine(false);
  remote.group = "nothing to prefetch";
  options.remote = MakeTier(remote, *server_);
  const auto store = std::make_unique<TieredStore>(options);
  const Lookup found = store->Get(kKernel, sample.key);
  ASSERT_TRUE(found.hit) << found.detail;
  EXPECT_STREQ(found.tier, "remote");
  store->Flush();
  options.remote = nullptr;
  EXPECT_STREQ(std::make_unique<TieredStore>(options)->Get(kKernel, sample.key).tier, "local");
  EXPECT_EQ(store->Stats().remote_hits, 1u);
}

TEST_F(RedisTest, AWrongPasswordIsARefusalThatDoesNotSayIt) {
  RedisBackend client(Loopback(server_->port()), "wrong secret");
  const auto values = client.GetMany({"x"}, In(500));
  EXPECT_TRUE(absl::IsUnavailable(values.status()));
  EXPECT_THAT(std::string(values.status().message()), Not(HasSubstr("wrong secret")));
  RedisBackend bare(Loopback(server_->port()), "");
  EXPECT_TRUE(absl::IsUnavailable(bare.GetMany({"x"}, In(500)).status()));
}

TEST_F(RedisTest, LargeValuesAndPipelinesPass) {
  const auto client = server_->Client();
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) {
    names.push_back(absl::StrCat("large", i));
    ASSERT_TRUE(
        client->Put(names.back(), cache_testing::RandomBytes(200 << 10, i), 100, true, In(2000))
            .ok());
  }
  names.push_back("absent");
  const auto start = steady_clock::now();
  const auto values = Got(client->GetMany(names, In(5000)));
  std::cout << "remote: 50 x 200 KiB in one pipeline: " << MsSince(start) << " ms\n";
  for (int i = 0; i < 50; ++i) EXPECT_EQ(values[i], cache_testing::RandomBytes(200 << 10, i));
  EXPECT_FALSE(values.back().has_value());
}

TEST_F(RedisTest, TheBreakerOpensWhenTheServerStopsAndClosesWhenItIsBack) {
  RedisServer server;
  std::string changes;
  RemoteOptions options = Options(false);
  options.get_budget = milliseconds(50);
  options.log = LogSink(LogLevel::kInfo, [&](LogLevel, absl::string_view line) {
    if (line.find("breaker") != absl::string_view::npos) absl::StrAppend(&changes, line, "\n");
  });
  const auto tier = MakeTier(options, server);
  tier->Flush(milliseconds(1000));
  const Sample sample = MakeSample(1);
  EXPECT_EQ(tier->Get(kKernel, sample.key, sample.digest).reason, MissReason::kAbsent);
  server.Pause();
  for (int i = 0; i < 3; ++i) {
    const auto start = steady_clock::now();
    EXPECT_EQ(tier->Get(kKernel, sample.key, sample.digest).reason, MissReason::kRemoteDown);
    EXPECT_LT(MsSince(start), 500);
  }
  EXPECT_EQ(tier->breaker(), CircuitBreaker::State::kOpen);
  const auto start = steady_clock::now();
  for (int i = 0; i < 1000; ++i) tier->Get(kKernel, sample.key, sample.digest);
  std::cout << "remote: a question while the breaker is open: " << MsSince(start) << " us\n";
  EXPECT_LT(MsSince(start), 1000);  // asked, each would take 50
  server.Resume();
  std::this_thread::sleep_for(milliseconds(1050));
  EXPECT_EQ(tier->Get(kKernel, sample.key, sample.digest).reason, MissReason::kAbsent);
  EXPECT_EQ(tier->breaker(), CircuitBreaker::State::kClosed);
  EXPECT_EQ(changes,
            "cache: remote: breaker closed -> open\ncache: remote: breaker open -> half-open\n"
            "cache: remote: breaker half-open -> closed\n");
  std::cout << changes;
}

// Every way of being of no use: each answer is a miss in time, and nothing dies.
TEST(RemoteFaultTest, DeadSlowAndLyingServersCostTheirBudgetAtMost) {
  uint16_t dead = 0;
  const int held = HoldPort(&dead);
  uint16_t black_hole = 0;
  const int hole = Listen(&black_hole);  // accepts nothing: the kernel says yes and nobody answers
  FakeServer drip(Replying("$100000\r\n" + std::string(100000, 'x'), 1, 20));
  FakeServer garbage(Replying("HTTP/1.1 400 Bad Request\r\n\r\n"));
  FakeServer huge(Replying("$9999999999\r\nabc"));
  FakeServer promise(Replying("$100000000\r\nabc"));
  FakeServer chatty(Replying("$-1\r\n$-1\r\n"));
  FakeServer wrong_type(Replying(":1\r\n"));
  FakeServer error(Replying("-LOADING not yet\r\n"));
  FakeServer closes([](int) {});
  FakeServer closes_midway([](int connection) {
    char buffer[4096];
    if (recv(connection, buffer, sizeof(buffer), 0) > 0) {
      send(connection, "$10\r\nabc", 8, MSG_NOSIGNAL);
    }
  });
  FakeServer lies(Replying("$5\r\nhello\r\n"));
  FakeServer deep(Replying("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"));
  const struct {
    const char* name;
    uint16_t port;
    MissReason want;
  } cases[] = {
      {"refused", dead, MissReason::kRemoteDown},
      {"black hole", black_hole, MissReason::kRemoteDown},
      {"drip", drip.port(), MissReason::kRemoteDown},
      {"garbage", garbage.port(), MissReason::kRemoteDown},
      {"huge length", huge.port(), MissReason::kRemoteDown},
      {"unkept promise", promise.port(), MissReason::kRemoteDown},
      {"two answers to one question", chatty.port(), MissReason::kRemoteDown},
      {"another type", wrong_type.port(), MissReason::kRemoteDown},
      {"error", error.port(), MissReason::kRemoteDown},
      {"closes", closes.port(), MissReason::kRemoteDown},
      {"closes midway", closes_midway.port(), MissReason::kRemoteDown},
      {"wrong bytes", lies.port(), MissReason::kDamaged},
      {"nested", deep.port(), MissReason::kRemoteDown},
  };
  const Sample sample = MakeSample(1);
  for (const auto& c : cases) {
    RemoteOptions options = Options(true);
    options.get_budget = milliseconds(60);
    options.background_budget = milliseconds(60);
    RemoteTier tier(options, std::make_unique<RedisBackend>(Loopback(c.port), ""),
                    std::make_unique<RedisBackend>(Loopback(c.port), ""));
    double worst = 0;
    for (int i = 0; i < 4; ++i) {
      const auto start = steady_clock::now();
      const Lookup lookup = tier.Get(kKernel, sample.key, sample.digest);
      worst = std::max(worst, MsSince(start));
      EXPECT_FALSE(lookup.hit);
      EXPECT_TRUE(lookup.reason == c.want || lookup.reason == MissReason::kRemoteDown) << c.name;
      if (i == 0) {
        EXPECT_EQ(lookup.reason, c.want) << c.name << ": " << lookup.detail;
      }
    }
    tier.Publish(kKernel, sample.key, sample.digest, sample.payload);
    EXPECT_EQ(tier.Lease(kKernel, sample.digest, 50000), nullptr);
    std::cout << "remote " << c.name << ": worst answer " << worst << " ms, budget 60, breaker "
              << NameOf(tier.breaker()) << ", opened " << tier.stats().opened << " times\n";
    EXPECT_LT(worst, 250) << c.name;
  }
  close(held);
  close(hole);
}

// With everything in the local tier, a dead remote is never asked.
TEST(RemoteFaultTest, ADeadRemoteCostsAWarmLocalTierNothing) {
  uint16_t black_hole = 0;
  const int hole = Listen(&black_hole);
  TempDir temp;
  TierOptions options{.local_root = temp / "root", .memory_bytes = 0, .sync = false};
  for (int i = 0; i < 200; ++i)
    std::make_unique<TieredStore>(options)->Put(kKernel, MakeSample(i).key, MakeSample(i).payload);
  double cost[2];
  for (const bool with : {false, true}) {
    if (with) {
      RemoteOptions remote = Options(false);
      remote.background_budget = milliseconds(100);
      options.remote = std::make_shared<RemoteTier>(
          remote, std::make_unique<RedisBackend>(Loopback(black_hole), ""),
          std::make_unique<RedisBackend>(Loopback(black_hole), ""));
    }
    const auto store = std::make_unique<TieredStore>(options);
    const auto start = steady_clock::now();
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(store->Get(kKernel, MakeSample(i).key).hit);
    cost[with ? 1 : 0] = MsSince(start) * 1000 / 200;
  }
  std::cout << "local hit without a remote " << cost[0] << " us, with a black hole as one "
            << cost[1] << " us\n";
  EXPECT_EQ(options.remote->stats().skipped + options.remote->stats().absent, 0u);
  close(hole);
}

TEST(RemoteFaultTest, TheChildOfAForkLeavesTheParentsConnectionsAlone) {
  uint16_t black_hole = 0;
  const int hole = Listen(&black_hole);
  auto tier = std::make_unique<RemoteTier>(
      Options(true), std::make_unique<RedisBackend>(Loopback(black_hole), ""),
      std::make_unique<RedisBackend>(Loopback(black_hole), ""));
  const Sample sample = MakeSample(1);
  EXPECT_EQ(EndOfChild([&] {
              const bool down =
                  tier->Get(kKernel, sample.key, sample.digest).reason == MissReason::kRemoteDown;
              tier->Publish(kKernel, sample.key, sample.digest, sample.payload);
              const bool none = tier->Lease(kKernel, sample.digest, 1000000) == nullptr;
              tier.reset();
              return down && none ? 0 : 1;
            }),
            0);
  close(hole);
}

TEST(RemoteAddressTest, ALookupEndsWhenItIsTold) {
  const RemoteAddress here = Got(ParseRemoteAddress("redis://127.0.0.1:7000"));
  std::atomic<bool> stop{false};
  EXPECT_GT(ResolveAddress(here, stop).size, 0u);
  RemoteAddress nowhere = here;
  nowhere.host = "no-such-host.invalid";
  EXPECT_EQ(ResolveAddress(nowhere, stop).size, 0u);
  stop = true;
  EXPECT_EQ(ResolveAddress(here, stop).size, 0u) << "and nothing of it is freed too early";
}

TEST(RemoteAddressTest, ReadsUrlsAndRefusesPasswords) {
  const struct {
    const char *url, *host, *path, *user;
    int port, database;
  } good[] = {
      {"redis://cache", "cache", "", "", 6379, 0},
      {"redis://10.0.0.1:7000/3", "10.0.0.1", "", "", 7000, 3},
      {"redis://fleet@[::1]:7000", "::1", "", "fleet", 7000, 0},
      {"redis+unix:///run/redis.sock", "", "/run/redis.sock", "", 6379, 0},
      {"redis+unix:///run/redis.sock?db=2", "", "/run/redis.sock", "", 6379, 2},
  };
  for (const auto& c : good) {
    const auto address = Got(ParseRemoteAddress(c.url));
    EXPECT_EQ(address.host, c.host);
    EXPECT_EQ(address.path, c.path);
    EXPECT_EQ(address.user, c.user);
    EXPECT_EQ(address.port, c.port);
    EXPECT_EQ(address.database, static_cast<uint32_t>(c.database));
  }
  for (const char* url :
       {"", "cache", "http://cache", "redis://", "redis://:6379", "redis://h:0", "redis://h:99999",
        "redis://h:x", "redis://h/x", "redis://[::1", "redis+unix://relative", "redis+unix://"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRemoteAddress(url).status())) << url;
  }
  const auto secret = ParseRemoteAddress("redis://user:hunter2@cache");
  EXPECT_TRUE(absl::IsInvalidArgument(secret.status()));
  EXPECT_THAT(std::string(secret.status().message()), Not(HasSubstr("hunter2")));
}

TEST(SealedValueTest, HoldsOnlyForItsKeyAndName) {
  const std::string value = SealValue("key", "name", "envelope");
  EXPECT_EQ(*OpenValue("key", "name", value), "envelope");
  EXPECT_FALSE(OpenValue("kez", "name", value).ok());
  EXPECT_FALSE(OpenValue("key", "nane", value).ok());
  EXPECT_FALSE(OpenValue("key", "namee", SealValue("key", "name", "eenvelope")).ok());
  for (size_t i = 0; i < value.size(); ++i) {
    std::string bad = value;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_FALSE(OpenValue("key", "name", bad).ok()) << i;
    EXPECT_FALSE(OpenValue("key", "name", value.substr(0, i)).ok()) << i;
  }
}

}  // namespace
}  // namespace sinter
