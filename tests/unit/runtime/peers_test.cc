// Memory between GPUs on the fake driver.
#include "runtime/peers/peers.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "absl/strings/escaping.h"
#include "runtime/measure/probes.h"
#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

struct TwoGpus {
  FakeDriver fake{{FakeChip(), FakeChip()}};
  std::unique_ptr<PeerMemory> memory[2];
  TwoGpus() {
    const auto driver = *fake.Make();
    for (int d = 0; d < 2; ++d) memory[d] = *MakePeerMemory(*Device::Open(driver, d));
  }
};

TEST(PeerMemory, ARoomIsWrittenThroughItsHandle) {
  TwoGpus gpus;
  const DevicePtr room = *gpus.memory[0]->Allocate(4096, RoomSharing::kIpc);
  ASSERT_TRUE(gpus.memory[0]->Fill(room, 0, 4096).ok());
  const DevicePtr own = *gpus.memory[1]->Allocate(16, RoomSharing::kIpc);
  const DevicePtr opened = *gpus.memory[1]->Open(*gpus.memory[0]->Export(room));
  const char sent[16] = "over the link";
  char got[16] = {};
  ASSERT_TRUE(gpus.memory[1]->Upload(own, sent, 16).ok());
  ASSERT_TRUE(gpus.memory[1]->Push(opened + 32, own, 16).ok());
  ASSERT_TRUE(gpus.memory[0]->Download(got, room + 32, 16).ok());
  EXPECT_STREQ(got, sent);
  gpus.memory[1]->Close(opened);
  gpus.memory[1]->Free(own);
  gpus.memory[0]->Free(room);
  EXPECT_EQ(gpus.fake.live().opened_handles + gpus.fake.live().allocations, 0);
}

// Both rooms as two ranks share them: all offer, then all open.
TEST(PeerMemory, RoomsAreWrittenThroughDescriptors) {
  TwoGpus gpus;
  DevicePtr rooms[2], opened[2];
  PeerMemory::Handle handles[2];
  for (int r = 0; r < 2; ++r) {
    rooms[r] = *gpus.memory[r]->Allocate(4096, RoomSharing::kDescriptor);
    ASSERT_TRUE(gpus.memory[r]->Fill(rooms[r], 0, 4096).ok());
    handles[r] = *gpus.memory[r]->Export(rooms[r]);
  }
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(gpus.memory[r]->Offer(rooms[r], handles[1 - r]).ok());
  for (int r = 0; r < 2; ++r) opened[r] = *gpus.memory[r]->Open(handles[1 - r]);
  for (int r = 0; r < 2; ++r) {
    const char sent[16] = "over the link";
    char got[16] = {};
    ASSERT_TRUE(gpus.memory[r]->Upload(rooms[r], sent, 16).ok());
    ASSERT_TRUE(gpus.memory[r]->Push(opened[r] + 32, rooms[r], 16).ok());
    ASSERT_TRUE(gpus.memory[1 - r]->Download(got, rooms[1 - r] + 32, 16).ok());
    EXPECT_STREQ(got, sent);
  }
  EXPECT_EQ(gpus.memory[0]->Open(PeerMemory::Handle{}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (int r = 0; r < 2; ++r) {
    gpus.memory[r]->Close(opened[r]);
    gpus.memory[r]->Free(rooms[r]);
  }
  EXPECT_EQ(gpus.fake.live().allocations, 0);
}

using Post = std::unique_ptr<DescriptorPost>;

Deadline In(int64_t ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

TEST(DescriptorPost, TellsSendersApartAndTakesNothingFromStrangers) {
  const Post here = *DescriptorPost::Open(), first = *DescriptorPost::Open(),
             second = *DescriptorPost::Open();
  EXPECT_EQ(here->Receive(first->address(), In(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  int pipes[2][2];
  for (auto& ends : pipes) ASSERT_EQ(pipe(ends), 0);
  DescriptorPost::Address guessed = here->address();
  guessed.secret[0] ^= 1;
  ASSERT_TRUE(first->Send(pipes[1][1], guessed, In(50)).ok());
  ASSERT_TRUE(second->Send(pipes[1][1], here->address(), In(50)).ok());
  ASSERT_TRUE(first->Send(pipes[0][1], here->address(), In(50)).ok());
  for (int i = 0; i < 2; ++i) {
    const int got = Got(here->Receive((i == 0 ? first : second)->address(), In(10000)));
    const char sent = static_cast<char>('a' + i);
    char read_back = 0;
    ASSERT_EQ(write(got, &sent, 1), 1);
    ASSERT_EQ(read(pipes[i][0], &read_back, 1), 1);
    EXPECT_EQ(read_back, sent);
    close(got);
  }
  const DescriptorPost::Address nobody{};
  EXPECT_TRUE(Says(first->Send(pipes[0][1], nobody, In(50)), "one network namespace"));
  for (auto& ends : pipes) {
    close(ends[0]);
    close(ends[1]);
  }
}

// Plays another user that reads the name in /proc/net/unix: sends datagrams without the secret
// until the queue is full. Returns how many were sent.
int Flood(const DescriptorPost& post, size_t bytes, int most) {
  const auto& name = post.address().name;
  const std::string text =
      "sinter-" + absl::BytesToHexString({reinterpret_cast<const char*>(name.data()), name.size()});
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::copy(text.begin(), text.end(), to.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const std::string datagram(bytes, 'x');
  int sent = 0;
  while (sent < most && sendto(stranger, datagram.data(), datagram.size(), MSG_DONTWAIT,
                               reinterpret_cast<const sockaddr*>(&to), length) >= 0) {
    ++sent;
  }
  close(stranger);
  return sent;
}

TEST(DescriptorPost, StrangersFillNoQueue) {
  const Post here = *DescriptorPost::Open(), peer = *DescriptorPost::Open();
  constexpr int kMany = 1000;  // a queue is of 10
  for (const size_t bytes : {0, 1, 31, 32, 33, 4096}) {
    EXPECT_EQ(Flood(*here, bytes, kMany), kMany) << bytes << " bytes: dropped, not queued";
    ASSERT_TRUE(peer->Send(0, here->address(), In(0)).ok()) << "does not wait";
    close(Got(here->Receive(peer->address(), In(10000))));
  }
}

// Each fills the queue of the other one, and only then reads.
TEST(DescriptorPost, AFullQueueIsWaitedForAndTwoThatSendDoNotWaitForEachOther) {
  const Post here = *DescriptorPost::Open(), there = *DescriptorPost::Open();
  constexpr int kMore = 40;
  std::vector<Post> senders;
  const auto fill = [&](const DescriptorPost& to) {
    for (int i = 0; i < kMore; ++i) {
      senders.push_back(*DescriptorPost::Open());
      const absl::Status sent = senders.back()->Send(0, to.address(), In(0));
      if (sent.code() == absl::StatusCode::kDeadlineExceeded) return;
      ASSERT_TRUE(sent.ok()) << sent;
    }
    FAIL() << "a queue has an end";
  };
  fill(*here);
  fill(*there);
  EXPECT_TRUE(Fails(senders.front()->Send(0, here->address(), In(20)),
                    absl::StatusCode::kDeadlineExceeded, "queue of datagrams stays full"));
  const auto exchange = [](const Post& own, const Post& other) {
    EXPECT_OK(own->Send(0, other->address(), In(10000)));
    close(Got(own->Receive(other->address(), In(10000))));
  };
  std::thread second(exchange, std::cref(there), std::cref(here));
  exchange(here, there);
  second.join();
}

TEST(PeerMemory, ReachingTwiceIsFineAndAWallIsNamed) {
  TwoGpus gpus;
  EXPECT_TRUE(gpus.memory[0]->Reach(*gpus.memory[1]).ok());
  EXPECT_TRUE(gpus.memory[0]->Reach(*gpus.memory[1]).ok());
  gpus.fake.reaches_peer = [](int, int) { return false; };
  EXPECT_TRUE(Fails(gpus.memory[1]->Reach(*gpus.memory[0]), absl::StatusCode::kFailedPrecondition,
                    "device 1 cannot reach the memory of device 0"));
}

TEST(PeerMemory, AHandleThatCannotBeOpenedSaysWhatItTakes) {
  TwoGpus gpus;
  const DevicePtr room = *gpus.memory[0]->Allocate(4096, RoomSharing::kIpc);
  const PeerMemory::Handle handle = *gpus.memory[0]->Export(room);
  gpus.fake.ipc_works = false;
  EXPECT_TRUE(Says(gpus.memory[1]->Open(handle), "one IPC namespace"));
  gpus.memory[0]->Free(room);
}

TEST(PeerMemory, WordsAreZeroAndSharedWithTheDevice) {
  TwoGpus gpus;
  const HostWords words = *gpus.memory[0]->AllocateWords();
  EXPECT_EQ(words.host[0] | words.host[1], 0u);
  EXPECT_NE(words.device, 0u);
  gpus.memory[0]->FreeWords(words);
  EXPECT_EQ(gpus.fake.live().allocations, 0);
}

TEST(PeerMemory, ALinkIsTimedByWhatTakesTwiceAsLong) {
  TwoGpus gpus;
  ASSERT_TRUE(gpus.memory[0]->Reach(*gpus.memory[1]).ok());
  const ProbeSlope slope = Got(TimeLink(gpus.memory[0].get(), gpus.memory[1].get()));
  EXPECT_EQ(slope.more, 2 * slope.less);
  EXPECT_GT(slope.less_us, 0);
  EXPECT_GT(slope.more_us, 0);
}

}  // namespace
}  // namespace sinter
