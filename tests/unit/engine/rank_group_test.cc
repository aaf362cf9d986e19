// Groups of ranks on fake memory: who fails where, and that a proof goes over each link.
#include "src/engine/rank_group.h"

#include "tests/support/on_threads.h"
#include "tests/support/test.h"
#include "tests/unit/engine/fake_peer_memory.h"

namespace sinter {
namespace {

RankGroupOptions Options(int rank, int size) {
  return RankGroupOptions{.rank = rank, .size = size, .slot_bytes = 64 << 10};
}

using Made = std::vector<absl::StatusOr<std::shared_ptr<RankGroup>>>;

// All ranks at once, a thread each. `change` edits a rank's options or memory. The last rank has
// failed before where `failed` says so.
Made CreateAll(int size, const std::function<void(int, RankGroupOptions&, FakePeerMemory&)>& change,
               const absl::Status& failed = absl::OkStatus()) {
  const auto gathering = std::make_shared<Gathering>(size);
  Made made(static_cast<size_t>(size), absl::UnknownError("not made"));
  OnThreads(size, [&](int r) {
    RankGroupOptions options = Options(r, size);
    auto memory = std::make_unique<FakePeerMemory>(r);
    change(r, options, *memory);
    absl::StatusOr<std::unique_ptr<PeerMemory>> given = std::move(memory);
    if (r == size - 1 && !failed.ok()) given = failed;
    // The group keeps its exchange.
    const Exchange exchange = [gathering, r](const void* send, size_t bytes, void* recv) {
      return gathering->ExchangeOf(r)(send, bytes, recv);
    };
    made[static_cast<size_t>(r)] = RankGroup::Create(std::move(given), options, exchange);
  });
  return made;
}

void ExpectAllFail(const Made& made, const std::string& why) {
  for (const auto& one : made) {
    ASSERT_FALSE(one.ok());
    EXPECT_TRUE(Says(one, why));
  }
  EXPECT_EQ(FakePeerMemory::Live(), 0);
}

RankRoom HeadOf(const RankGroup& group) {
  RankRoom head;
  std::memcpy(&head, reinterpret_cast<const void*>(group.room()), sizeof(head));
  return head;
}

TEST(RankGroup, EachRankKnowsAllRooms) {
  for (const int size : {2, 3, 4, 8}) {
    Made made = CreateAll(size, [](int, RankGroupOptions&, FakePeerMemory&) {});
    for (int r = 0; r < size; ++r) {
      ASSERT_TRUE(made[static_cast<size_t>(r)].ok()) << made[static_cast<size_t>(r)].status();
      const RankRoom head = HeadOf(**made[static_cast<size_t>(r)]);
      EXPECT_EQ(head.rank, static_cast<uint32_t>(r));
      EXPECT_EQ(head.epoch | head.outcome, 0u);
      EXPECT_EQ(head.timeout_ns, 10000000000u);
      EXPECT_EQ(head.slot_vectors, (64u << 10) / 16);
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ(head.rooms[static_cast<size_t>(peer)],
                  (*made[static_cast<size_t>(peer)])->room());
      }
      const auto* slots = reinterpret_cast<const unsigned char*>(
          (*made[static_cast<size_t>(r)])->room() + RankRoom::kSlotsAt);
      EXPECT_EQ(slots[0], 0xFF);
      EXPECT_EQ(slots[2 * static_cast<size_t>(size) * (64 << 10) - 1], 0xFF);
    }
    made.clear();
    EXPECT_EQ(FakePeerMemory::Live(), 0);
  }
}

// By descriptors every rank offers its room to all others before it opens theirs.
TEST(RankGroup, RoomsAreSharedAsAskedFor) {
  for (const bool descriptors : {false, true}) {
    std::vector<FakePeerMemory*> memories(3);
    Made made = CreateAll(3, [&](int r, RankGroupOptions& options, FakePeerMemory& memory) {
      options.descriptors = descriptors;
      memories[static_cast<size_t>(r)] = &memory;
    });
    for (size_t r = 0; r < 3; ++r) {
      ASSERT_TRUE(made[r].ok()) << made[r].status();
      EXPECT_EQ(memories[r]->shared, descriptors ? RoomSharing::kDescriptor : RoomSharing::kIpc);
      EXPECT_EQ(memories[r]->offers, 2);
    }
  }
  ExpectAllFail(
      CreateAll(2, [](int r, RankGroupOptions& options,
                      FakePeerMemory&) { options.descriptors = r == 1; }),
      "rank 1 has SINTER_GROUP_DESCRIPTORS, rank 0 lacks it: all ranks must have it, or none");
}

TEST(RankGroup, WhatDiffersFailsOnAllRanksAndNamesTheRank) {
  ExpectAllFail(CreateAll(3,
                          [](int r, RankGroupOptions& options, FakePeerMemory&) {
                            if (r == 2) options.timeout_ms = 5;
                          }),
                "rank 2 has group.timeout_ms 5, rank 0 has 10000");
  ExpectAllFail(CreateAll(8,
                          [](int r, RankGroupOptions& options, FakePeerMemory&) {
                            if (r == 7) options.timeout_ms = 5;
                          }),
                "rank 7 has group.timeout_ms 5, rank 0 has 10000");
  ExpectAllFail(CreateAll(2,
                          [](int r, RankGroupOptions& options, FakePeerMemory&) {
                            if (r == 1) options.slot_bytes *= 2;
                          }),
                "rank 1 has group.slot_bytes 131072, rank 0 has 65536");
  ExpectAllFail(
      CreateAll(2, [](int r, RankGroupOptions& options,
                      FakePeerMemory&) { options.identity.bytes[0] = static_cast<uint8_t>(r); }),
      "rank 1 has another version");
  ExpectAllFail(
      CreateAll(2, [](int, RankGroupOptions& options, FakePeerMemory&) { options.rank = 0; }),
      "in the order of ranks");
  ExpectAllFail(
      CreateAll(2, [](int, RankGroupOptions&, FakePeerMemory& memory) { memory.uuid = 7; }),
      "ranks 0 and 1 have the same GPU");
}

TEST(RankGroup, ARankThatFailsIsToldToTheOthers) {
  ExpectAllFail(CreateAll(3, [](int r, RankGroupOptions&,
                                FakePeerMemory& memory) { memory.out_of_memory = r == 1; }),
                "no memory here");
  ExpectAllFail(
      CreateAll(2, [](int r, RankGroupOptions&, FakePeerMemory& memory) { memory.opens = r != 0; }),
      "cannot open");
  ExpectAllFail(CreateAll(2,
                          [](int r, RankGroupOptions& options, FakePeerMemory&) {
                            if (r == 0) options.slot_bytes = 1000;
                          }),
                "group.slot_bytes is 1000");
}

TEST(RankGroup, ARankThatHadFailedBeforeIsToldToTheOthers) {
  const Made made = CreateAll(
      3, [](int, RankGroupOptions&, FakePeerMemory&) {}, absl::UnavailableError("no GPU here"));
  EXPECT_EQ(made[2].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(made[0].status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(made[1].status().message(), "rank 2: no GPU here");
  ExpectAllFail(made, "no GPU here");
}

TEST(RankGroup, NoRankThatFailsFreesARoomThatAnotherHasOpen) {
  const int before = FakePeerMemory::FreedWhileOpen();
  ExpectAllFail(CreateAll(3,
                          [](int r, RankGroupOptions&, FakePeerMemory& memory) {
                            memory.opens = r != 0;
                            memory.closes_late = r == 1;
                          }),
                "cannot open");
  ExpectAllFail(CreateAll(2,
                          [](int r, RankGroupOptions&, FakePeerMemory& memory) {
                            memory.pushes = r != 0;
                            memory.closes_late = r == 1;
                          }),
                "has not arrived");
  EXPECT_EQ(FakePeerMemory::FreedWhileOpen(), before);
}

TEST(RankGroup, CloseFreesOnceNoRankHasARoomOpen) {
  const int before = FakePeerMemory::FreedWhileOpen();
  Made made = CreateAll(
      3, [](int r, RankGroupOptions&, FakePeerMemory& memory) { memory.closes_late = r == 1; });
  std::vector<std::thread> threads;
  for (const auto& group : made) {
    ASSERT_TRUE(group.ok()) << group.status();
    threads.emplace_back([&] { EXPECT_TRUE((*group)->Close().ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(FakePeerMemory::Live(), 3);  // the words of each
  // A rank without peers needs no exchange. Neither this nor an abort touches the peer-mapped
  // buffers.
  EXPECT_TRUE((*made[0])->Close().ok());
  EXPECT_TRUE((*made[1])->GetStatus(nullptr).ok());
  EXPECT_TRUE((*made[1])->Abort().ok());
  EXPECT_EQ((*made[1])->GetStatus(nullptr).code(), absl::StatusCode::kAborted);
  made.clear();
  EXPECT_EQ(FakePeerMemory::Live(), 0);
  EXPECT_EQ(FakePeerMemory::FreedWhileOpen(), before);
}

TEST(RankGroup, NoExchangeFollowsOneThatFailed) {
  // Creation makes four exchanges; Close makes the fifth.
  for (const int fails : {1, 2, 4, 5}) {
    Gathering gathering(2);
    std::atomic<int> calls{0};
    OnThreads(2, [&](int r) {
      int own = 0;
      const Exchange exchange = [&](const void* send, size_t bytes, void* recv) {
        ++calls;
        // All have met; some exchanges fail so on all ranks.
        const absl::Status met = gathering.ExchangeOf(r)(send, bytes, recv);
        return ++own == fails ? absl::UnavailableError("cut off") : met;
      };
      auto made = RankGroup::Create(std::make_unique<FakePeerMemory>(r), Options(r, 2), exchange);
      ASSERT_EQ(made.ok(), fails == 5);
      for (int i = 0; i < 2 && made.ok(); ++i) {
        EXPECT_EQ((*made)->Close().message(), "cut off");
      }
    });
    EXPECT_EQ(calls, 2 * fails);
    EXPECT_EQ(FakePeerMemory::Live(), 0);
  }
}

TEST(RankGroup, AnExchangeThatGivesOtherBytesIsNamed) {
  for (const char byte : {'\1', 'x'}) {  // no text, and one without an end
    Gathering gathering(2);
    OnThreads(2, [&](int r) {
      int own = 0;
      const Exchange exchange = [&](const void* send, size_t bytes, void* recv) {
        const absl::Status met = gathering.ExchangeOf(r)(send, bytes, recv);
        if (++own == 2) std::memset(static_cast<char*>(recv) + bytes, byte, bytes);
        return met;
      };
      const auto made =
          RankGroup::Create(std::make_unique<FakePeerMemory>(r), Options(r, 2), exchange);
      EXPECT_TRUE(Says(made, "rank 1 sent no text of an error"));
    });
    EXPECT_EQ(FakePeerMemory::Live(), 0);
  }
}

TEST(RankGroup, ALinkThatLosesDataIsFound) {
  for (const int size : {3, 4, 8}) {
    ExpectAllFail(CreateAll(size, [](int r, RankGroupOptions&,
                                     FakePeerMemory& memory) { memory.pushes = r != 2; }),
                  "what rank 2 wrote has not arrived at rank");
  }
}

TEST(RankGroup, TakesTheCallersRooms) {
  std::vector<std::vector<char>> memory(2, std::vector<char>(RoomBytes(2, 64 << 10) + 256));
  std::vector<DevicePtr> rooms;
  for (auto& room : memory) {
    rooms.push_back((reinterpret_cast<uintptr_t>(room.data()) + 255) / 256 * 256);
  }
  Made made = CreateAll(2, [&](int, RankGroupOptions& options, FakePeerMemory&) {
    options.rooms = rooms;
    options.room_bytes = RoomBytes(2, 64 << 10);
  });
  for (size_t r = 0; r < 2; ++r) {
    ASSERT_TRUE(made[r].ok()) << made[r].status();
    EXPECT_EQ((*made[r])->room(), rooms[r]);
  }
  made.clear();
  ExpectAllFail(CreateAll(2,
                          [&](int, RankGroupOptions& options, FakePeerMemory&) {
                            options.rooms = rooms;
                            options.room_bytes = 4096;
                          }),
                "slots of 65536 bytes for 2 ranks need 266240");
  ExpectAllFail(CreateAll(2,
                          [&](int r, RankGroupOptions& options, FakePeerMemory&) {
                            if (r == 0) options.rooms = rooms;
                            options.room_bytes = RoomBytes(2, 64 << 10);
                          }),
                "rank 1 does not give group.peers, rank 0 does");
}

TEST(RankGroup, OfOneProcessReachesEveryPeer) {
  for (const int size : {2, 3, 4, 8}) {
    const int before = FakePeerMemory::Reached();
    std::vector<std::unique_ptr<PeerMemory>> memory;
    for (int r = 0; r < size; ++r) memory.push_back(std::make_unique<FakePeerMemory>(r));
    auto groups = Got(RankGroup::CreateLocal(std::move(memory), Options(0, 0)));
    ASSERT_EQ(groups.size(), static_cast<size_t>(size));
    EXPECT_EQ(groups.back()->rank(), size - 1);
    EXPECT_EQ(FakePeerMemory::Reached() - before, size * (size - 1));
    groups.clear();
    EXPECT_EQ(FakePeerMemory::Live(), 0);
  }
  EXPECT_TRUE(Says(RankGroup::CreateLocal({}, Options(0, 0)), "group.size is 0, must be 2 to 8"));
}

TEST(RankGroup, OfOneProcessSharesRoomsUntilTheLastIsGone) {
  std::vector<std::unique_ptr<PeerMemory>> memory;
  for (int r = 0; r < 2; ++r) memory.push_back(std::make_unique<FakePeerMemory>(r));
  auto groups = Got(RankGroup::CreateLocal(std::move(memory), Options(0, 0)));
  EXPECT_EQ(FakePeerMemory::Live(), 4);  // a room and words each
  const auto first_room = reinterpret_cast<const RankRoom*>(groups[0]->room());
  groups[0].reset();
  EXPECT_EQ(FakePeerMemory::Live(), 3);
  EXPECT_TRUE(groups[1]->Abort().ok());
  EXPECT_EQ(first_room->outcome, RankRoom::kAborted | 1 << 8);
  EXPECT_TRUE(groups[1]->Close().ok());
  EXPECT_EQ(FakePeerMemory::Live(), 1);
  groups.clear();
  EXPECT_EQ(FakePeerMemory::Live(), 0);
}

TEST(RankGroup, StatusSaysWhyItEndedAndAbortTellsEveryRank) {
  Made made = CreateAll(2, [](int, RankGroupOptions&, FakePeerMemory&) {});
  ASSERT_TRUE(made[0].ok() && made[1].ok());
  const std::shared_ptr<RankGroup> group = *made[0], other = *made[1];
  int rank = 9;
  EXPECT_TRUE(group->GetStatus(&rank).ok());
  EXPECT_EQ(rank, -1);
  const auto told = [&](uint32_t word) {
    auto* words = reinterpret_cast<uint32_t*>(HeadOf(*group).host_words);
    words[0] = word;
    return group->GetStatus(&rank);
  };
  EXPECT_EQ(told(RankRoom::kTimedOut | 1 << 8).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(told(RankRoom::kMismatch | 1 << 8).code(), absl::StatusCode::kFailedPrecondition);
  // An abort after a kernel's reason leaves the reason.
  ASSERT_TRUE(group->Abort().ok());
  EXPECT_EQ(group->GetStatus(&rank).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(told(0).ok());
  ASSERT_TRUE(group->Abort().ok());
  EXPECT_EQ(group->GetStatus(&rank).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(HeadOf(*other).outcome, RankRoom::kAborted);
}

}  // namespace
}  // namespace sinter
