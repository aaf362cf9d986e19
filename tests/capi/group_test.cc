// Groups of GPUs over the ABI, on a fake driver with several GPUs: FAKE_LIBCUDA names it.
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

using GroupPtr = std::unique_ptr<sinter_group, Releaser<sinter_group_release>>;

ContextPtr OnGpu(int device) {
  const auto options = Sized(sinter_context_options{
      .device = device, .log_level = SINTER_LOG_OFF, .cache_dir = "", .driver_path = FAKE_LIBCUDA});
  return Made<ContextPtr>(sinter_context_create, &options);
}

// An all-gather between threads, of two ranks. user_data: a Side.
struct Meeting {
  std::mutex mutex;
  std::condition_variable all;
  std::vector<char> parts[2], whole;
  int arrived = 0, round = 0;
  sinter_status status = SINTER_OK;
};
struct Side {
  Meeting* meeting;
  int rank;
};
sinter_status Meet(uintptr_t user_data, const void* send, size_t bytes, void* recv) {
  const Side& side = *reinterpret_cast<const Side*>(user_data);
  Meeting& meeting = *side.meeting;
  if (meeting.status != SINTER_OK) return meeting.status;
  std::unique_lock<std::mutex> lock(meeting.mutex);
  const char* from = static_cast<const char*>(send);
  meeting.parts[side.rank].assign(from, from + bytes);
  const int round = meeting.round;
  if (++meeting.arrived == 2) {
    meeting.whole = meeting.parts[0];
    meeting.whole.insert(meeting.whole.end(), meeting.parts[1].begin(), meeting.parts[1].end());
    meeting.arrived = 0;
    ++meeting.round;
    meeting.all.notify_all();
  } else {
    meeting.all.wait(lock, [&] { return meeting.round != round; });
  }
  std::memcpy(recv, meeting.whole.data(), meeting.whole.size());
  return SINTER_OK;
}

sinter_group_options Options(const Side& side, int size = 2) {
  const auto options = Sized(sinter_group_options{.rank = side.rank,
                                                  .size = size,
                                                  .slot_bytes = 64 << 10,
                                                  .exchange = Meet,
                                                  .user_data = reinterpret_cast<uintptr_t>(&side)});
  return options;
}

TEST(Group, TwoRanksMeetLiveAndAbort) {
  Meeting meeting;
  sinter_group* made[2] = {};
  OnThreads(2, [&](int r) {
    const ContextPtr context = OnGpu(r);
    const Side side{&meeting, r};
    const sinter_group_options options = Options(side);
    Ok(sinter_group_create, context.get(), &options, &made[r]);
  });
  const GroupPtr first(made[0]), second(made[1]);
  int32_t rank = 7;
  EXPECT_EQ(sinter_group_get_status(first.get(), &rank, nullptr), SINTER_OK);
  EXPECT_EQ(rank, -1);
  EXPECT_EQ(sinter_group_abort(second.get(), nullptr), SINTER_OK);
  const Result ended = Try(sinter_group_get_status, second.get(), &rank);
  EXPECT_EQ(ended.status, SINTER_ABORTED);
  EXPECT_EQ(rank, 1);
  EXPECT_THAT(ended.message, HasSubstr("rank 1 aborted the group"));
}

// `of(r, options, context)` edits what rank r passes; its results.
std::vector<Result> CreateBoth(
    Meeting& meeting, sinter_group* (&made)[2],
    const std::function<void(int, sinter_group_options&, sinter_context*&)>& of) {
  std::vector<Result> results(2);
  OnThreads(2, [&](int r) {
    const ContextPtr context = OnGpu(r), target = MakeTarget();
    const Side side{&meeting, r};
    sinter_group_options options = Options(side);
    sinter_context* used = context.get();
    of(r, options, used);
    if (used == nullptr) used = target.get();  // one without a GPU
    results[static_cast<size_t>(r)] = Try(sinter_group_create, used, &options, &made[r]);
  });
  return results;
}

// Groups whose exchange uses `sides`, which outlive it.
std::vector<GroupPtr> GroupsOf(const Side (&sides)[2], uint32_t flags = 0) {
  sinter_group* made[2] = {};
  for (const Result& result : CreateBoth(
           *sides[0].meeting, made, [&](int r, sinter_group_options&options, sinter_context*&) {
             options.user_data = reinterpret_cast<uintptr_t>(&sides[r]);
             options.flags = flags;
           })) {
    EXPECT_EQ(result.status, SINTER_OK) << result.message;
  }
  std::vector<GroupPtr> groups;
  for (sinter_group* group : made) groups.emplace_back(group);
  return groups;
}

TEST(Group, AnErrorBeforeTheExchangeIsToldToTheOthers) {
  Meeting meeting;
  sinter_group* made[2] = {};
  auto results = CreateBoth(
      meeting, made,
      [](int r, sinter_group_options& options, sinter_context*&) { options.reserved = r; });
  EXPECT_EQ(results[1].status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(results[0].status, SINTER_FAILED_PRECONDITION);
  EXPECT_THAT(results[0].message, HasSubstr("rank 1: group.reserved is 1, must be 0"));
  results = CreateBoth(meeting, made, [](int r, sinter_group_options&, sinter_context*& context) {
    if (r == 0) context = nullptr;
  });
  EXPECT_EQ(results[0].status, SINTER_UNAVAILABLE);
  EXPECT_EQ(results[1].status, SINTER_FAILED_PRECONDITION);
  EXPECT_THAT(results[1].message, HasSubstr("rank 0: "));
  EXPECT_EQ(made[0], nullptr);
  EXPECT_EQ(made[1], nullptr);
}

TEST(Group, ClosesOnAllRanks) {
  Meeting meeting;
  const Side sides[2] = {{&meeting, 0}, {&meeting, 1}};  // as long as the exchange is used
  const std::vector<GroupPtr> groups = GroupsOf(sides);
  std::thread other([&] { EXPECT_TRUE(Ok(sinter_group_close, groups[1].get())); });
  EXPECT_TRUE(Ok(sinter_group_close, groups[0].get()));
  other.join();
  EXPECT_EQ(sinter_group_close(groups[0].get(), nullptr), SINTER_OK);
  EXPECT_EQ(sinter_group_get_status(groups[0].get(), nullptr, nullptr), SINTER_OK);
  EXPECT_EQ(sinter_group_close(nullptr, nullptr), SINTER_INVALID_ARGUMENT);
}

TEST(Group, SharesMemoryByFileDescriptorsWhereAskedTo) {
  Meeting meeting;
  const Side sides[2] = {{&meeting, 0}, {&meeting, 1}};
  const std::vector<GroupPtr> groups = GroupsOf(sides, SINTER_GROUP_DESCRIPTORS);
  sinter_group* made[2] = {};
  EXPECT_EQ(sinter_group_get_status(groups[0].get(), nullptr, nullptr), SINTER_OK);
  const auto results =
      CreateBoth(meeting, made, [](int r, sinter_group_options& options, sinter_context*&) {
        if (r == 1) options.flags = SINTER_GROUP_DESCRIPTORS;
      });
  for (const Result& result : results) {
    EXPECT_TRUE(Fails(result, SINTER_FAILED_PRECONDITION,
                      "rank 1 has SINTER_GROUP_DESCRIPTORS, rank 0 lacks it"));
  }
}

TEST(Group, OfOneProcess) {
  const ContextPtr contexts[2] = {OnGpu(0), OnGpu(1)};
  sinter_context* raw[2] = {contexts[0].get(), contexts[1].get()};
  const auto options = Sized(sinter_group_options{.slot_bytes = 64 << 10});
  sinter_group* made[2] = {};
  ASSERT_TRUE(Ok(sinter_group_create_local, raw, 2, &options, made));
  const GroupPtr first(made[0]), second(made[1]);
  EXPECT_EQ(sinter_group_get_status(second.get(), nullptr, nullptr), SINTER_OK);
  raw[1] = raw[0];
  const Result same = Try(sinter_group_create_local, raw, 2, &options, made);
  EXPECT_TRUE(Fails(same, SINTER_FAILED_PRECONDITION, "ranks 0 and 1 have the same GPU"));
  for (const uint32_t size : {0u, 1u, 9u}) {
    const Result result = Try(sinter_group_create_local, raw, size, &options, made);
    EXPECT_EQ(result.status, SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(result.message, "size is " + std::to_string(size) + ", must be 2 to 8");
  }
}

TEST(Group, WhatIsWrongWithOptionsIsNamed) {
  const ContextPtr context = OnGpu(0), target = MakeTarget();
  Meeting meeting{.status = SINTER_UNAVAILABLE};
  const Side side{&meeting, 0};
  sinter_group* group = nullptr;
  const auto create = [&](const sinter_group_options& options, sinter_context* in) {
    return Try(sinter_group_create, in, &options, &group);
  };
  sinter_group_options options = Options(side, 9);
  EXPECT_THAT(create(options, context.get()).message, HasSubstr("group.size is 9, must be 2 to 8"));
  options = Options(side);
  options.exchange = nullptr;
  EXPECT_THAT(create(options, context.get()).message, HasSubstr("group.exchange is null"));
  options = Options(side);
  options.flags = SINTER_GROUP_NO_TIMEOUT;
  options.timeout_ms = 3;
  EXPECT_THAT(create(options, context.get()).message, HasSubstr("group.timeout_ms is 3"));
  options = Options(side);
  const sinter_device_ptr peers[2] = {1 << 20, 2 << 20};
  options.peers = peers;
  options.flags = SINTER_GROUP_DESCRIPTORS;
  EXPECT_THAT(create(options, context.get()).message,
              HasSubstr("group.flags has SINTER_GROUP_DESCRIPTORS, must not with group.peers"));
  options.flags = 4;
  EXPECT_EQ(create(options, context.get()).status, SINTER_INVALID_ARGUMENT);
  options = Options(side);
  EXPECT_EQ(create(options, target.get()).status, SINTER_UNAVAILABLE);
  EXPECT_TRUE(Fails(create(options, context.get()), SINTER_UNAVAILABLE,
                    "group.exchange returned UNAVAILABLE"));
  EXPECT_EQ(group, nullptr);
  EXPECT_EQ(sinter_group_create(nullptr, &options, &group, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_group_create(context.get(), &options, nullptr, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_group_create_local(nullptr, 2, nullptr, &group, nullptr),
            SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(sinter_group_get_status(nullptr, nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  int32_t meant = 1;
  EXPECT_EQ(sinter_group_get_status(nullptr, &meant, nullptr), SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(meant, -1) << "the rank is written always";
  EXPECT_EQ(sinter_group_abort(nullptr, nullptr), SINTER_INVALID_ARGUMENT);
  sinter_group_retain(nullptr), sinter_group_release(nullptr);
}

TEST(Group, SaysHowLargeARoomIs) {
  EXPECT_EQ(sinter_group_get_room_bytes(2, 65536), 4096u + 4 * 65536);
  EXPECT_EQ(sinter_group_get_room_bytes(2, 0), 4096u + (256u << 20));
  EXPECT_EQ(sinter_group_get_room_bytes(8, 0), 4096u + (32u << 20));
  EXPECT_EQ(sinter_group_get_room_bytes(1, 0), 0u);
  EXPECT_EQ(sinter_group_get_room_bytes(9, 0), 0u);
  EXPECT_EQ(sinter_group_get_room_bytes(2, uint64_t{1} << 32), 4096u + (uint64_t{4} << 32));
  for (const uint64_t slot : {uint64_t{4096}, uint64_t{65537}, uint64_t{1} << 33, ~uint64_t{0}}) {
    EXPECT_EQ(sinter_group_get_room_bytes(2, slot), 0u) << slot;
  }
}

// Else the others would wait in theirs. Here the exchange fails, so that its error is the bind's.
TEST(Group, AWrongBufferCountIsFoundBehindTheExchange) {
  Meeting meeting;
  const Side sides[2] = {{&meeting, 0}, {&meeting, 1}};
  const std::vector<GroupPtr> groups = GroupsOf(sides);
  const ContextPtr target = MakeTarget();
  const ChainPtr chain = FromText("all_reduce rows=M cols=64 ranks=2");
  const auto plan = Made<PlanPtr>(sinter_prepare, target.get(), chain.get(), 16, nullptr);
  ASSERT_NE(plan, nullptr);
  meeting.status = SINTER_ABORTED;
  const sinter_device_ptr buffer = 0x1000;
  sinter_binding* binding = nullptr;
  const Result bound =
      Try(sinter_plan_bind_group, plan.get(), 1, &buffer, 0, groups[0].get(), &binding);
  EXPECT_EQ(bound.status, SINTER_ABORTED) << bound.message;
  EXPECT_EQ(binding, nullptr);
}

TEST(Group, APlanOfAnotherGpuThanTheRanksIsRefused) {
  const ContextPtr contexts[2] = {OnGpu(0), OnGpu(1)};
  sinter_context* raw[2] = {contexts[0].get(), contexts[1].get()};
  sinter_group* made[2] = {};
  ASSERT_TRUE(Ok(sinter_group_create_local, raw, 2, nullptr, made));
  const GroupPtr groups[2] = {GroupPtr(made[0]), GroupPtr(made[1])};
  const ChainPtr chain = FromText("all_reduce rows=M cols=64 ranks=2");
  for (int gpu = 0; gpu < 2; ++gpu) {
    sinter_plan* prepared = nullptr;
    ASSERT_TRUE(Ok(sinter_prepare, raw[gpu], chain.get(), 16, nullptr, &prepared));
    const PlanPtr plan(prepared);
    const sinter_device_ptr buffers[2] = {1 << 20, 2 << 20};
    sinter_binding* binding = nullptr;
    const Result bound =
        Try(sinter_plan_bind_group, plan.get(), 2, buffers, 0, groups[0].get(), &binding);
    sinter_binding_release(binding);
    if (gpu == 0) {
      EXPECT_EQ(bound.status, SINTER_OK) << bound.message;
      continue;
    }
    EXPECT_TRUE(Fails(bound, SINTER_INVALID_ARGUMENT,
                      "the plan was prepared for GPU 1, the group's rank 0 is "
                      "GPU 0: prepare the chain in that rank's context"));
  }
}

TEST(Group, BindingWithoutAPlanOrAGroupIsAnError) {
  sinter_binding* binding = nullptr;
  EXPECT_TRUE(Fails(Try(sinter_plan_bind_group, nullptr, 0, nullptr, 0, nullptr, &binding),
                    SINTER_INVALID_ARGUMENT, "plan"));
  EXPECT_EQ(binding, nullptr);
}

}  // namespace
}  // namespace sinter_test
