// Sums and gathers over several GPUs of this machine, as ranks of one process: SINTER_GPU_RANKS of
// them, two unless given. Skipped where fewer GPUs are there. rank_processes_gpu_test.cc has ranks
// that are processes.
#include "tests/gpu/rank_kernels.h"

namespace sinter::gpu_testing {
namespace {

class Collectives : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (int r = 0; r < Ranks(); ++r) ranks_.push_back(Got(Rank::Make(r, RunFolder())));
  }
  static void TearDownTestSuite() { ranks_.clear(); }
  void SetUp() override {
    for (const auto& rank : ranks_) ASSERT_NE(rank, nullptr);
    Regroup(10000);
  }

  static void Regroup(uint64_t timeout_ms) {
    for (auto& rank : ranks_) rank->Join(nullptr);
    const auto groups = LocalGroups({.timeout_ms = timeout_ms});
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r]->Join(groups[r]);
  }

  // `work(rank)` of the first `count` ranks at once; of all unless given.
  static void OnAll(const std::function<absl::Status(Rank&, int)>& work, int count = Ranks()) {
    OnRanks([&](size_t r) { return work(*ranks_[r], static_cast<int>(r)); }, count);
  }
  static void RunOnAll(size_t form, int rows) {
    OnAll([&](Rank& rank, int) { return rank.Run(form, rows); });
  }
  static void BindRows(const std::vector<int>& rows) {
    for (auto& rank : ranks_) {
      for (size_t form = 0; form < Forms().size(); ++form) {
        for (const int count : rows) ASSERT_OK(rank->Bind(form, count));
      }
    }
  }
  static void ExpectRight(size_t form, int rows) {
    for (const auto& rank : ranks_) {
      EXPECT_OK(rank->group->GetStatus(nullptr));
      const auto wrong = Got(rank->Wrong(form, rows));
      EXPECT_EQ(wrong, 0) << Forms()[form].name << ", " << rows << " rows, rank "
                          << rank->group->rank();
    }
  }
  static Rank& Last() { return *ranks_.back(); }

  static inline std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(Collectives, AreRightInEveryBitForEveryM) {
  for (const int rows : {1, 2, 3, 7, 16, 33, 100, 128, 257, 1024}) {
    BindRows({rows});
    for (size_t form = 0; form < Forms().size(); ++form) {
      RunOnAll(form, rows);
      ExpectRight(form, rows);
    }
  }
}

// SINTER_GPU_RANK_CALLS calls, 100,000 unless given.
TEST_F(Collectives, TakeCallsOfOtherRowsAndFormsInTurn) {
  BindRows({1, 2, 3, 4, 5, 6, 7, 8});
  constexpr int kCalls = 2000;
  const int rounds = std::max(1, NumberOr(std::getenv("SINTER_GPU_RANK_CALLS"), 100000) / kCalls);
  const auto begun = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    OnAll([&](Rank& rank, int r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      // A rank that comes late, another one each time.
      if (round % (Ranks() + 1) == r)
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return rank.ports.measurer->RunAndWait([&](StreamHandle stream) {
        for (int call = 0; call < kCalls; ++call) {
          state = state * 1664525 + 1013904223;
          const absl::Status launched = rank.Launch((state >> 24) % Forms().size(),
                                                    1 + static_cast<int>(state >> 20 & 7), stream);
          if (!launched.ok()) return launched;
        }
        return absl::OkStatus();
      });
    });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::printf("%d calls in %.1f s\n", rounds * kCalls, seconds);
  for (size_t form = 0; form < Forms().size(); ++form) {
    RunOnAll(form, 8);
    ExpectRight(form, 8);
  }
}

TEST_F(Collectives, RunInGraphsReplayedInChangingOrder) {
  constexpr int kCalls = 100;
  for (const int rows : {1, 16, 64, 128, 256, 1024}) {
    BindRows({rows});
    for (size_t form = 0; form < Forms().size(); ++form) {
      std::vector<std::unique_ptr<TimedGraph>> graphs[2];
      for (const auto& rank : ranks_) {
        for (int which = 0; which < 2; ++which) {
          auto made = rank->ports.measurer->MakeGraph(
              {[&](StreamHandle stream, int) { return rank->Launch(form, rows, stream); }},
              kCalls + which);
          ASSERT_OK(made);
          graphs[which].push_back(*std::move(made));
        }
      }
      std::vector<double> best(ranks_.size(), 1e9);
      OnAll([&](Rank&, int r) -> absl::Status {
        const size_t i = static_cast<size_t>(r);
        for (const int which : {0, 1, 1, 0, 1, 0, 0, 0}) {
          SINTER_ASSIGN_OR_RETURN(const double us, graphs[which][i]->Replay());
          if (which == 0) best[i] = std::min(best[i], us / kCalls);
        }
        return absl::OkStatus();
      });
      ExpectRight(form, rows);
      std::printf("%d ranks, %s, %d rows (%d KiB): %.2f us a call\n", Ranks(), Forms()[form].name,
                  rows, rows * Columns() * 2 / 1024, *std::min_element(best.begin(), best.end()));
    }
  }
}

// The last rank makes no launch.
TEST_F(Collectives, EndOnAllRanksWhenOneIsMissed) {
  Regroup(300);
  BindRows({64});
  const auto begun = std::chrono::steady_clock::now();
  OnAll([](Rank& rank, int) { return rank.Run(0, 64); }, Ranks() - 1);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_GT(ms, 250);
  EXPECT_LT(ms, 1000);
  int missed = -1;
  for (int r = 0; r + 1 < Ranks(); ++r) {
    EXPECT_EQ(ranks_[static_cast<size_t>(r)]->group->GetStatus(&missed).code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(missed, Ranks() - 1) << "rank " << r;
  }
  // The last one learns of it at its next launch.
  EXPECT_OK(Last().group->GetStatus(&missed));
  ASSERT_OK(Last().Run(0, 64));
  EXPECT_EQ(Last().group->GetStatus(&missed).code(), absl::StatusCode::kDeadlineExceeded);
  Regroup(10000);
  BindRows({64});
  RunOnAll(0, 64);
  ExpectRight(0, 64);
}

// The last rank calls with more rows, or another plan.
TEST_F(Collectives, EndWhenRanksMakeOtherCalls) {
  for (const bool rows_differ : {true, false}) {
    Regroup(10000);
    const auto is_last = [](int r) { return r == Ranks() - 1 ? 1 : 0; };
    for (int r = 0; r < Ranks(); ++r) {
      ASSERT_OK(ranks_[static_cast<size_t>(r)]->Bind(0, rows_differ ? 8 + is_last(r) : 8,
                                                     rows_differ ? 1 : 1 + is_last(r)));
    }
    OnAll([&](Rank& rank, int r) { return rank.Run(0, rows_differ ? 8 + is_last(r) : 8); });
    for (const auto& rank : ranks_) {
      EXPECT_EQ(rank->group->GetStatus(nullptr).code(), absl::StatusCode::kFailedPrecondition);
    }
  }
}

TEST_F(Collectives, EndWhenTheHostAborts) {
  Regroup(0);  // waits for good
  BindRows({64});
  std::thread aborts([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_OK(Last().group->Abort());
  });
  OnAll([](Rank& rank, int) { return rank.Run(0, 64); }, Ranks() - 1);
  aborts.join();
  for (int r = 0; r + 1 < Ranks(); ++r) {
    int rank = -1;
    EXPECT_EQ(ranks_[static_cast<size_t>(r)]->group->GetStatus(&rank).code(),
              absl::StatusCode::kAborted);
    EXPECT_EQ(rank, Ranks() - 1);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing
