#include "tests/gpu/rank_processes.h"

#include <signal.h>

#include "tests/gpu/rank_kernels.h"

namespace sinter::gpu_testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kTimeoutMs = 2000, kKillTimeoutMs = 300, kKillSlotBytes = 256 << 10;
constexpr int kRows = 16, kKillRows = 8, kCalls = 1000, kKillCalls = 200;
constexpr auto kPatience = std::chrono::seconds(60);

// Written whole, for all processes at once.
void Write(const fs::path& path, const std::string& bytes) {
  const fs::path part = absl::StrCat(path.string(), ".part");
  std::ofstream(part, std::ios::binary) << bytes;
  fs::rename(part, path);
}

// An all-gather by files, which gives up in the end.
Exchange ByFiles(const fs::path& folder, int rank) {
  auto round = std::make_shared<int>(0);
  return [=](const void* send, size_t bytes, void* recv) -> absl::Status {
    const int now = (*round)++;
    const auto name = [&](int r) { return folder / absl::StrCat(now, ".", r); };
    Write(name(rank), std::string(static_cast<const char*>(send), bytes));
    const auto end = Clock::now() + kPatience;
    for (int r = 0; r < Ranks(); ++r) {
      while (!fs::exists(name(r))) {
        if (Clock::now() > end) {
          return absl::DeadlineExceededError(absl::StrCat("rank ", r, " did not come"));
        }
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      std::ifstream(name(r), std::ios::binary)
          .read(static_cast<char*>(recv) + static_cast<size_t>(r) * bytes,
                static_cast<std::streamsize>(bytes));
    }
    return absl::OkStatus();
  };
}

absl::StatusOr<std::shared_ptr<RankGroup>> MakeGroup(int number, RankGroupOptions options,
                                                     const Exchange& exchange) {
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<PeerMemory> memory, OpenPeerMemory(TestConfig(), number));
  options.rank = number;
  options.size = Ranks();
  return RankGroup::Create(std::move(memory), options, exchange);
}

absl::Status IsRight(const Rank& rank, size_t form, int rows) {
  SINTER_RETURN_IF_ERROR(rank.group->GetStatus(nullptr));
  SINTER_ASSIGN_OR_RETURN(const int wrong, rank.Wrong(form, rows));
  return wrong == 0 ? absl::OkStatus()
                    : absl::InternalError(
                          absl::StrCat(wrong, " elements of ", Forms()[form].name, " are wrong"));
}

// Whether a survivor knows in time which rank is missing, `ms` after it began to wait.
absl::Status KnowsTheMissed(const RankGroup& group, const std::string& mode, double ms) {
  int missed = -1;
  const absl::Status status = group.GetStatus(&missed);
  std::printf("%s: rank %d ended after %.0f ms: %s\n", mode.c_str(), group.rank(), ms,
              status.ToString().c_str());
  if (status.code() != absl::StatusCode::kDeadlineExceeded || missed != Ranks() - 1) {
    return absl::InternalError(absl::StrCat("ended with ", status.ToString()));
  }
  return ms < 2 * kTimeoutMs ? absl::OkStatus() : absl::InternalError("too late");
}

absl::Status RunOnce(int number, const fs::path& folder, const std::string& mode) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank,
                          Rank::Make(number, folder.parent_path().string()));
  const Exchange exchange = ByFiles(folder, number);
  RankGroupOptions options{.timeout_ms = kTimeoutMs};
  options.descriptors = mode == "descriptors";
  SINTER_ASSIGN_OR_RETURN(auto group, MakeGroup(number, options, exchange));
  rank->Join(std::move(group));
  for (size_t form = 0; form < Forms().size(); ++form)
    SINTER_RETURN_IF_ERROR(rank->Bind(form, kRows));
  const auto calls = [&](size_t form) {
    return rank->ports.measurer->RunAndWait([&](StreamHandle stream) {
      absl::Status status;
      for (int i = 0; i < kCalls && status.ok(); ++i) status = rank->Launch(form, kRows, stream);
      return status;
    });
  };
  for (size_t form = 0; form < Forms().size(); ++form) {
    SINTER_RETURN_IF_ERROR(calls(form));
    SINTER_RETURN_IF_ERROR(IsRight(*rank, form, kRows));
  }
  char barrier = 0;
  std::vector<char> all(static_cast<size_t>(Ranks()));
  SINTER_RETURN_IF_ERROR(exchange(&barrier, 1, all.data()));
  if (mode == "run" || mode == "descriptors") return rank->group->Close();
  if (number == Ranks() - 1) raise(mode == "killed" ? SIGKILL : SIGSTOP);
  const auto begun = Clock::now();
  SINTER_RETURN_IF_ERROR(calls(0));
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  return KnowsTheMissed(*rank->group, mode, ms);
}

// One group of "kills": right calls of every form, then calls of changing rows and forms until the
// group ends. `folder` is the group's own. The last rank says that it calls, and is killed.
absl::Status CallUntilTheEnd(Rank& rank, const fs::path& folder, int number) {
  const RankGroupOptions options{.slot_bytes = kKillSlotBytes, .timeout_ms = kKillTimeoutMs};
  SINTER_ASSIGN_OR_RETURN(auto group, MakeGroup(number, options, ByFiles(folder, number)));
  rank.Join(std::move(group));
  for (size_t form = 0; form < Forms().size(); ++form) {
    for (int rows = 1; rows <= kKillRows; ++rows) SINTER_RETURN_IF_ERROR(rank.Bind(form, rows));
    SINTER_RETURN_IF_ERROR(rank.Run(form, kKillRows));
    SINTER_RETURN_IF_ERROR(IsRight(rank, form, kKillRows));
  }
  if (number == Ranks() - 1) Write(folder / "calls", "");
  uint32_t state = 1;  // the same on all ranks
  const auto end = Clock::now() + kPatience;
  while (rank.group->GetStatus(nullptr).ok()) {
    if (Clock::now() > end) return absl::InternalError("no rank was killed");
    SINTER_RETURN_IF_ERROR(rank.ports.measurer->RunAndWait([&](StreamHandle stream) {
      absl::Status status;
      for (int i = 0; i < kKillCalls && status.ok(); ++i) {
        state = state * 1664525 + 1013904223;
        status = rank.Launch((state >> 24) % Forms().size(), 1 + static_cast<int>(state >> 20 & 7),
                             stream);
      }
      return status;
    }));
  }
  int missed = -1;
  const absl::Status status = rank.group->GetStatus(&missed);
  const auto now = Clock::now().time_since_epoch();
  Write(folder / absl::StrCat("ended.", number),
        absl::StrCat(std::chrono::duration_cast<std::chrono::microseconds>(now).count(), " ",
                     missed));
  return status.code() == absl::StatusCode::kDeadlineExceeded && missed != number
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat("ended with ", status.ToString()));
}

// `folder` has one folder a group, 0, 1, .. A survivor takes part in all, until `end` is there. It
// keeps all groups: other survivors have their memory open.
absl::Status Survive(int number, const fs::path& folder) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank,
                          Rank::Make(number, folder.parent_path().string()));
  std::vector<std::shared_ptr<RankGroup>> ended;
  for (int i = 0;; ++i) {
    const fs::path own = folder / std::to_string(i);
    const auto end = Clock::now() + kPatience;
    while (!fs::exists(own)) {
      if (fs::exists(folder / "end")) return absl::OkStatus();
      if (Clock::now() > end) return absl::InternalError("no group was begun");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    SINTER_RETURN_IF_ERROR(CallUntilTheEnd(*rank, own, number));
    ended.push_back(rank->group);
  }
}

}  // namespace

int RunRankProcess(int number, const std::string& folder, const std::string& mode) {
  absl::Status status;
  if (mode != "kills") {
    status = RunOnce(number, folder, mode);
  } else if (number < Ranks() - 1) {
    status = Survive(number, folder);
  } else {
    // Its folder lies in the test's.
    auto rank = Rank::Make(number, fs::path(folder).parent_path().parent_path().string());
    status = rank.ok() ? CallUntilTheEnd(**rank, folder, number) : rank.status();
  }
  if (!status.ok())
    std::printf("rank %d, %s: %s\n", number, mode.c_str(), status.ToString().c_str());
  std::fflush(nullptr);
  // A survivor of kills leaves without releasing memory that other survivors have open.
  if (mode == "kills") _exit(status.ok() ? 0 : 1);
  return status.ok() ? 0 : 1;
}

}  // namespace sinter::gpu_testing
