// The events that an engine reports while it prepares.
#include "src/engine/control.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// Kinds in order; the rest of each by its place.
struct Heard {
  std::mutex mutex;  // kernels are built in parallel
  std::vector<EngineEvent> events;
  std::vector<EventKind> kinds() const {
    std::vector<EventKind> kinds;
    for (const EngineEvent& event : events) kinds.push_back(event.kind);
    return kinds;
  }
  void Listen(const std::shared_ptr<Engine>& engine) {
    ASSERT_TRUE(engine
                    ->TellEvents([this](const EngineEvent& event) {
                      const std::lock_guard<std::mutex> lock(mutex);
                      events.push_back(event);
                    })
                    .ok());
  }
};

TEST(EventsTest, AColdPrepareTellsWhatItDid) {
  FakeWorld world;
  Heard heard;  // outlives the engine, as its callback must
  const auto engine = world.MakeEngine();
  heard.Listen(engine);
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  // Looked up again behind the lock of the build.
  EXPECT_THAT(heard.kinds(), ElementsAre(EventKind::kLookUp, EventKind::kLookUp, EventKind::kSearch,
                                         EventKind::kLookUp, EventKind::kLookUp,
                                         EventKind::kCompile, EventKind::kLoad));
  for (const EngineEvent& event : heard.events) {
    EXPECT_EQ(event.chain, world.chain.CanonicalDigest());
    EXPECT_EQ(event.bucket, 16);
    EXPECT_GE(event.us, 0);
  }
  EXPECT_EQ(heard.events[0].reason, "absent");
  EXPECT_EQ(heard.events[0].subject, "plan");
  EXPECT_EQ(heard.events[2].plan, plan->ChosenDigest());
  EXPECT_GT(heard.events[5].bytes, 0u);
  EXPECT_EQ(heard.events[6].bytes, heard.events[5].bytes);

  heard.events.clear();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(heard.events.empty());  // it lives
}

TEST(EventsTest, AWarmPrepareNamesTheTier) {
  FakeWorld world;
  Heard heard;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const auto engine = world.MakeEngine();
  heard.Listen(engine);
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_THAT(heard.kinds(), ElementsAre(EventKind::kLookUp, EventKind::kLookUp, EventKind::kLoad));
  EXPECT_NE(heard.events[0].tier, "");
  EXPECT_EQ(heard.events[0].reason, "");
}

TEST(EventsTest, AFallbackAndAFailedCompileSayWhy) {
  FakeWorld world;
  Heard heard;
  world.refused = {"grid"};
  const auto engine = world.MakeEngine();
  heard.Listen(engine);
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  int failures = 0;
  for (const EngineEvent& event : heard.events) {
    if (event.kind == EventKind::kCompile && !event.reason.empty()) ++failures;
  }
  EXPECT_EQ(failures, 1);
  ASSERT_EQ(heard.events.back().kind, EventKind::kFallback);
  EXPECT_THAT(heard.events.back().reason, HasSubstr("registers spill in grid"));
  EXPECT_EQ(heard.events.back().plan, plan->plan().PlanDigest());
}

TEST(EventsTest, AModuleThatGoesIsTold) {
  FakeWorld world;
  Heard heard;
  const auto engine = world.MakeEngine({.module_cache_bytes = 1});
  heard.Listen(engine);
  auto plan = engine->Prepare(world.chain, 16, {}).value();
  const uint64_t bytes = heard.events.back().bytes;
  heard.events.clear();
  plan.reset();
  ASSERT_THAT(heard.kinds(), ElementsAre(EventKind::kUnload));
  EXPECT_EQ(heard.events[0].bytes, bytes);
  EXPECT_EQ(heard.events[0].subject.size(), 16u);
}

TEST(EventsTest, ThereIsOneCallback) {
  FakeWorld world;
  Heard heard;
  const auto engine = world.MakeEngine();
  heard.Listen(engine);
  EXPECT_TRUE(absl::IsAlreadyExists(engine->TellEvents([](const EngineEvent&) {})));
}

}  // namespace
}  // namespace sinter
