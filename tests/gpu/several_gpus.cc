#include "tests/gpu/several_gpus.h"

#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing {

namespace {
constexpr int kSkipped = 77, kBadVariable = 2, kSeconds = 590;
}

int NumberOr(const char* text, int fallback) {
  return text == nullptr ? fallback : std::atoi(text);
}

int Ranks() {
  static const int ranks = NumberOr(std::getenv("SINTER_GPU_RANKS"), 2);
  if (ranks < 2 || ranks > 8) {
    std::fprintf(stderr, "SINTER_GPU_RANKS is %d, must be 2 to 8\n", ranks);
    std::exit(kBadVariable);
  }
  return ranks;
}

std::vector<std::shared_ptr<RankGroup>> LocalGroups(const RankGroupOptions& options) {
  std::vector<std::unique_ptr<PeerMemory>> memory;
  for (int r = 0; r < Ranks(); ++r) memory.push_back(Got(OpenPeerMemory(TestConfig(), r)));
  return Got(RankGroup::CreateLocal(std::move(memory), options));
}

void OnRanks(const std::function<absl::Status(size_t)>& work, int count) {
  std::vector<absl::Status> done(static_cast<size_t>(count));
  OnThreads(done.size(), [&](int r) {
    const size_t i = static_cast<size_t>(r);
    done[i] = work(i);
  });
  for (const absl::Status& status : done) EXPECT_OK(status);
}

const std::string& RunFolder() {
  static const std::string folder = [] {
    std::string made = (std::filesystem::temp_directory_path() / "sinter-ranks-XXXXXX").string();
    if (mkdtemp(&made[0]) == nullptr) std::perror(made.c_str());
    return made;
  }();
  return folder;
}

int RunOverGpus(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  alarm(kSeconds);
  ::testing::InitGoogleTest(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests)) {
    const auto ports = MakePorts(TestConfig(), Ranks() - 1, "", LogSink());
    if (!ports.ok()) {
      std::printf("skipped: %d ranks need %d GPUs that the library drives; of the last one: %s\n",
                  Ranks(), Ranks(), std::string(ports.status().message()).c_str());
      return kSkipped;
    }
  }
  const int failed = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(RunFolder(), ignored);
  return failed;
}

}  // namespace sinter::gpu_testing
