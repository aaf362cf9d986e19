// Memory between GPUs on the fake driver.
#include "runtime/peers/peers.h"

#include <cstring>

#include "tests/unit/runtime/fixture.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

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
  const DevicePtr room = *gpus.memory[0]->Allocate(4096);
  ASSERT_TRUE(gpus.memory[0]->Fill(room, 0, 4096).ok());
  const DevicePtr own = *gpus.memory[1]->Allocate(16);
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

TEST(PeerMemory, ReachingTwiceIsFineAndAWallIsNamed) {
  TwoGpus gpus;
  EXPECT_TRUE(gpus.memory[0]->Reach(*gpus.memory[1]).ok());
  EXPECT_TRUE(gpus.memory[0]->Reach(*gpus.memory[1]).ok());
  gpus.fake.reaches_peer = [](int, int) { return false; };
  const absl::Status status = gpus.memory[1]->Reach(*gpus.memory[0]);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("device 1 cannot reach the memory of device 0"));
}

TEST(PeerMemory, AHandleThatCannotBeOpenedSaysWhatItTakes) {
  TwoGpus gpus;
  const DevicePtr room = *gpus.memory[0]->Allocate(4096);
  const PeerMemory::Handle handle = *gpus.memory[0]->Export(room);
  gpus.fake.ipc_works = false;
  EXPECT_THAT(gpus.memory[1]->Open(handle).status().message(), HasSubstr("one IPC namespace"));
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

}  // namespace
}  // namespace sinter
