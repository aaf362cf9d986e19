// Sums and gathers over two GPUs of this machine: two ranks in one process, and two processes.
// Skipped with one GPU. As `--rank R FOLDER MODE` the program is one rank of a test with processes.
#include <signal.h>

#include "src/collective/collective.h"
#include "src/device/device_library.h"
#include "src/engine/rank_group.h"
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2, kColumns = 8192, kThreads = 256, kSkipped = 77;
constexpr int kMostRows = 1024;
constexpr uint64_t kTimeoutMs = 2000;

constexpr auto kSum = CollectiveKind::kAllReduce, kPart = CollectiveKind::kReduceScatter,
               kGather = CollectiveKind::kAllGather;
struct Form {
  const char* name;
  CollectiveKind kind;
  bool two_shot, rounded, norm, by_rows;
  int number;

  // Columns of x and of the result, in elements. Parts of ranks have half of the columns.
  int XColumns() const { return kind == kGather ? kColumns / kRanks : kColumns; }
  int OutColumns() const { return kind == kPart ? kColumns / kRanks : kColumns; }
  bool residual() const { return kind != kGather && (kind == kSum || rounded); }
};
constexpr Form kForms[] = {{"one_shot", kSum, false, false, false, false, 0},
                           {"two_shot", kSum, true, true, false, false, 1},
                           {"one_shot_norm", kSum, false, true, true, false, 2},
                           {"scatter_columns", kPart, false, false, false, false, 3},
                           {"scatter_rows", kPart, false, true, false, true, 4},
                           {"gather_columns", kGather, false, false, false, false, 5},
                           {"gather_rows", kGather, false, false, false, true, 6},
                           {"two_shot_norm", kSum, true, true, true, false, 7}};
constexpr double kEps = 1e-6;

// bf16 sums with a residual after them, except for one form.
CollectiveProblem ProblemOf(const Form& form) {
  CollectiveProblem problem;
  problem.kind = form.kind;
  problem.by_rows = form.by_rows;
  problem.ranks = kRanks;
  problem.columns = std::min(form.XColumns(), form.OutColumns());
  problem.residual = form.residual();
  problem.rounded = form.rounded;
  problem.norm = form.norm;
  problem.norm_rounded = form.norm && form.two_shot;
  problem.eps = form.norm ? kEps : 0;
  return problem;
}
// The schedule of the form that is predicted to be the fastest.
CollectiveSchedule ScheduleOf(const Form& form, int rows) {
  for (const RankedCollective& ranked :
       SearchCollective(ProblemOf(form), rows, *BuiltinModel("h100"))) {
    const CollectiveSchedule& schedule = ranked.schedule;
    if (schedule.two_shot == form.two_shot && schedule.threads == (form.norm ? 512 : kThreads))
      return schedule;
  }
  return {};
}

float FromBf16(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}
uint16_t ToBf16(float x) {
  if (x != x) return 0x7FFF;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The same on every rank's host. If `rank` is negative: the residual of rank -1 - `rank`. The
// values include zeros of both signs, infinities and NaNs, also a NaN whose bits equal those of an
// empty slot.
std::vector<uint16_t> Values(int rank) {
  std::vector<uint16_t> values(static_cast<size_t>(kMostRows) * kColumns);
  uint32_t state = static_cast<uint32_t>(rank + 7) * 2654435761u;
  for (uint16_t& value : values) {
    state = state * 1664525 + 1013904223;
    value = ToBf16(static_cast<float>(static_cast<int>(state >> 20) - 2048) / 64.0f);
  }
  const uint16_t special[] = {0x8000, 0, 0xFFFF, 0xFFFF, 0x7F80, 0xFF80, 0, 0};
  std::copy(std::begin(special), std::end(special), values.begin() + kColumns / 2);
  return values;
}

std::vector<uint16_t> Gamma() {
  std::vector<uint16_t> gamma(kColumns);
  for (int c = 0; c < kColumns; ++c) gamma[static_cast<size_t>(c)] = ToBf16(0.5f + c % 16 / 16.0f);
  return gamma;
}

// Where element `i` of a rank's part lies in a matrix of the parts of all ranks.
size_t AmongParts(const Form& form, int rows, int rank, size_t i) {
  const size_t columns = kColumns / kRanks, row = i / columns, part = static_cast<size_t>(rank);
  const size_t above = form.by_rows ? part * static_cast<size_t>(rows) + row : row * kRanks + part;
  return above * columns + i % columns;
}
// The rank, and the element of its part, of element `i` of such a matrix.
std::pair<int, size_t> PartOf(const Form& form, int rows, size_t i) {
  const size_t columns = kColumns / kRanks, above = i / columns, all = static_cast<size_t>(rows);
  const size_t rank = form.by_rows ? above / all : above % kRanks;
  const size_t row = form.by_rows ? above % all : above / kRanks;
  return {static_cast<int>(rank), row * columns + i % columns};
}

// One GPU with its buffers and kernels.
class Rank {
 public:
  static absl::StatusOr<std::unique_ptr<Rank>> Make(int ordinal) {
    auto rank = std::make_unique<Rank>();
    SINTER_ASSIGN_OR_RETURN(rank->ports, MakePorts(TestConfig(), ordinal, "", StderrLog()));
    Measurer& memory = *rank->ports.measurer;
    const uint64_t bytes = uint64_t{kMostRows} * kColumns * 2;
    for (DeviceBuffer* buffer : {&rank->x, &rank->residual, &rank->normed, &rank->out}) {
      SINTER_ASSIGN_OR_RETURN(*buffer, memory.Allocate(bytes));
    }
    SINTER_ASSIGN_OR_RETURN(rank->gamma, memory.Allocate(kColumns * 2));
    SINTER_RETURN_IF_ERROR(memory.Upload(rank->gamma, Gamma().data(), kColumns * 2));
    SINTER_RETURN_IF_ERROR(memory.Upload(rank->x, Values(ordinal).data(), bytes));
    SINTER_RETURN_IF_ERROR(memory.Upload(rank->residual, Values(-1 - ordinal).data(), bytes));
    for (const Form& form : kForms) {
      CompileRequest request;
      request.name = absl::StrCat(form.name, ".cu");
      request.source = SourceOf(ProblemOf(form), ScheduleOf(form, 1));
      request.headers = CopyDeviceHeaders();
      request.arch = "sm_90a";
      request.options = {"--std=c++17"};
      request.entry = CollectiveEntry(ProblemOf(form));
      SINTER_ASSIGN_OR_RETURN(const CompiledKernel compiled,
                              rank->ports.compiler->Compile(request));
      SINTER_ASSIGN_OR_RETURN(rank->kernels[form.number],
                              rank->ports.loader->Load(compiled.cubin, RecipeOf(form, 1)));
    }
    return rank;
  }
  ~Rank() {
    for (const DeviceBuffer& buffer : {x, residual, gamma, normed, out})
      ports.measurer->Free(buffer);
  }

  // Called once, after `group` is joined. Binds for all rows that are launched.
  absl::Status Bind(const Form& form, int rows, int plan = 1) {
    const DevicePtr pointers[] = {x.ptr, residual.ptr, gamma.ptr, normed.ptr, out.ptr};
    const BufferList buffers{pointers, 5, 0, group->room(), static_cast<uint64_t>(plan)};
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> made,
                            kernels[form.number]->Bind(RecipeOf(form, rows), buffers));
    bound[{form.number, rows}] = std::move(made);
    return absl::OkStatus();
  }
  absl::Status Launch(const Form& form, int rows, StreamHandle stream) const {
    return kernels[form.number]->Launch(*bound.at({form.number, rows}), stream, rows, 0, false);
  }

  // How many elements of `rows` rows, or of their norms, are not what they should be.
  absl::StatusOr<int> Wrong(const Form& form, int rows) const {
    const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(form.OutColumns());
    std::vector<uint16_t> got(count);
    SINTER_RETURN_IF_ERROR(ports.measurer->Download(got.data(), out, count * 2));
    static const std::vector<uint16_t> parts[] = {Values(0), Values(1), Values(-1), Values(-2)};
    const std::vector<uint16_t>& own = parts[2 + group->rank()];
    int wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      if (form.kind == kGather) {
        const auto [rank, at] = PartOf(form, rows, i);
        const uint16_t sent = parts[rank][at];
        wrong += got[i] != (sent == 0xFFFF ? 0x7FFF : sent) ? 1 : 0;  // any NaN, alike everywhere
        continue;
      }
      const size_t x = form.kind == kPart ? AmongParts(form, rows, group->rank(), i) : i;
      float sum = FromBf16(parts[0][x]) + FromBf16(parts[1][x]);
      if (form.rounded) sum = FromBf16(ToBf16(sum));
      if (form.residual()) sum += FromBf16(own[i]);
      const uint16_t want = ToBf16(sum);
      wrong += got[i] != want ? 1 : 0;
    }
    if (!form.norm) return wrong;
    std::vector<uint16_t> norms(count);
    SINTER_RETURN_IF_ERROR(ports.measurer->Download(norms.data(), normed, count * 2));
    static const std::vector<uint16_t> gammas = Gamma();
    for (int row = 0; row < rows; ++row) {
      double squares = 0;
      const auto at = [&](int c) { return static_cast<size_t>(row) * kColumns + c; };
      for (int c = 0; c < kColumns; ++c) squares += std::pow(FromBf16(got[at(c)]), 2.0);
      const double factor = 1 / std::sqrt(squares / kColumns + kEps);
      for (int c = 0; c < kColumns && std::isfinite(squares); ++c) {
        const double want =
            FromBf16(got[at(c)]) * factor * FromBf16(gammas[static_cast<size_t>(c)]);
        const double have = FromBf16(norms[at(c)]);
        if (!(std::fabs(have - want) <= 0x1p-7 * std::fabs(want) + 1e-30)) ++wrong;
      }
    }
    return wrong;
  }

  Ports ports;
  std::shared_ptr<RankGroup> group;
  DeviceBuffer x, residual, gamma, normed, out;
  std::shared_ptr<LoadedKernel> kernels[std::size(kForms)];
  std::map<std::pair<int, int>, std::unique_ptr<BoundKernel>> bound;

 private:
  static std::vector<BufferPlace> Places(const Form& form) {
    if (!form.residual()) return {{0, 0}, {4, 0}};
    if (!form.norm) return {{0, 0}, {1, 0}, {4, 0}};
    return {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
  }
  static LaunchRecipe RecipeOf(const Form& form, int rows) {
    return *sinter::RecipeOf(ProblemOf(form), ScheduleOf(form, rows), Places(form));
  }
};

RankGroupOptions GroupOptions(uint64_t timeout_ms) {
  return RankGroupOptions{.timeout_ms = timeout_ms};
}

class Collectives : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (int r = 0; r < kRanks; ++r) {
      auto made = Got(Rank::Make(r));
      ranks_[r] = std::move(made);
    }
  }
  static void TearDownTestSuite() {
    for (auto& rank : ranks_) rank.reset();
  }
  void SetUp() override {
    ASSERT_NE(ranks_[1], nullptr);
    Regroup(10000);
  }

  static void Regroup(uint64_t timeout_ms) {
    std::vector<std::unique_ptr<PeerMemory>> memory;
    for (int r = 0; r < kRanks; ++r) {
      ranks_[r]->group.reset();
      auto opened = Got(OpenPeerMemory(TestConfig(), r));
      memory.push_back(std::move(opened));
    }
    auto groups = Got(RankGroup::CreateLocal(std::move(memory), GroupOptions(timeout_ms)));
    for (int r = 0; r < kRanks; ++r) ranks_[r]->group = groups[static_cast<size_t>(r)];
  }

  // `work(rank)` of all ranks at once.
  static void OnAll(const std::function<absl::Status(int)>& work) {
    std::vector<absl::Status> done(kRanks);
    OnThreads(kRanks, [&](int r) { done[static_cast<size_t>(r)] = work(r); });
    for (const absl::Status& status : done) EXPECT_OK(status);
  }
  static void BindRows(const std::vector<int>& rows) {
    for (auto& rank : ranks_) {
      for (const Form& form : kForms) {
        for (const int count : rows) ASSERT_OK(rank->Bind(form, count));
      }
    }
  }
  static void ExpectRight(const Form& form, int rows) {
    for (const auto& rank : ranks_) {
      EXPECT_OK(rank->group->GetStatus(nullptr));
      const auto wrong = Got(rank->Wrong(form, rows));
      EXPECT_EQ(wrong, 0) << form.name << ", " << rows << " rows, rank " << rank->group->rank();
    }
  }

  static inline std::unique_ptr<Rank> ranks_[kRanks];
};

TEST_F(Collectives, AreRightInEveryBitForEveryM) {
  for (const int rows : {1, 2, 3, 7, 16, 33, 100, 128, 257, 1024}) {
    BindRows({rows});
    for (const Form& form : kForms) {
      OnAll([&](int r) {
        Rank& rank = *ranks_[r];
        return rank.ports.measurer->RunAndWait(
            [&](StreamHandle stream) { return rank.Launch(form, rows, stream); });
      });
      ExpectRight(form, rows);
    }
  }
}

TEST_F(Collectives, TakeCallsOfOtherRowsAndFormsInTurn) {
  BindRows({1, 2, 3, 4, 5, 6, 7, 8});
  constexpr int kRounds = 50, kCalls = 2000;
  for (int round = 0; round < kRounds; ++round) {
    OnAll([&](int r) {
      uint32_t state = static_cast<uint32_t>(round) + 1;  // the same on all ranks
      // A rank that comes late, another one each time.
      if (round % 3 == r) std::this_thread::sleep_for(std::chrono::milliseconds(round % 7));
      return ranks_[r]->ports.measurer->RunAndWait([&](StreamHandle stream) {
        for (int call = 0; call < kCalls; ++call) {
          state = state * 1664525 + 1013904223;
          const absl::Status launched =
              ranks_[r]->Launch(kForms[(state >> 24) % std::size(kForms)],
                                1 + static_cast<int>(state >> 20 & 7), stream);
          if (!launched.ok()) return launched;
        }
        return absl::OkStatus();
      });
    });
  }
  for (const Form& form : kForms) {
    OnAll([&](int r) {
      return ranks_[r]->ports.measurer->RunAndWait(
          [&](StreamHandle stream) { return ranks_[r]->Launch(form, 8, stream); });
    });
    ExpectRight(form, 8);
  }
}

TEST_F(Collectives, RunInGraphsReplayedInChangingOrder) {
  constexpr int kCalls = 100;
  for (const int rows : {1, 16, 64, 128, 256, 1024}) {
    BindRows({rows});
    for (const Form& form : kForms) {
      std::unique_ptr<TimedGraph> graphs[kRanks][2];
      for (int r = 0; r < kRanks; ++r) {
        for (auto& graph : graphs[r]) {
          auto made = ranks_[r]->ports.measurer->MakeGraph(
              {[&, r](StreamHandle stream, int) { return ranks_[r]->Launch(form, rows, stream); }},
              kCalls + static_cast<int>(&graph - graphs[r]));
          ASSERT_OK(made);
          graph = *std::move(made);
        }
      }
      double best[kRanks] = {1e9, 1e9};
      OnAll([&](int r) -> absl::Status {
        for (const int which : {0, 1, 1, 0, 1, 0, 0, 0}) {
          SINTER_ASSIGN_OR_RETURN(const double us, graphs[r][which]->Replay());
          if (which == 0) best[r] = std::min(best[r], us / kCalls);
        }
        return absl::OkStatus();
      });
      ExpectRight(form, rows);
      std::printf("%s, %d rows (%d KiB): %.2f us a call\n", form.name, rows,
                  rows * kColumns * 2 / 1024, std::min(best[0], best[1]));
    }
  }
}

TEST_F(Collectives, EndOnAllRanksWhenOneIsMissed) {
  Regroup(300);
  BindRows({64});
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_OK(ranks_[0]->ports.measurer->RunAndWait(
      [&](StreamHandle stream) { return ranks_[0]->Launch(kForms[0], 64, stream); }));
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_GT(ms, 250);
  EXPECT_LT(ms, 1000);
  int rank = -1;
  EXPECT_EQ(ranks_[0]->group->GetStatus(&rank).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(rank, 1);
  // The other rank learns of it at its next launch.
  EXPECT_OK(ranks_[1]->group->GetStatus(&rank));
  ASSERT_OK(ranks_[1]->ports.measurer->RunAndWait(
      [&](StreamHandle stream) { return ranks_[1]->Launch(kForms[0], 64, stream); }));
  EXPECT_EQ(ranks_[1]->group->GetStatus(&rank).code(), absl::StatusCode::kDeadlineExceeded);
  Regroup(10000);
  BindRows({64});
  OnAll([&](int r) {
    return ranks_[r]->ports.measurer->RunAndWait(
        [&](StreamHandle stream) { return ranks_[r]->Launch(kForms[0], 64, stream); });
  });
  ExpectRight(kForms[0], 64);
}

TEST_F(Collectives, EndWhenRanksMakeOtherCalls) {
  for (const bool rows_differ : {true, false}) {
    Regroup(10000);
    for (int r = 0; r < kRanks; ++r) {
      ASSERT_OK(ranks_[r]->Bind(kForms[0], rows_differ ? 8 + r : 8, rows_differ ? 1 : 1 + r));
    }
    OnAll([&](int r) {
      return ranks_[r]->ports.measurer->RunAndWait([&](StreamHandle stream) {
        return ranks_[r]->Launch(kForms[0], rows_differ ? 8 + r : 8, stream);
      });
    });
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
    EXPECT_OK(ranks_[1]->group->Abort());
  });
  EXPECT_OK(ranks_[0]->ports.measurer->RunAndWait(
      [&](StreamHandle stream) { return ranks_[0]->Launch(kForms[0], 64, stream); }));
  aborts.join();
  int rank = -1;
  EXPECT_EQ(ranks_[0]->group->GetStatus(&rank).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rank, 1);
}

// ---------------------------------------------------------------- two processes

// An all-gather by files, which gives up after half a minute.
Exchange ByFiles(const fs::path& folder, int rank) {
  auto round = std::make_shared<int>(0);
  return [=](const void* send, size_t bytes, void* recv) -> absl::Status {
    const int now = (*round)++;
    const auto name = [&](int r) { return folder / absl::StrCat(now, ".", r); };
    const fs::path part = folder / absl::StrCat("part.", rank);
    std::ofstream(part, std::ios::binary)
        .write(static_cast<const char*>(send), static_cast<std::streamsize>(bytes));
    fs::rename(part, name(rank));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int r = 0; r < kRanks; ++r) {
      while (!fs::exists(name(r))) {
        if (std::chrono::steady_clock::now() > end) {
          return absl::DeadlineExceededError(absl::StrCat("rank ", r, " did not come"));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      std::ifstream(name(r), std::ios::binary)
          .read(static_cast<char*>(recv) + static_cast<size_t>(r) * bytes,
                static_cast<std::streamsize>(bytes));
    }
    return absl::OkStatus();
  };
}

// One rank. "run": valid calls; "descriptors": over memory shared by descriptors. "killed",
// "stopped": rank 1 ends that way after some calls, and rank 0 must be notified in time.
absl::Status RunRank(int number, const fs::path& folder, const std::string& mode) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Make(number));
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<PeerMemory> memory, OpenPeerMemory(TestConfig(), number));
  RankGroupOptions options = GroupOptions(kTimeoutMs);
  options.rank = number;
  options.size = kRanks;
  options.descriptors = mode == "descriptors";
  const Exchange exchange = ByFiles(folder, number);
  SINTER_ASSIGN_OR_RETURN(rank->group, RankGroup::Create(std::move(memory), options, exchange));
  constexpr int kRows = 16, kCalls = 1000;
  for (const Form& form : kForms) SINTER_RETURN_IF_ERROR(rank->Bind(form, kRows));
  const auto calls = [&](const Form& form) {
    return rank->ports.measurer->RunAndWait([&](StreamHandle stream) {
      absl::Status status;
      for (int i = 0; i < kCalls && status.ok(); ++i) status = rank->Launch(form, kRows, stream);
      return status;
    });
  };
  for (const Form& form : kForms) {
    SINTER_RETURN_IF_ERROR(calls(form));
    SINTER_RETURN_IF_ERROR(rank->group->GetStatus(nullptr));
    SINTER_ASSIGN_OR_RETURN(const int wrong, rank->Wrong(form, kRows));
    if (wrong != 0) return absl::InternalError(absl::StrCat(wrong, " elements are wrong"));
  }
  char barrier = 0, all[kRanks];
  SINTER_RETURN_IF_ERROR(exchange(&barrier, 1, all));
  if (mode == "run" || mode == "descriptors") return rank->group->Close();
  if (number == 1) raise(mode == "killed" ? SIGKILL : SIGSTOP);
  const auto begun = std::chrono::steady_clock::now();
  SINTER_RETURN_IF_ERROR(calls(kForms[0]));
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
  int missed = -1;
  const absl::Status status = rank->group->GetStatus(&missed);
  std::printf("%s: told after %.0f ms: %s\n", mode.c_str(), ms, status.ToString().c_str());
  if (status.code() != absl::StatusCode::kDeadlineExceeded || missed != 1) {
    return absl::InternalError(absl::StrCat("rank 0 was told ", status.ToString()));
  }
  return ms < 2 * kTimeoutMs ? absl::OkStatus() : absl::InternalError("too late");
}

class Processes : public ::testing::TestWithParam<const char*> {};

TEST_P(Processes, AreRightOrToldInTime) {
  std::string folder = (fs::temp_directory_path() / "sinter-ranks-XXXXXX").string();
  ASSERT_NE(mkdtemp(&folder[0]), nullptr);
  pid_t children[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    children[r] = fork();
    if (children[r] == 0) {
      const std::string number = std::to_string(r);
      execl("/proc/self/exe", "all_reduce_gpu_test", "--rank", number.c_str(), folder.c_str(),
            GetParam(), nullptr);
      _exit(127);
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(children[0], &status, 0), children[0]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank 0: " << status;
  const std::string mode = GetParam();
  const bool lives = mode == "run" || mode == "descriptors";
  if (!lives) kill(children[1], SIGKILL);
  ASSERT_EQ(waitpid(children[1], &status, 0), children[1]);
  if (lives) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank 1: " << status;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}
INSTANTIATE_TEST_SUITE_P(Two, Processes,
                         ::testing::Values("run", "descriptors", "killed", "stopped"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  using namespace sinter::gpu_testing;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  alarm(500);  // nothing here may hang
  if (argc == 5 && std::string(argv[1]) == "--rank") {
    const absl::Status status = RunRank(std::atoi(argv[2]), argv[3], argv[4]);
    if (!status.ok()) std::printf("rank %s: %s\n", argv[2], status.ToString().c_str());
    return status.ok() ? 0 : 1;
  }
  ::testing::InitGoogleTest(&argc, argv);
  const auto ports = sinter::MakePorts(TestConfig(), kRanks - 1, "", sinter::LogSink());
  if (!ports.ok()) {
    std::printf("skipped: %s\n", std::string(ports.status().message()).c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
