// Single products on few blocks, so that each cluster walks many tiles: every way in which the
// blocks of a cluster work together, rows that end anywhere, with and without random pauses.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::tile_walk {
namespace {

constexpr int64_t kRows = 384;
constexpr int64_t kSomeRows[] = {384, 257, 383, 129, 128, 1};
constexpr size_t kSchedules = 4;  // of each kind and product
constexpr int kClusters[] = {1, 3, 2, 5};

enum class Operands { kAny, kOfThreeWarpgroups, kSwapped };

struct Kind {
  const char* name;
  Share share;
  int split_k;
  Operands operands = Operands::kAny;
};

// Ragged in every dimension.
std::vector<FfnSpec> Specs() {
  FfnSpec plain{
      .n = 712, .k = 328, .l = 523, .act = Activation::kRelu, .bias1 = true, .bias2 = true};
  FfnSpec gated = plain;
  gated.gated = true;
  gated.l = 520;
  gated.act = Activation::kSilu;
  gated.layout = Layout::kIO;
  gated.dtype = DType::kF16;
  return {plain, gated};
}

class TileWalk : public GpuTest {
 protected:
  static std::vector<Schedule> SchedulesOf(const ProductSequence& problem, const Kind& kind) {
    ProductSequence searched = problem;
    const bool three = kind.operands == Operands::kOfThreeWarpgroups;
    if (three) searched.m = 576;  // where the search offers them
    std::vector<Schedule> some;
    for (const Schedule& s : LegalSchedules(searched, ports().model, Dataflow::kProduct)) {
      if (s.share != kind.share || s.first.split_k != kind.split_k) continue;
      if (three && s.warpgroups_m != 3) continue;
      if (s.swapped == (kind.operands == Operands::kSwapped)) some.push_back(s);
    }
    some = OnFewClusters(Spread(some, kSchedules));
    for (Schedule& s : some) {  // the smaller problem has less work than was searched for
      while (s.grid > s.cluster && !CheckSchedule(problem, s, ports().model).ok()) {
        s.grid -= s.cluster;
      }
    }
    return some;
  }

  static std::vector<Schedule> OnFewClusters(std::vector<Schedule> list) {
    for (size_t i = 0; i < list.size(); ++i) {
      const int blocks = kClusters[i % std::size(kClusters)] * list[i].cluster;
      list[i].grid = std::min(list[i].grid, blocks);
    }
    return list;
  }

  static std::vector<Plan> PlansOf(const Chain& chain, const Kind& kind) {
    const ProductSequence problem = MatchProducts(chain, kRows)->sequence;
    const auto first = SchedulesOf(FirstOf(problem), kind);
    const auto second = SchedulesOf(SecondOf(problem), kind);
    std::vector<Plan> plans;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      plans.push_back(UnfusedPlanOf(chain, kRows, first[i], second[i]).value());
    }
    return plans;
  }

  static void Run(const Kind& kind, bool jitter) {
    for (const FfnSpec& spec : Specs()) {
      const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
      const std::vector<Plan> plans = PlansOf(*chain, kind);
      ASSERT_FALSE(plans.empty());
      BuildOptions options;
      options.codegen.jitter = jitter;
      const auto built = BuildPlans(ports(), chain, plans, options);
      const auto data = Got(DeviceChain::Make(ports(), *chain, kRows, 5));
      for (size_t i = 0; i < plans.size(); ++i) {
        SCOPED_TRACE(absl::StrCat(kind.name, " ", NameOf(spec), "\n", plans[i].ToText()));
        if (!built[i].ok() && jitter) {  // a test build may need more registers than there are
          std::printf("passed over: %s\n", std::string(built[i].status().message()).c_str());
          continue;
        }
        ASSERT_OK(built[i]);
        RunAllRows(*data, *built[i]);
        if (HasFatalFailure()) return;
      }
    }
  }

  static void RunAllRows(DeviceChain& data, const LoadedPlanPtr& plan) {
    const auto run = Got(data.Bind(plan));
    for (int64_t m : kSomeRows) {
      std::string first;
      for (int i = 0; i < Repeats(4); ++i) {
        const auto output = Got(data.Run(run, m));
        if (i == 0) {
          first = output;
          ASSERT_OK(data.Check(output, m)) << "m " << m;
        }
        ASSERT_TRUE(output == first) << "m " << m << ", run " << i << " differs";
      }
    }
  }

  static void RunBoth(const Kind& kind) {
    Run(kind, false);
    if (!HasFatalFailure()) Run(kind, true);
  }
};

TEST_F(TileWalk, BlocksAlone) { RunBoth({"alone", Share::kNone, 1}); }
TEST_F(TileWalk, RanksThatShareK) {
  RunBoth({"split 2", Share::kNone, 2});
  RunBoth({"split 4", Share::kNone, 4});
}
TEST_F(TileWalk, ThreeWarpgroups) {
  constexpr Operands kThree = Operands::kOfThreeWarpgroups;
  RunBoth({"three", Share::kNone, 1, kThree});
  RunBoth({"three, split 4", Share::kNone, 4, kThree});
  RunBoth({"three, rows shared, split 2", Share::kRows, 2, kThree});
  RunBoth({"three, weights shared", Share::kWeights, 1, kThree});
}
TEST_F(TileWalk, SwappedOperands) {
  RunBoth({"swapped", Share::kNone, 1, Operands::kSwapped});
  RunBoth({"swapped, split 4", Share::kNone, 4, Operands::kSwapped});
}
TEST_F(TileWalk, SwappedOperandsOfPairs) {
  RunBoth({"swapped, rows shared, split 2", Share::kRows, 2, Operands::kSwapped});
  RunBoth({"swapped, weights shared", Share::kWeights, 1, Operands::kSwapped});
}
TEST_F(TileWalk, PairsThatShareWeights) {
  RunBoth({"weights", Share::kWeights, 1});
  RunBoth({"weights, split 2", Share::kWeights, 2});
}
TEST_F(TileWalk, PairsThatShareRows) {
  RunBoth({"rows", Share::kRows, 1});
  RunBoth({"rows, split 2", Share::kRows, 2});
}

}  // namespace
}  // namespace sinter::gpu_testing::tile_walk
