// Every mutant of the device library is caught: a wrong result, a trap, a fault or a hang. Each
// runs in its own process: `mutation_gpu_test --mutant=N` runs only mutant N and prints its fate.
#include <spawn.h>

#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/mutant.h"
#include "tests/gpu/mutant_plans.h"
#include "tests/gpu/other_chip.h"

extern char** environ;

namespace sinter::gpu_testing {
namespace {

constexpr int kSkipped = 77, kSurvivedExit = 0, kKilledExit = 1, kBrokenExit = 2;
constexpr double kStartSeconds = 30;
constexpr int kAtOnce = 6;  // processes that share the GPU

absl::StatusOr<Ports> PortsOf(const Mutation& mutation) {
  SINTER_ASSIGN_OR_RETURN(Ports own, MakePorts(TestConfig(), 0, "", LogSink()));
  const DeviceModel model = MutantModel(own.model, mutation);
  if (model.arch == own.model.arch) return own;
  return PortsOfPtx(TestConfig(), model, model.arch);
}

int RunOne(int index) {
  const std::vector<Mutation> mutations = AllMutations();
  if (index < 0 || index >= static_cast<int>(mutations.size())) return kBrokenExit;
  Watchdog watchdog;
  const Mutation& mutation = mutations[static_cast<size_t>(index)];
  watchdog.Begin(mutation.name, kStartSeconds);
  const auto ports = PortsOf(mutation);
  Outcome outcome{Fate::kBroken, std::string(ports.status().message())};
  if (ports.ok()) outcome = RunMutant(*ports, mutation, &watchdog);
  std::printf("%.200s\n", outcome.detail.c_str());
  std::fflush(stdout);
  // Destructors would wait for a device that may be lost.
  _exit(outcome.fate == Fate::kSurvived ? kSurvivedExit
        : outcome.fate == Fate::kKilled ? kKilledExit
                                        : kBrokenExit);
}

struct Child {
  int exit_code = -1;  // -1: died of a signal or could not start
  std::string output;
};

Child RunChild(int index) {
  Child child;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return child;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  std::string argument = absl::StrCat("--mutant=", index);
  char program[] = "mutation_gpu_test";
  char* arguments[] = {program, &argument[0], nullptr};
  pid_t pid = 0;
  const int started = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char text[512];
  ssize_t got;
  while (started == 0 && (got = read(ends[0], text, sizeof text)) > 0) {
    child.output.append(text, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (started == 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
    child.exit_code = WEXITSTATUS(status);
  }
  return child;
}

const char* FateOf(const Child& child) {
  switch (child.exit_code) {
    case kSurvivedExit:
      return "survived";
    case kKilledExit:
      return "killed";
    case kWatchdogExit:
      return "hung";
    case kBrokenExit:
      return "broken";
    default:
      return "crashed";
  }
}

TEST(Mutations, EveryMutantIsCaught) {
  const std::vector<Mutation> mutations = AllMutations();
  std::vector<Child> children(mutations.size());
  reference::ParallelFor(kAtOnce, static_cast<int64_t>(mutations.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             children[static_cast<size_t>(i)] = RunChild(static_cast<int>(i));
                           }
                         });
  for (size_t i = 0; i < mutations.size(); ++i) {
    const Mutation& mutation = mutations[i];
    const std::string fate = FateOf(children[i]);
    std::printf("%2zu %-8s %-10s %s: %s%s", i, fate.c_str(), mutation.must_die ? "" : "(may live)",
                mutation.header.c_str(), mutation.name.c_str(),
                children[i].output.empty() ? "\n" : "; ");
    std::printf("%s", children[i].output.c_str());
    EXPECT_NE(fate, "broken") << mutation.name << ": " << children[i].output;
    const bool control = mutation.find.empty();
    if (control) {
      EXPECT_EQ(fate, "survived") << mutation.name << ": " << children[i].output;
    } else if (mutation.must_die) {
      EXPECT_NE(fate, "survived") << mutation.name;
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  using namespace sinter::gpu_testing;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  constexpr char kMutant[] = "--mutant=";
  if (argc == 2 && std::strncmp(argv[1], kMutant, sizeof kMutant - 1) == 0) {
    return RunOne(std::atoi(argv[1] + sizeof kMutant - 1));
  }
  ::testing::InitGoogleTest(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests)) {
    const auto ports = sinter::MakePorts(TestConfig(), 0, "", sinter::LogSink());
    if (!ports.ok()) {
      std::printf("skipped: %s\n", std::string(ports.status().message()).c_str());
      return kSkipped;
    }
  }
  return RUN_ALL_TESTS();
}
