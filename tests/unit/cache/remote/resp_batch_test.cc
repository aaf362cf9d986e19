// What a server may make a caller hold: a reply, all replies to a call, and nothing once they are
// read.
#include "cache/remote/remote_tier.h"
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

using remote_testing::FakeServer;
using remote_testing::In;

// Feeds `bytes`, `step` at a time.
absl::Status Feed(RespBatch* batch, absl::string_view bytes, size_t step) {
  while (!bytes.empty()) {
    const size_t n = std::min(step, bytes.size());
    std::copy_n(bytes.data(), n, batch->Room(step));
    const absl::Status status = batch->Received(n);
    if (!status.ok()) return status;
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

TEST(RespBatchTest, RepliesAreTheSameHoweverTheyAreCut) {
  const std::string bytes = "+OK\r\n$5\r\nhello\r\n:7\r\n*2\r\n$-1\r\n$1\r\nx\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    RespBatch batch(4, {}, {});
    ASSERT_TRUE(Feed(&batch, bytes, step).ok());
    ASSERT_TRUE(batch.done());
    EXPECT_EQ(batch.waiting(), 0u);
    const std::vector<RespValue> replies = batch.Take();
    EXPECT_EQ(replies[1].text, "hello");
    EXPECT_EQ(replies[3].items.size(), 2u);
  }
}

TEST(RespBatchTest, WhatPassesABoundIsRefusedAsSoonAsItIsSaid) {
  const RespLimits each{100, 4}, all{150, 6};
  const std::pair<const char*, std::string> bad[] = {
      {"a reply", "$100\r\n"},
      {"an array", "*4\r\n"},
      {"an array in an array", "*2\r\n*3\r\n"},
      {"a line", std::string(101, '+')},
      {"all replies", "$60\r\n" + std::string(60, 'x') + "\r\n$90\r\n"},
      {"all items", "*2\r\n:1\r\n:1\r\n*3\r\n"},
      {"more replies than asked for", ":1\r\n:1\r\n:1\r\n"},
  };
  for (const auto& [name, bytes] : bad) {
    RespBatch batch(2, each, all);
    EXPECT_TRUE(absl::IsUnavailable(Feed(&batch, bytes, 1))) << name;
    EXPECT_LE(batch.waiting(), 102u) << name;
  }
  RespBatch fits(2, each, all);
  EXPECT_TRUE(
      Feed(&fits, "*3\r\n:1\r\n:1\r\n:1\r\n$30\r\n" + std::string(30, 'x') + "\r\n", 7).ok());
  EXPECT_TRUE(fits.done());
}

// Answers with `head`, then with whatever it can send, and counts it.
struct Flood {
  explicit Flood(std::string head)
      : server([this, head](int connection) {
          char buffer[65536];
          if (recv(connection, buffer, sizeof(buffer), 0) <= 0) return;
          std::string piece = head;
          while (piece.size() < (1 << 20)) piece += head;
          if (head[0] == '$') piece = head + std::string(1 << 20, 'x');
          for (;;) {
            const ssize_t n = send(connection, piece.data(), piece.size(), MSG_NOSIGNAL);
            if (n <= 0) return;
            sent += static_cast<uint64_t>(n);
            if (head[0] == '$') piece.assign(1 << 20, 'x');
          }
        }) {}
  std::atomic<uint64_t> sent{0};
  FakeServer server;
};

// Before, a call for 32 values took 256 MiB for each of them, until its time passed.
TEST(RespBatchTest, AFloodingServerIsHungUpOn) {
  constexpr uint64_t kSockets = 16 << 20;  // what the kernel may hold between the two
  const std::vector<std::string> names(32, "name");
  const std::pair<const char*, uint64_t> floods[] = {
      {"$268435456\r\n", 0},
      {"$33000000\r\n", 2 * kMaxRemoteValueBytes},
      {"*131072\r\n", 0},
      {"*2\r\n", 0},
      {"+a line without an end", 4096},
      {":1\r\n", 4096},
  };
  for (const auto& [head, bound] : floods) {
    Flood flood(head);
    const auto client = flood.server.Client();
    EXPECT_TRUE(absl::IsUnavailable(client->GetMany(names, In(60000)).status())) << head;
    EXPECT_LE(flood.sent.load(), bound + kSockets) << head;
  }
  Flood members("*131071\r\n$1000\r\n" + std::string(1000, 'k') + "\r\n");
  EXPECT_FALSE(members.server.Client()->Members("set", In(60000)).ok());
  EXPECT_LE(members.sent.load(), kSockets + (16 << 20));
}

}  // namespace
}  // namespace sinter
