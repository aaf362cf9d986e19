// Prepare, explain, launch and tune through the ABI, for a target without a GPU.
#include <poll.h>

#include "sinter/sinter.hpp"
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

SearchPtr Search(const ContextPtr& context, const ChainPtr& chain, int64_t m,
                 sinter_choice choice = SINTER_CHOICE_BEST) {
  const auto options = Sized(sinter_prepare_options{.choice = choice});
  return Made<SearchPtr>(sinter_context_search, context.get(), chain.get(), m, &options);
}

TEST(SearchAbi, TellsThePlanWithoutACompiler) {
  const auto options = Sized(sinter_context_options{
      .log_level = SINTER_LOG_OFF, .target = "h200", .cache_dir = "", .nvrtc_path = "/no/nvrtc"});
  const ContextPtr context = Made<ContextPtr>(sinter_context_create, &options);
  const ChainPtr chain = FromText(kSmall);
  const SearchPtr found = Search(context, chain, 20);
  EXPECT_EQ(sinter_search_get_bucket(found.get()), 32);
  EXPECT_GT(sinter_search_get_kernel_count(found.get()), 0u);
  const double us = sinter_search_get_predicted_us(found.get());
  EXPECT_GT(us, 0);
  EXPECT_LE(us, sinter_search_get_unfused_us(found.get()));
  EXPECT_EQ(sinter_search_is_measured(found.get()), 0);
  EXPECT_STRNE(sinter_search_get_name(found.get()), "");
  const SearchPtr plain = Search(context, chain, 20, SINTER_CHOICE_UNFUSED);
  EXPECT_EQ(sinter_search_get_choice(plain.get()), SINTER_CHOICE_UNFUSED);
  EXPECT_EQ(sinter_search_get_predicted_us(plain.get()), sinter_search_get_unfused_us(found.get()));
  const sinter_stats stats = StatsOf(context);
  EXPECT_EQ(stats.searched, 1u);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_EQ(stats.nvrtc_loaded, 0u);
}

class PrepareAbi : public testing::Test {
 protected:
  void SetUp() override {
    const Result result = Prepare(context, &plan);
    if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
    ASSERT_EQ(result.status, SINTER_OK) << result.message;
  }
  Result Prepare(const ContextPtr& in, PlanPtr* out,
                 const sinter_prepare_options* options = nullptr, int64_t m = 20) {
    return TryMake(out, sinter_prepare, in.get(), chain.get(), m, options);
  }

  ScratchFolder folder;
  ContextPtr context = MakeTarget(folder.path().c_str());
  ChainPtr chain = FromText(kSmall);
  PlanPtr plan;
};

TEST_F(PrepareAbi, APlanTellsItsBucketBuffersAndDigest) {
  EXPECT_EQ(sinter_plan_get_bucket(plan.get()), 32);
  EXPECT_EQ(sinter_plan_get_buffer_count(plan.get()), 4u);
  EXPECT_NE(DigestOf(plan), Digest(32, 0));
}

TEST_F(PrepareAbi, ASearchTellsWhatAPrepareChoosesWhichDoesNotSearchAgain) {
  const uint64_t before = StatsOf(context).searched;
  const SearchPtr found = Search(context, chain, 100);
  PlanPtr prepared;
  EXPECT_EQ(Prepare(context, &prepared, nullptr, 100).status, SINTER_OK);
  EXPECT_EQ(StatsOf(context).searched, before + 1);
  EXPECT_EQ(sinter_search_get_bucket(found.get()), sinter_plan_get_bucket(prepared.get()));
  EXPECT_EQ(sinter_search_get_workspace_size(found.get()),
            sinter_plan_get_workspace_size(prepared.get()));
}

TEST_F(PrepareAbi, APlanTellsTheMostRowsOfALaunch) {
  EXPECT_EQ(sinter_plan_get_max_m(plan.get()), 32);
  const struct {
    const char* line;
    int64_t m, bucket, max_m;
  } cases[] = {
      // 32 images of 56 x 56 fill a pass: more are several.
      {"conv b=M ic=64 h=56 w=56 oc=64 k=3", 16, 16, 16},
      {"conv b=M ic=64 h=56 w=56 oc=64 k=3", 48, 32, INT32_MAX},
      {"rmsnorm rows=M cols=64", 9000, 8192, INT32_MAX},
  };
  for (const auto& c : cases) {
    const ChainPtr of = FromText(c.line);
    const PlanPtr made = Made<PlanPtr>(sinter_prepare, context.get(), of.get(), c.m, nullptr);
    EXPECT_EQ(sinter_plan_get_bucket(made.get()), c.bucket) << c.line;
    EXPECT_EQ(sinter_plan_get_max_m(made.get()), c.max_m) << c.line;
  }
}

TEST_F(PrepareAbi, TheSameBucketIsTheSamePlanAndAnotherContextHitsTheCache) {
  PlanPtr again;
  ASSERT_EQ(Prepare(context, &again, nullptr, 32).status, SINTER_OK);
  EXPECT_EQ(DigestOf(plan), DigestOf(again));
  EXPECT_EQ(StatsOf(context).searched, 1u);
  EXPECT_EQ(StatsOf(context).nvrtc_loaded, 1u);

  Ok(sinter_x_cache_flush, context.get());
  const ContextPtr warm = MakeTarget(folder.path().c_str());
  ASSERT_EQ(Prepare(warm, &again).status, SINTER_OK);
  EXPECT_EQ(DigestOf(plan), DigestOf(again));
  const sinter_stats stats = StatsOf(warm);
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_EQ(stats.nvrtc_loaded, 0u);
  EXPECT_EQ(stats.plan_hits, 1u);
  EXPECT_GT(stats.compile_seconds_saved, 1e-5);  // small where CI's NVRTC remembers the kernel
  EXPECT_LT(stats.compile_seconds_saved, 100);
  EXPECT_EQ(stats.gpu_time_saved_us, 0);
  EXPECT_EQ(stats.modules_loaded, 0u);  // no GPU
}

TEST_F(PrepareAbi, ADeniedToolchainNeitherServesNorCompiles) {
  Ok(sinter_x_cache_flush, context.get());
  const ContextPtr other = MakeTarget(folder.path().c_str());
  const auto deny = [&](const char* entries) {
    return Try(sinter_context_deny_toolchains, other.get(), entries);
  };
  EXPECT_EQ(deny(nullptr).status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(deny("13.0 and others").status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(deny("").status, SINTER_OK);
  std::string versions;
  for (int major = 12; major < 16; ++major) {
    for (int minor = 0; minor < 10; ++minor) {
      versions += std::to_string(major) + "." + std::to_string(minor) + ",";
    }
  }
  EXPECT_EQ(deny(versions.c_str()).status, SINTER_OK);
  PlanPtr none;
  EXPECT_TRUE(Fails(Prepare(other, &none), SINTER_FAILED_PRECONDITION, "is denied"));
  EXPECT_GE(StatsOf(other).cache_other_toolchain, 1u);
  EXPECT_EQ(StatsOf(other).kernels_compiled, 0u);

  const auto options = Sized(
      sinter_context_options{.target = "h200", .cache_dir = "", .deny_toolchains = "everything"});
  ContextPtr made;
  EXPECT_TRUE(Fails(TryMake(&made, sinter_context_create, &options), SINTER_INVALID_ARGUMENT,
                    "context.deny_toolchains"));
}

TEST_F(PrepareAbi, ExplainFollowsTheTwoCallPattern) {
  size_t required = 0;
  Ok(sinter_plan_explain, plan.get(), 0, nullptr, &required);
  ASSERT_GT(required, 40u);
  std::vector<char> text(required);
  size_t again = 0;
  Ok(sinter_plan_explain, plan.get(), text.size(), text.data(), &again);
  EXPECT_EQ(again, required);
  EXPECT_EQ(std::strlen(text.data()) + 1, required);
  EXPECT_THAT(text.data(), HasSubstr("m<=32"));
  char few[5] = {9, 9, 9, 9, 9};
  Ok(sinter_plan_explain, plan.get(), 4, few, &again);
  EXPECT_EQ(few[3], '\0');
  EXPECT_EQ(few[4], 9);
  EXPECT_EQ(again, required);
}

TEST_F(PrepareAbi, LaunchingWithoutAGpuIsUnavailable) {
  const std::vector<sinter_device_ptr> buffers(4, 0x1000);
  const int64_t m = 20;
  sinter_binding* binding = nullptr;
  EXPECT_EQ(Try(sinter_plan_bind, plan.get(), 4, buffers.data(), 0x1000, &binding).status,
            SINTER_UNAVAILABLE);
  EXPECT_EQ(
      Try(sinter_plan_launch, plan.get(), nullptr, 1, &m, 4, buffers.data(), 0x1000, 0).status,
      SINTER_UNAVAILABLE);
  EXPECT_EQ(Try(sinter_tune, context.get(), chain.get(), m, nullptr).status, SINTER_UNAVAILABLE);
  sinter_device_ptr ptr = 0;
  EXPECT_EQ(Try(sinter_x_device_alloc, context.get(), 16, &ptr).status, SINTER_UNAVAILABLE);
}

TEST_F(PrepareAbi, NumbersOfTuningAreRefusedByName) {
  sinter_tune_options good = SINTER_INIT(sinter_tune_options), bad[4] = {good, good, good, good};
  bad[0].deadline_us = -1;
  bad[1].top_k = -2;
  bad[2].switch_margin = -0.5;
  bad[3].switch_margin = std::numeric_limits<double>::infinity();
  const char* const messages[] = {"tune.deadline_us is -1, must be >= 0",
                                  "tune.top_k is -2, must be >= 0",
                                  "tune.switch_margin is -0.5, must be finite and >= 0",
                                  "tune.switch_margin is inf, must be finite and >= 0"};
  for (int i = 0; i < 4; ++i) {
    const Result refused = Try(sinter_tune, context.get(), chain.get(), 20, &bad[i]);
    EXPECT_EQ(refused.status, SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(refused.message, messages[i]);
  }
}

TEST_F(PrepareAbi, WrongCountsAreNamed) {
  const std::vector<sinter_device_ptr> buffers(4, 0x1000);
  sinter_binding* binding = nullptr;
  EXPECT_TRUE(Fails(Try(sinter_plan_bind, plan.get(), 3, buffers.data(), 0, &binding),
                    SINTER_INVALID_ARGUMENT, "buffer_count is 3, the plan binds 4"));
  sinter_x_text* source = nullptr;
  EXPECT_EQ(Try(sinter_x_plan_get_source, plan.get(), 99, &source).status, SINTER_OUT_OF_RANGE);
}

TEST_F(PrepareAbi, MustHitIsAMissOnAnEmptyCacheAndServesAWarmOne) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  PlanPtr other;
  EXPECT_EQ(Prepare(MakeTarget(), &other, &options).status, SINTER_ERROR_CACHE_MISS);
  EXPECT_EQ(other, nullptr);
  Ok(sinter_x_cache_flush, context.get());
  EXPECT_EQ(Prepare(MakeTarget(folder.path().c_str()), &other, &options).status, SINTER_OK);
}

TEST_F(PrepareAbi, NoBuildIsNotFoundOnAnEmptyCacheAndServesAWarmOne) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_NO_BUILD});
  PlanPtr other;
  const ContextPtr empty = MakeTarget();
  EXPECT_TRUE(Fails(Prepare(empty, &other, &options), SINTER_NOT_FOUND,
                    "is not in the cache: disabled: no local tier"));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(StatsOf(empty).nvrtc_loaded, 0u);
  Ok(sinter_x_cache_flush, context.get());
  const ContextPtr warm = MakeTarget(folder.path().c_str());
  EXPECT_EQ(Prepare(warm, &other, &options).status, SINTER_OK);
  EXPECT_EQ(StatsOf(warm).nvrtc_loaded, 0u);
}

TEST_F(PrepareAbi, BatchInvariantPlansSaySoAndAReductionOverRowsIsRefusedByName) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_BATCH_INVARIANT});
  PlanPtr invariant;
  ASSERT_EQ(Prepare(context, &invariant, &options).status, SINTER_OK);
  std::string text(1 << 16, '\0');
  Ok(sinter_plan_explain, invariant.get(), text.size(), &text[0], nullptr);
  EXPECT_THAT(text, HasSubstr("  batch-invariant\n"));

  chain = EmptyChain();
  const int32_t axis = 0;
  const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {SINTER_DIM_M, 64});
  sinter_value sum;
  Ok(sinter_chain_add_reduce, chain.get(), SINTER_REDUCE_SUM, x, 1, &axis, nullptr, &sum);
  Ok(sinter_chain_add_output, chain.get(), sum, nullptr);
  Ok(sinter_chain_finish, chain.get());
  PlanPtr none;
  EXPECT_TRUE(
      Fails(Prepare(context, &none, &options), SINTER_ERROR_NO_LEGAL_PLAN,
            "batch_invariant: op 1 (reduce) takes all rows of input 0, f32[M,64], together"));
}

TEST_F(PrepareAbi, AWorkspaceBeyondAnyGpuIsRefusedBeforeAnythingIsCompiled) {
  chain = FromText("layernorm rows=M cols=2000000000");
  PlanPtr none;
  const Result refused = Prepare(context, &none, nullptr, 8192);
  EXPECT_TRUE(Fails(refused, SINTER_ERROR_NO_LEGAL_PLAN, "it needs a workspace of 655360000"));
  EXPECT_THAT(refused.message, HasSubstr("at most 2^40 are taken: prepare the chain for fewer "));
  EXPECT_EQ(none, nullptr);
}

TEST_F(PrepareAbi, CancelDeadlineAndBadOptionsEndAPrepare) {
  sinter_cancel* cancel = nullptr;
  Ok(sinter_cancel_create, &cancel);
  sinter_cancel_request(cancel);
  auto options = Sized(sinter_prepare_options{.cancel = cancel});
  PlanPtr other;
  EXPECT_EQ(Prepare(context, &other, &options, 64).status, SINTER_CANCELLED);
  sinter_cancel_release(cancel);
  options = SINTER_INIT(sinter_prepare_options);
  options.deadline_us = 1;
  EXPECT_EQ(Prepare(MakeTarget(), &other, &options, 64).status, SINTER_DEADLINE_EXCEEDED);
  options.deadline_us = -1;
  EXPECT_EQ(Prepare(context, &other, &options).status, SINTER_INVALID_ARGUMENT);
  options = SINTER_INIT(sinter_prepare_options);
  options.choice = 3;
  EXPECT_THAT(Prepare(context, &other, &options).message, HasSubstr("prepare.choice is 3"));
  EXPECT_THAT(Prepare(context, &other, nullptr, -1).message, HasSubstr("m is -1, must be >= 0"));
  EXPECT_EQ(other, nullptr);
}

TEST_F(PrepareAbi, AnUnfinishedChainIsRefused) {
  chain = EmptyChain();
  PlanPtr other;
  EXPECT_TRUE(Fails(Prepare(context, &other), SINTER_FAILED_PRECONDITION, "sinter_chain_finish"));
}

struct Seen {
  std::atomic<int> calls{0};
  std::atomic<bool> in_range{true};
  static void Callback(uintptr_t user, const char* stage, double fraction) {
    auto* seen = reinterpret_cast<Seen*>(user);
    ++seen->calls;
    if (stage[0] == '\0' || fraction < 0 || fraction > 1) seen->in_range = false;
  }
};

TEST_F(PrepareAbi, ManyArePreparedAtOnceAndTheFirstFailureIsNamed) {
  const ContextPtr fresh = MakeTarget(folder.path().c_str());
  const ChainPtr bad = EmptyChain();
  const sinter_chain* chains[] = {chain.get(), chain.get(), chain.get()};
  const int64_t ms[] = {20, 30, 17};
  sinter_plan* plans[3] = {};
  sinter_status statuses[3] = {-1, -1, -1};
  Seen seen;
  const auto options =
      Sized(sinter_prepare_options{.progress = Seen::Callback,
                                   .progress_user_data = reinterpret_cast<uintptr_t>(&seen),
                                   .threads = 3});
  Ok(sinter_prepare_many, fresh.get(), 3, chains, ms, &options, plans, statuses);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(statuses[i], SINTER_OK);
    EXPECT_EQ(sinter_plan_get_bucket(plans[i]), 32);
    sinter_plan_release(plans[i]);
  }
  EXPECT_GE(seen.calls, 3);
  EXPECT_TRUE(seen.in_range);

  const int64_t one_bad[] = {20, -4, 17};
  const Result result =
      Try(sinter_prepare_many, fresh.get(), 3, chains, one_bad, nullptr, plans, statuses);
  EXPECT_TRUE(Fails(result, SINTER_INVALID_ARGUMENT, "chains[1]: m is -4"));
  EXPECT_EQ(statuses[0], SINTER_OK);
  EXPECT_EQ(plans[1], nullptr);
  sinter_plan_release(plans[0]);
  sinter_plan_release(plans[2]);
}

TEST_F(PrepareAbi, AnAsynchronousPrepareGivesItsPlanOrItsError) {
  PendingPtr pending =
      Made<PendingPtr>(sinter_prepare_async, context.get(), chain.get(), 20, nullptr);
  const PlanPtr first = Made<PlanPtr>(sinter_pending_get, pending.get(), INT64_MAX);
  EXPECT_EQ(sinter_pending_poll(pending.get()), 1);
  EXPECT_EQ(first.get(), Made<PlanPtr>(sinter_pending_get, pending.get(), 0).get());

  pending = Made<PendingPtr>(sinter_prepare_async, context.get(), chain.get(), -5, nullptr);
  PlanPtr none;
  EXPECT_TRUE(Fails(TryMake(&none, sinter_pending_get, pending.get(), -1), SINTER_INVALID_ARGUMENT,
                    "m is -5"));
}

// The thread that prepares is not in the child, which must neither wait for it nor join it.
TEST_F(PrepareAbi, TheChildOfAForkDoesNotWaitForItsParentsPrepare) {
  sinter_pending* pending = nullptr;
  Ok(sinter_prepare_async, context.get(), chain.get(), 20, nullptr, &pending);
  const int end = EndOfChild([&] {
    sinter_plan* plan = nullptr;
    bool fine = sinter_pending_poll(pending) == 1;
    fine &= sinter_pending_get(pending, -1, &plan, nullptr) == SINTER_FAILED_PRECONDITION;
    const auto ignore = [](uintptr_t, const sinter_pending*, sinter_status) {};
    fine &= sinter_pending_on_ready(pending, ignore, 0, nullptr) == SINTER_FAILED_PRECONDITION;
    fine &= sinter_pending_get_fd(pending) == -1;
    sinter_pending_release(pending);
    return fine ? 0 : 1;
  });
  EXPECT_EQ(end, 0);
  sinter_pending_release(pending);
}

// A prepare that waits at its first stage until it may go on.
struct Held {
  std::atomic<bool> go{false};
  sinter_pending* pending = nullptr;

  Held(const ContextPtr& context, const ChainPtr& chain, int64_t m = 20) {
    sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
    options.progress = [](uintptr_t user, const char*, double) {
      while (!reinterpret_cast<Held*>(user)->go) std::this_thread::yield();
    };
    options.progress_user_data = reinterpret_cast<uintptr_t>(this);
    Ok(sinter_prepare_async, context.get(), chain.get(), m, &options, &pending);
  }
};

// What calls saw.
struct Calls {
  std::atomic<int> count{0};
  std::atomic<sinter_status> status{-1};
  std::atomic<const sinter_pending*> pending{nullptr};
  std::atomic<bool> here{false};  // on the thread that made this
  const std::thread::id thread = std::this_thread::get_id();
  static void Callback(uintptr_t user, const sinter_pending* pending, sinter_status status) {
    auto* calls = reinterpret_cast<Calls*>(user);
    calls->status = status;
    calls->pending = pending;
    calls->here = std::this_thread::get_id() == calls->thread;
    ++calls->count;
  }
  Result AskFor(const sinter_pending* one) {
    return Try(sinter_pending_on_ready, one, Callback, reinterpret_cast<uintptr_t>(this));
  }
  void Await() {
    while (count == 0) std::this_thread::yield();
  }
};

TEST_F(PrepareAbi, WhoAsksBeforeTheEndIsCalledByTheThreadOfThePrepare) {
  Held held(context, chain);
  Calls first, second;
  EXPECT_EQ(first.AskFor(held.pending).status, SINTER_OK);
  EXPECT_EQ(second.AskFor(held.pending).status, SINTER_OK);
  EXPECT_EQ(first.count, 0);
  held.go = true;
  second.Await();
  for (const Calls* calls : {&first, &second}) {
    EXPECT_EQ(calls->count, 1);
    EXPECT_EQ(calls->status, SINTER_OK);
    EXPECT_EQ(calls->pending, held.pending);
    EXPECT_FALSE(calls->here);
  }
  sinter_pending_release(held.pending);
  EXPECT_EQ(first.count, 1);
}

TEST_F(PrepareAbi, WhoAsksAfterTheEndIsCalledAtOnce) {
  Held held(context, chain, -5);  // fails
  held.go = true;
  sinter_plan* none = nullptr;
  EXPECT_EQ(sinter_pending_get(held.pending, -1, &none, nullptr), SINTER_INVALID_ARGUMENT);
  Calls calls;
  EXPECT_EQ(calls.AskFor(held.pending).status, SINTER_OK);
  EXPECT_EQ(calls.count, 1);
  EXPECT_EQ(calls.status, SINTER_INVALID_ARGUMENT);
  EXPECT_TRUE(calls.here);
  const Result none_given = Try(sinter_pending_on_ready, held.pending, nullptr, 0);
  EXPECT_EQ(none_given.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(none_given.message, "callback is null");
  sinter_pending_release(held.pending);
}

TEST_F(PrepareAbi, AReleaseCallsBeforeItReturnsWithoutAHandle) {
  Held held(context, chain);
  Calls calls;
  EXPECT_EQ(calls.AskFor(held.pending).status, SINTER_OK);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.go = true;
  });
  sinter_pending_release(held.pending);
  EXPECT_EQ(calls.count, 1);
  EXPECT_EQ(calls.status, SINTER_CANCELLED);
  EXPECT_EQ(calls.pending, nullptr);
  later.join();
}

TEST_F(PrepareAbi, APendingPrepareKeepsItsContextAndChain) {
  ContextPtr own = MakeTarget();
  ChainPtr big = FromText("gemm_chain m=M n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16");
  for (const bool released : {true, false}) {
    Held held(own, big, 128);
    Calls calls;
    EXPECT_EQ(calls.AskFor(held.pending).status, SINTER_OK);
    if (!released) {  // the last to hold them is the prepare itself
      own.reset();
      big.reset();
      held.go = true;
      calls.Await();
      EXPECT_EQ(calls.status, SINTER_OK);
    }
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      held.go = true;
    });
    sinter_pending_release(held.pending);
    later.join();
    EXPECT_EQ(calls.count, 1);
    EXPECT_EQ(calls.status, released ? SINTER_CANCELLED : SINTER_OK);
  }
}

TEST_F(PrepareAbi, ACallMayTakeThePlanAndReleaseThePending) {
  struct Taken {
    std::atomic<sinter_plan*> plan{nullptr};
  } taken;
  Held held(context, chain);
  Ok([&](auto e) {
    return sinter_pending_on_ready(
        held.pending,
        [](uintptr_t user, const sinter_pending* pending, sinter_status) {
          sinter_plan* plan = nullptr;
          Ok([&](auto error) { return sinter_pending_get(pending, 0, &plan, error); });
          sinter_pending_release(pending);  // the last
          reinterpret_cast<Taken*>(user)->plan = plan;
        },
        reinterpret_cast<uintptr_t>(&taken), e);
  });
  held.go = true;
  while (taken.plan == nullptr) std::this_thread::yield();
  EXPECT_EQ(sinter_plan_get_bucket(taken.plan), 32);
  sinter_plan_release(taken.plan);
}

TEST_F(PrepareAbi, AReleaseWaitsForACallThatRuns) {
  struct Slow {
    std::atomic<bool> begun{false}, ended{false};
    static void Callback(uintptr_t user, const sinter_pending*, sinter_status) {
      auto* slow = reinterpret_cast<Slow*>(user);
      slow->begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      slow->ended = true;
    }
  } slow;
  Held held(context, chain);
  Ok(sinter_pending_on_ready, held.pending, Slow::Callback, reinterpret_cast<uintptr_t>(&slow));
  held.go = true;
  while (!slow.begun) std::this_thread::yield();
  sinter_pending_release(held.pending);
  EXPECT_TRUE(slow.ended);
}

// Each throws what it is asked for.
void ThrowWhenReady(uintptr_t what, const sinter_pending*, sinter_status) {
  if (what == 0) throw 17;
  throw std::runtime_error(reinterpret_cast<const char*>(what));
}
const auto kBoom = reinterpret_cast<uintptr_t>("boom");

TEST_F(PrepareAbi, WhatAReadyCallbackThrowsIsAnError) {
  Messages log;
  const auto options =
      Sized(sinter_context_options{.target = "h200",
                                   .cache_dir = folder.path().c_str(),
                                   .log = Messages::Callback,
                                   .log_user_data = reinterpret_cast<uintptr_t>(&log)});
  const ContextPtr own = Made<ContextPtr>(sinter_context_create, &options);
  Held held(own, chain);
  for (const uintptr_t what : {kBoom, uintptr_t{0}}) {
    Ok(sinter_pending_on_ready, held.pending, ThrowWhenReady, what);
  }
  Calls last;
  EXPECT_EQ(last.AskFor(held.pending).status, SINTER_OK);
  held.go = true;
  last.Await();
  EXPECT_EQ(last.status, SINTER_OK);
  const Result at_once = Try(sinter_pending_on_ready, held.pending, ThrowWhenReady, kBoom);
  EXPECT_EQ(at_once.status, SINTER_INTERNAL);
  EXPECT_EQ(at_once.message, "the ready callback threw: boom");
  sinter_pending_release(held.pending);
  const std::lock_guard<std::mutex> lock(log.mutex);
  EXPECT_THAT(log.all, HasSubstr("the ready callback threw: boom"));
  EXPECT_THAT(log.all,
              HasSubstr("the ready callback threw an object that is not a std::exception"));
}

TEST_F(PrepareAbi, AFunctionOfCppThatThrowsIsAnErrorAndGivenBackOnce) {
  const auto kept = std::make_shared<int>(0);
  const auto throws = [kept](sinter_status) { throw std::runtime_error("boom"); };
  Held held(context, chain);
  sinter_pending_retain(held.pending);
  sinter::Pending pending(held.pending);
  EXPECT_TRUE(pending.OnReady(throws).ok());
  Calls last;
  EXPECT_EQ(last.AskFor(held.pending).status, SINTER_OK);
  held.go = true;
  last.Await();
  EXPECT_EQ(pending.OnReady(throws).code(), SINTER_INTERNAL);
  sinter_pending_release(held.pending);
  pending = sinter::Pending();
  EXPECT_EQ(kept.use_count(), 2);  // this and what `throws` holds
}

TEST_F(PrepareAbi, WhatAProgressCallbackThrowsEndsItsPrepare) {
  sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
  options.progress = [](uintptr_t, const char* stage, double) { throw std::runtime_error(stage); };
  PlanPtr none;
  const char kMessage[] = "the progress callback threw: ";
  EXPECT_TRUE(Fails(Prepare(context, &none, &options), SINTER_INTERNAL, kMessage));

  const sinter_chain* chains[] = {chain.get(), chain.get()};
  const int64_t ms[] = {20, 40};
  options.threads = 2;
  sinter_plan* plans[2] = {};
  const Result many =
      Try(sinter_prepare_many, context.get(), 2, chains, ms, &options, plans, nullptr);
  EXPECT_TRUE(Fails(many, SINTER_INTERNAL, kMessage));

  const PendingPtr pending =
      Made<PendingPtr>(sinter_prepare_async, context.get(), chain.get(), 20, &options);
  EXPECT_TRUE(
      Fails(TryMake(&none, sinter_pending_get, pending.get(), -1), SINTER_INTERNAL, kMessage));
}

TEST_F(PrepareAbi, WhatALogOrEventCallbackThrowsHurtsNobody) {
  auto options = Sized(sinter_context_options{
      .log_level = SINTER_LOG_DEBUG, .target = "h200", .cache_dir = folder.path().c_str()});
  options.log = [](uintptr_t, sinter_log_level, const char*) { throw 17; };
  const ContextPtr own = Made<ContextPtr>(sinter_context_create, &options);
  Ok(
      sinter_x_context_on_event, own.get(), [](uintptr_t, const sinter_x_event*) { throw 18; }, 0);
  PlanPtr again;
  EXPECT_EQ(Prepare(own, &again).status, SINTER_OK);
}

// Functions of their own: calls that were ended stay so.
std::atomic<int> endings{0};
std::atomic<bool> ending_goes_on{false};
void CountEnding(uintptr_t, const sinter_pending*, sinter_status) {
  ++endings;
  while (!ending_goes_on) std::this_thread::yield();
  ++endings;
}

TEST_F(PrepareAbi, ACallbackWhoseCallsWereEndedIsWaitedForAndCalledNoMore) {
  const auto function = reinterpret_cast<sinter_x_function>(CountEnding);
  Held held(context, chain);
  for (int i = 0; i < 2; ++i) Ok(sinter_pending_on_ready, held.pending, CountEnding, 0);
  held.go = true;
  while (endings == 0) std::this_thread::yield();
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ending_goes_on = true;
  });
  Ok(sinter_x_end_calls, function);
  EXPECT_EQ(endings, 2);  // the first call was waited for, the second not begun
  later.join();
  Ok(sinter_pending_on_ready, held.pending, CountEnding, 0);
  sinter_pending_release(held.pending);
  EXPECT_EQ(endings, 2);
}

// False for a closed descriptor, and for one that another thread has opened under its number
// meanwhile.
bool IsEventDescriptor(int fd) {
  char target[64] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), target, sizeof(target) - 1) > 0 &&
         std::strstr(target, "eventfd") != nullptr;
}

TEST_F(PrepareAbi, ADescriptorIsReadableOnceThePrepareHasEndedAndForGood) {
  const auto readable = [](int fd, int timeout_ms) {
    pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, timeout_ms) == 1 && (one.revents & POLLIN) != 0;
  };
  for (const bool asked_before : {true, false}) {
    Held held(context, chain);
    int fd = -1;
    if (asked_before) {
      fd = sinter_pending_get_fd(held.pending);
      ASSERT_GE(fd, 0);
      EXPECT_TRUE(IsEventDescriptor(fd));
      EXPECT_FALSE(readable(fd, 0));
      held.go = true;
      EXPECT_TRUE(readable(fd, 20000));
    } else {
      held.go = true;
      EXPECT_NE(Made<PlanPtr>(sinter_pending_get, held.pending, -1), nullptr);
      fd = sinter_pending_get_fd(held.pending);
    }
    EXPECT_EQ(sinter_pending_get_fd(held.pending), fd);
    EXPECT_EQ(sinter_pending_poll(held.pending), 1);
    for (int i = 0; i < 3; ++i) {
      uint64_t count = 0;
      EXPECT_TRUE(readable(fd, 0));
      EXPECT_EQ(read(fd, &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
    }
    sinter_pending_release(held.pending);
    EXPECT_FALSE(IsEventDescriptor(fd)) << "not closed";
  }
}

TEST(ContextAbi, AnUnmeasuredModelIsPreparedForAndLogged) {
  Messages lines;
  const auto options =
      Sized(sinter_context_options{.log_level = SINTER_LOG_DEBUG,
                                   .target = "h100",
                                   .cache_dir = "",
                                   .log = Messages::Callback,
                                   .log_user_data = reinterpret_cast<uintptr_t>(&lines)});
  const ContextPtr owned = Made<ContextPtr>(sinter_context_create, &options);
  PlanPtr plan;
  const ChainPtr chain = FromText(kSmall);
  const Result result = TryMake(&plan, sinter_prepare, owned.get(), chain.get(), 8, nullptr);
  if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
  EXPECT_EQ(result.status, SINTER_OK) << result.message;
  EXPECT_FALSE(lines.all.empty());
}

TEST(ContextAbi, OptionsWinOverTheEnvironment) {
  ScratchFolder folder;
  ASSERT_EQ(setenv("SINTER_CACHE_DIR", "/dev/null/of/the/environment", 1), 0);
  const ContextPtr from_environment = MakeTarget(nullptr);
  const auto folder_of = [](const ContextPtr& context) {
    const TextPtr json = Made<TextPtr>(sinter_x_context_describe, context.get());
    return std::string(sinter_x_text_get(json.get()));
  };
  EXPECT_THAT(folder_of(from_environment),
              HasSubstr("\"cache_dir\": \"/dev/null/of/the/environment\""));
  const ContextPtr from_option = MakeTarget(folder.path().c_str());
  EXPECT_THAT(folder_of(from_option), HasSubstr("\"cache_dir\": \"" + folder.path() + "\""));
  ASSERT_EQ(setenv("SINTER_CACHE", "perhaps", 1), 0);
  sinter_context* context = nullptr;
  EXPECT_TRUE(Fails(Try(sinter_context_create, nullptr, &context), SINTER_INVALID_ARGUMENT,
                    "SINTER_CACHE"));
  unsetenv("SINTER_CACHE");
  unsetenv("SINTER_CACHE_DIR");
}

TEST(ContextAbi, ADescriptionSaysWhetherAMissIsAnError) {
  const auto told = [](sinter_switch must_hit) {
    const auto options = Sized(sinter_context_options{.target = "h200", .must_hit = must_hit});
    const ContextPtr owned = Made<ContextPtr>(sinter_context_create, &options);
    const TextPtr json = Made<TextPtr>(sinter_x_context_describe, owned.get());
    return std::string(sinter_x_text_get(json.get()));
  };
  EXPECT_THAT(told(SINTER_SWITCH_DEFAULT), HasSubstr("\"must_hit\": false"));
  EXPECT_THAT(told(SINTER_SWITCH_ON), HasSubstr("\"must_hit\": true"));
  ASSERT_EQ(setenv("SINTER_MUST_HIT", "1", 1), 0);
  EXPECT_THAT(told(SINTER_SWITCH_DEFAULT), HasSubstr("\"must_hit\": true"));
  EXPECT_THAT(told(SINTER_SWITCH_OFF), HasSubstr("\"must_hit\": false"));
  unsetenv("SINTER_MUST_HIT");
}

TEST(ContextAbi, BadOptionsAreNamed) {
  sinter_context* context = nullptr;
  const auto create = [&](const sinter_context_options& options) {
    return Try(sinter_context_create, &options, &context);
  };
  auto options = Sized(sinter_context_options{.device = -1});
  EXPECT_THAT(create(options).message, HasSubstr("context.device is -1"));
  options = SINTER_INIT(sinter_context_options);
  options.target = "h300";
  EXPECT_THAT(create(options).message, HasSubstr("h300"));
  options = SINTER_INIT(sinter_context_options);
  options.target = "h200";
  options.must_hit = 3;
  EXPECT_THAT(create(options).message, HasSubstr("context.must_hit is 3"));
  options.must_hit = 0;
  options.log_level = 6;
  EXPECT_THAT(create(options).message, HasSubstr("context.log_level is 6"));
  EXPECT_EQ(context, nullptr);
}

TEST(ContextAbi, ADescriptionIsJsonWithTheModel) {
  const ContextPtr context = MakeTarget();
  const TextPtr owned = Made<TextPtr>(sinter_x_context_describe, context.get());
  EXPECT_THAT(sinter_x_text_get(owned.get()), HasSubstr("\"gpu\": false"));
  EXPECT_THAT(sinter_x_text_get(owned.get()), HasSubstr("\"sm_count\": 132"));
}

}  // namespace
}  // namespace sinter_test
