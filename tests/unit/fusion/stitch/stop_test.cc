// Planning asks whether it is still wanted, at short intervals, and stops when it is not.
#include "src/base/keep_going.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

// CPU time of this thread: other processes' load is not counted.
double CpuMs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// Notes the time between each two asks; says no at the `refusal`-th.
class Watch : public KeepGoing {
 public:
  explicit Watch(int64_t refusal) : refusal_(refusal), last_(CpuMs()) {}
  absl::Status Check() const override {
    Note();
    return ++asks < refusal_ ? absl::OkStatus() : absl::DeadlineExceededError("late");
  }
  void Note() const {
    gaps_ms.push_back(CpuMs() - last_);
    last_ = CpuMs();
  }
  mutable int64_t asks = 0;
  mutable std::vector<double> gaps_ms;

 private:
  const int64_t refusal_;
  mutable double last_;
};

constexpr int64_t kNever = int64_t{1} << 60;

Chain Mesh(int steps, int width) {
  ChainReader r;
  std::vector<ValueId> row;
  for (int i = 0; i < width; ++i) row.push_back(r("{f32[64,64]}"));
  for (int step = 0; step < steps; ++step) {
    std::vector<ValueId> next;
    for (size_t i = 0; i < row.size(); ++i) {
      next.push_back(r("value($0) + value($1)", row[i], row[(i + 1) % row.size()]));
    }
    row = next;
  }
  for (const ValueId value : row) r.Out(value);
  return r.Finish();
}

// `step` of x, again and again.
Chain Repeated(const char* step, int times) {
  ChainReader r("x: f32[64,64]");
  for (int i = 0; i < times; ++i) r.Add(step);
  r.Add("out x");
  return r.Finish();
}

std::vector<int64_t> Sizes(int count) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(int64_t{768} << (i % 12));
  return sizes;
}

struct Case {
  const char* name;
  Chain chain;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"adam over 60 tensors", testing::AdamOver(Sizes(60))});
  cases.push_back({"transformer glue", testing::TransformerGlue(10, 128, 1024)});
  cases.push_back({"mesh", Mesh(100, 10)});
  cases.push_back({"unary", Repeated("x = neg(x)", 3000)});
  // Rows less their sum: each level reads the one below twice.
  cases.push_back({"deep", Repeated("x = x - spread(sum(x, 1, keep), x)", 14)});
  return cases;
}

absl::StatusOr<FusionResult> PlanWith(const Chain& chain, const KeepGoing* port) {
  return PlanChain(chain, 1, H200(), {.keep_going = port});
}

// The time between each two asks: the shorter of two plannings, so that a disturbance of one does
// not count.
std::vector<double> GapsMs(const Chain& chain) {
  std::vector<double> gaps;
  for (int planning = 0; planning < 2; ++planning) {
    const Watch watch(kNever);
    EXPECT_TRUE(PlanWith(chain, &watch).ok());
    watch.Note();
    if (planning == 0) gaps.assign(watch.gaps_ms.size(), 1e9);
    EXPECT_EQ(watch.gaps_ms.size(), gaps.size());
    for (size_t i = 0; i < std::min(gaps.size(), watch.gaps_ms.size()); ++i) {
      gaps[i] = std::min(gaps[i], watch.gaps_ms[i]);
    }
  }
  return gaps;
}

// A busy or slow machine, or a sanitizer, lengthens the planning of the largest graph as it
// lengthens each gap. That planning takes half a second on an idle machine, so a tenth is half of
// the 100 ms that a caller is promised.
TEST(StopTest, NoLargeGraphIsPlannedForLongWithoutAsking) {
  double whole_ms = 0;
  std::vector<std::pair<const char*, double>> longest;
  for (const Case& one : Cases()) {
    const std::vector<double> gaps = GapsMs(one.chain);
    EXPECT_GT(gaps.size(), 3u) << one.name;
    longest.emplace_back(one.name, *std::max_element(gaps.begin(), gaps.end()));
    whole_ms = std::max(whole_ms, std::accumulate(gaps.begin(), gaps.end(), 0.0));
  }
  for (const auto& [name, longest_ms] : longest) EXPECT_LT(longest_ms, whole_ms / 10) << name;
}

TEST(StopTest, PlanningStopsWhereverItIsAndTheNextTimeItGoesThrough) {
  for (const Case& one : Cases()) {
    const Watch all(kNever);
    const FusionResult planned = Got(PlanWith(one.chain, &all), one.name);
    for (int64_t at = 1; at <= all.asks; at = at * 10 + 7) {
      const Watch watch(at);
      EXPECT_EQ(PlanWith(one.chain, &watch).status(), absl::DeadlineExceededError("late"))
          << one.name << ", ask " << at;
      EXPECT_EQ(watch.asks, at) << one.name;
    }
    const Watch last(all.asks);
    EXPECT_FALSE(PlanWith(one.chain, &last).ok()) << one.name;
    EXPECT_EQ(PlanWith(one.chain, nullptr)->chosen.PlanDigest(), planned.chosen.PlanDigest());
  }
}

}  // namespace
}  // namespace sinter
