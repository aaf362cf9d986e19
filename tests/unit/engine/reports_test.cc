#include "src/engine/control.h"
#include "src/engine/prepared_plan.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// Where a dump writes: never through a link, never over what no dump wrote, never into a fifo.

namespace fs = std::filesystem;

class DumpTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return base_ / name; }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat st {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }

  const TempDir base_;
};

TEST_F(DumpTest, FoldersArePrivateAndAFileOfADumpIsReplaced) {
  const mode_t before = umask(0);
  for (const char* text : {"first", "2nd"}) {
    const auto top = Got(DumpFolder::Open(At("a/b//./c")));
    EXPECT_TRUE(Got(top.Sub("0123456789abcdef")).Write("plan.txt", text).ok());
    EXPECT_EQ(FileText(At("a/b/c/0123456789abcdef/plan.txt")), text);
  }
  umask(before);
  for (const char* made : {"a", "a/b", "a/b/c", "a/b/c/0123456789abcdef"}) {
    EXPECT_EQ(ModeOf(At(made)), 0700u) << made;
  }
  EXPECT_EQ(ModeOf(At("a/b/c/0123456789abcdef/plan.txt")), 0600u);
}

TEST_F(DumpTest, ALinkOnTheWayIsRefusedByName) {
  fs::create_directory(At("victim"));
  fs::create_symlink(At("victim"), At("link"));
  for (const char* path : {"link", "link/below"}) {
    EXPECT_TRUE(
        Fails(DumpFolder::Open(At(path)), absl::StatusCode::kPermissionDenied, "link: is a link"));
  }
  const auto top = Got(DumpFolder::Open(At("dump")));
  fs::create_symlink(At("victim"), At("dump/plan"));
  EXPECT_TRUE(absl::IsPermissionDenied(top.Sub("plan").status()));
  EXPECT_TRUE(fs::is_empty(At("victim")));
}

TEST_F(DumpTest, WhatNoDumpWroteStaysAsItIs) {
  Put(At("victim"), "mine");
  const auto top = Got(DumpFolder::Open(At("dump")));
  const auto folder = Got(top.Sub("plan"));
  fs::create_symlink(At("victim"), At("dump/plan/link"));
  fs::create_symlink(At("nowhere"), At("dump/plan/dangling"));
  fs::create_hard_link(At("victim"), At("dump/plan/second"));
  ASSERT_EQ(mkfifo(At("dump/plan/fifo").c_str(), 0600), 0);
  const int reader = open(At("dump/plan/fifo").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(mkfifo(At("dump/plan/unread").c_str(), 0600), 0);
  for (const char* name : {"link", "dangling", "second", "fifo", "unread"}) {
    EXPECT_TRUE(absl::IsAlreadyExists(folder.Write(name, "dump"))) << name;
  }
  close(reader);
  EXPECT_EQ(FileText(At("victim")), "mine");
  EXPECT_FALSE(fs::exists(At("nowhere")));
  // A folder that was there, and files in it, are somebody's.
  fs::create_directory(At("dump/other"));
  Put(At("dump/other/notes"), "mine");
  const auto other = Got(top.Sub("other"));
  EXPECT_TRUE(absl::IsAlreadyExists(other.Write("notes", "dump")));
  EXPECT_TRUE(other.Write("new", "dump").ok());
  EXPECT_EQ(FileText(At("dump/other/notes")), "mine");
}

TEST_F(DumpTest, AFolderThatEverybodyMayWriteIsRefused) {
  fs::create_directory(At("open"));
  ASSERT_EQ(chmod(At("open").c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open")).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open/below")).status()));
  ASSERT_EQ(chmod(At("open").c_str(), 01777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open")).status()));
  EXPECT_TRUE(DumpFolder::Open(At("open/below")).ok());
}

TEST_F(DumpTest, NamesLeadNowhereElse) {
  const auto top = Got(DumpFolder::Open(At("dump")));
  for (const char* name : {"", ".", "..", "../x", "a/b", "a b", ".sinter-dump"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(top.Write(name, "x"))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(top.Sub(name).status())) << name;
  }
}

// The whole way: a plan is prepared, its dump refused with one warning, and the fifo does not hang.
TEST_F(DumpTest, APreparedPlanIsNotDumpedThroughALink) {
  fs::create_directory(At("victim"));
  fs::create_symlink(At("victim"), At("link"));
  FakeWorld world;
  Config config{.dump_dir = At("link")};
  EXPECT_TRUE(world.MakeEngine(config)->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(fs::is_empty(At("victim")));
  config.dump_dir = At("dump");
  const auto plan = world.MakeEngine(config)->Prepare(world.chain, 16, {}).value();
  const std::string text =
      At("dump/" + plan->plan().PlanDigest().Hex().substr(0, 16) + "/plan.txt");
  ASSERT_TRUE(fs::remove(text));
  ASSERT_EQ(mkfifo(text.c_str(), 0600), 0);
  EXPECT_TRUE(world.MakeEngine(config)->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(fs::is_fifo(text));
}

// The events that an engine reports while it prepares.

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

// Every plan that does not run is listed once, with the best known reason.

using Why = PassedOver::Why;

const Digest kPlans[] = {Sha256("a"), Sha256("b"), Sha256("c")};

std::vector<std::string> Lines(const LoadedPlan& plan) {
  std::vector<std::string> lines;
  for (const Candidate& c : NotChosen(plan)) lines.push_back(c.name + ": " + c.why_not);
  return lines;
}

TEST(NotChosen, MergesWhatPlanningAndTheEngineSay) {
  LoadedPlan plan;
  plan.plan.fused = true;
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower: fixed", kPlans[0]},
                          {"fused [y]", 12, "predicted 2 us slower: dsm", kPlans[1]}};
  plan.passed_over = {{kPlans[1], true, 12, Why::kFailed, "registers spill"},
                      {kPlans[0], false, 14, Why::kSlower, ""}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: predicted 4 us slower: fixed",
                                       "fused [y]: registers spill"));
}

TEST(NotChosen, ShowsAFailureThatPlanningDidNotListFirst) {
  LoadedPlan plan;
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower", kPlans[0]}};
  plan.passed_over = {{kPlans[1], true, 9, Why::kFailed, "the driver keeps 14 clusters"},
                      {kPlans[2], false, 14, Why::kSlower, ""}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: the driver keeps 14 clusters",
                                       "unfused [x]: predicted 4 us slower"));
}

TEST(NotChosen, FallsBackToTheEnginesListWithoutOneOfPlanning) {
  LoadedPlan plan{.passed_over = {{kPlans[1], true, 9, Why::kNotAskedFor, ""},
                                  {kPlans[0], false, 15, Why::kSlower, ""}}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: not asked for", "the plain plan: predicted slower"));
}

TEST(NotChosen, LeavesOutThePlanItself) {
  LoadedPlan plan;
  plan.plan.fused = true;
  plan.plan.kernels.emplace_back();
  plan.plan.runners_up = {{"fused [y]", 12, "predicted slower", plan.plan.PlanDigest()},
                          {"unfused [x]", 14, "slower", kPlans[0]}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: slower"));
}

}  // namespace
}  // namespace sinter
