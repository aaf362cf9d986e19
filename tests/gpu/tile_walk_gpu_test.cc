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
  return ReadFfns(
      {"n712 k328 l523 relu bias1 bias2", "gated n712 k328 l520 silu io f16 bias1 bias2"});
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
      list[i].grid = std::min(list[i].grid, kClusters[i % std::size(kClusters)] * list[i].cluster);
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
    SCOPED_TRACE(kind.name);
    for (const FfnSpec& spec : Specs()) {
      SCOPED_TRACE(NameOf(spec));
      HandPlans hand{std::make_shared<const Chain>(MakeFfnChain(spec).value()), {}, kRows, 5};
      hand.plans = PlansOf(*hand.chain, kind);
      ASSERT_FALSE(hand.plans.empty());
      hand.options.codegen.jitter = hand.may_be_refused = jitter;
      RunPlans(hand, [](DeviceChain& data, const LoadedPlanPtr& plan) {
        ExpectRows(data, plan, kSomeRows, Repeats(4));
      });
      if (HasFatalFailure()) return;
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
