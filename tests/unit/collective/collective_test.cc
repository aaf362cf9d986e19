// Sums and gathers over ranks as the host sees them: bounds, slots, times, source and launch.
#include "src/collective/collective.h"

#include "tests/support/collective_programs.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

CollectiveProblem Layer(int ranks = 2) {
  CollectiveProblem p{.ranks = ranks, .columns = 8192};
  testing::AddResidual(&p);
  return p;
}

CollectiveProblem LayerWithNorm(int64_t columns) {
  CollectiveProblem p = Layer();
  p.columns = columns;
  testing::AddNorm(&p);
  return p;
}

TEST(AllReduce, WhatNoKernelComputesIsNamed) {
  CollectiveProblem p = Layer();
  const CollectiveSchedule s;
  EXPECT_TRUE(CheckCollective(p, s).ok());
  p.columns = 12;
  EXPECT_TRUE(Says(CheckCollective(p, s), "columns is 12, must be a multiple of 8"));
  p.element = p.result = DType::kF32;
  testing::AddResidual(&p);
  EXPECT_TRUE(CheckCollective(p, s).ok());
  p.element = DType::kE4M3;
  EXPECT_TRUE(Says(CheckCollective(p, s), "e4m3, must be floating"));
  EXPECT_TRUE(Says(CheckCollective(Layer(9), s), "ranks is 9, must be 2 to 8"));
  EXPECT_TRUE(Says(CheckCollective(Layer(), {false, 100, 1}), "threads is 100"));
  // Each rank adds its own residual, so owners cannot add it for all.
  p = Layer();
  testing::AddResidual(&p, false);
  EXPECT_TRUE(CheckCollective(p, {false, 256, 1}).ok());
  EXPECT_TRUE(Says(CheckCollective(p, {true, 256, 1}), "must be one-shot"));
}

// What the kernel addresses of a launch's last unit, as all_reduce.cuh computes it.
TEST(AllReduce, RowsOfALaunchFitIntoASlot) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int64_t columns : {8, 1032, 8192}) {
      for (const DType result : {DType::kBF16, DType::kF32}) {
        for (const bool two_shot : {false, true}) {
          CollectiveProblem p = Layer(ranks);
          p.columns = columns;
          p.result = result;
          testing::AddResidual(&p);
          const CollectiveSchedule s{two_shot, 128, 64};
          constexpr int64_t kSlot = 1 << 20;
          const int64_t rows = MostCollectiveRows(p, s, kSlot);
          ASSERT_GT(rows, 0);
          const int64_t chunk = p.ChunkElements();
          const auto bytes = [&](int64_t count) {
            if (!two_shot) return count * columns * SizeOf(p.element);
            const int64_t units = count * CollectiveParts(p, s);
            const int64_t owned = (units - 1) / ranks * s.threads + s.threads;
            const int64_t parts = owned * chunk * SizeOf(p.element);
            EXPECT_LE(parts, kSlot / 2);
            return kSlot / 2 + owned * chunk * SizeOf(result);
          };
          EXPECT_LE(bytes(rows), kSlot) << p.ToString() << " " << s.ToString();
        }
      }
    }
  }
}

TEST(AllReduce, TwoShotIsForManyRanksAndBytes) {
  const DeviceModel model = *BuiltinModel("h100");
  const auto best = [&](int ranks, int64_t rows) {
    return SearchCollective(Layer(ranks), rows, model).front();
  };
  EXPECT_FALSE(best(2, 1).schedule.two_shot);
  EXPECT_FALSE(best(2, 4096).schedule.two_shot);
  for (const int ranks : {3, 4, 8}) {
    EXPECT_FALSE(best(ranks, 1).schedule.two_shot) << ranks;
    EXPECT_TRUE(best(ranks, 1024).schedule.two_shot) << ranks;
  }
  EXPECT_LT(best(2, 1).prediction.total_us, 4);
  EXPECT_EQ(best(8, 1024).prediction.bound, "link");
}

// Two shots send a part to its owner and the sum from there to all.
TEST(AllReduce, BytesOfTheLinkAreThoseOfOneShotOrTwo) {
  const DeviceModel model = *BuiltinModel("h100");
  constexpr double kBytes = 1024 * 8192 * 2;
  for (const int ranks : {2, 3, 4, 8}) {
    const auto link = [&](bool two_shot) {
      return PredictSchedule(Layer(ranks), {two_shot, 256, 132}, 1024, model)->dsm_bytes;
    };
    EXPECT_DOUBLE_EQ(link(false), (ranks - 1) * kBytes) << ranks;
    EXPECT_NEAR(link(true), 2 * (ranks - 1) * kBytes / ranks, 1e-6 * kBytes) << ranks;
  }
}

// Norms over up to four ranks in one shot and in two, and each number of rows.
TEST(AllReduce, EachFormHasSchedulesOverAnyNumberOfRanks) {
  const DeviceModel model = *BuiltinModel("h100");
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int64_t rows : {1, 7, 64, 1024}) {
      for (const bool norm : {false, true}) {
        if (norm && ranks > 4) continue;
        CollectiveProblem p = norm ? LayerWithNorm(8192) : Layer();
        p.ranks = ranks;
        std::set<std::pair<bool, int>> offered;
        for (const RankedCollective& one : SearchCollective(p, rows, model)) {
          EXPECT_TRUE(CheckCollective(p, one.schedule).ok()) << one.schedule.ToString();
          offered.emplace(one.schedule.two_shot, one.schedule.threads);
        }
        for (const bool two_shot : {false, true}) {
          EXPECT_EQ(offered.count({two_shot, norm ? 512 : 256}), 1u)
              << ranks << " ranks, " << rows << " rows, norm " << norm << ", two-shot " << two_shot;
        }
      }
    }
  }
}

TEST(AllReduce, OfWhatIsPushedWaitsForTheLastTurnAlone) {
  const DeviceModel model = *BuiltinModel("h100");
  const CollectiveProblem p = Layer();
  const auto us = [&](int64_t turns) {
    const RankedCollective best = SearchCollective(p, 128, model, {turns}).front();
    EXPECT_EQ(best.schedule.pushed, turns);
    EXPECT_FALSE(best.schedule.two_shot);
    return best.prediction.total_us;
  };
  EXPECT_LT(us(4), us(1));
  EXPECT_LT(us(1), SearchCollective(p, 128, model).front().prediction.total_us);
  for (const int ranks : {3, 4}) {
    CollectiveProblem more = LayerWithNorm(8192);
    more.ranks = ranks;
    const RankedCollective best = SearchCollective(more, 128, model, {2}).front();
    EXPECT_EQ(best.schedule.pushed, 2) << ranks;
    EXPECT_FALSE(best.schedule.two_shot) << ranks << ": each rank has received all";
  }
  const CollectiveProblem one_row = LayerWithNorm(8192);
  EXPECT_EQ(SearchCollective(one_row, 1, model).front().schedule.threads, 512);
  EXPECT_EQ(SearchCollective(one_row, 128, model).front().schedule.threads, 256);
  EXPECT_TRUE(Says(CheckCollective(p, {true, 256, 1, 1}), "must be one-shot"));
  EXPECT_TRUE(Says(CheckCollective(p, {false, 256, 1, 256}), "pushed is 256"));
  EXPECT_THAT(SourceOf(p, {false, 256, 1, 3}), HasSubstr("kPushedColumns = 8192"));
  EXPECT_EQ(SourceOf(p, {false, 256, 1, 3}), SourceOf(p, {false, 256, 1, 4}));
}

TEST(AllReduce, SendsTheColumnsThatAreNotPushed) {
  const DeviceModel model = *BuiltinModel("h100");
  const CollectiveProblem p = LayerWithNorm(8192);
  const auto link_us = [&](int64_t columns) {
    const RankedCollective best = SearchCollective(p, 1024, model, {0, columns}).front();
    EXPECT_EQ(best.schedule.pushed_columns, columns);
    return best.prediction.dsm_us;
  };
  EXPECT_NEAR(link_us(4096), link_us(0) / 2, 1e-6);
  EXPECT_NEAR(link_us(0), 1024 * 8192 * 2 / model.link_bytes_per_us, 1e-6);
  EXPECT_THAT(SourceOf(p, {false, 256, 1, 0, 4096}), HasSubstr("kPushedColumns = 4096"));
  for (const int columns : {8192, 12, -8}) {
    EXPECT_TRUE(Says(CheckCollective(p, {false, 256, 1, 0, columns}),
                     "must be a multiple of 8 below 8192"));
  }
  EXPECT_TRUE(Says(CheckCollective(p, {false, 256, 1, 2, 4096}), "pushed columns"));
  EXPECT_TRUE(Says(CheckCollective(Layer(), {true, 256, 1, 0, 64}), "one-shot"));
}

// The sums have more units than blocks; owners are assigned as for two shots.
TEST(AllReduce, TheUnitsOfABlockHaveAllRanksAsOwners) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    CollectiveProblem p = Layer(ranks);
    p.element = DType::kF32;
    for (const RankedCollective& one : SearchCollective(p, 8192, *BuiltinModel("h100"))) {
      EXPECT_EQ(std::gcd(one.schedule.grid, ranks), 1) << ranks << " " << one.schedule.ToString();
    }
  }
}

TEST(AllReduce, SourceAndLaunchAgreeOnArguments) {
  CollectiveProblem p = Layer();
  const CollectiveSchedule s{false, 256, 8};
  LaunchRecipe recipe = *RecipeOf(p, s, {{0, 0}, {1, 0}, {kWorkspaceBuffer, 64}});
  EXPECT_TRUE(recipe.Check().ok()) << recipe.Check();
  EXPECT_EQ(recipe.args.size(), 6u);
  EXPECT_EQ(recipe.args[0].kind, ArgKind::kRoom);
  EXPECT_EQ(recipe.args[3].index, kWorkspaceBuffer);
  EXPECT_EQ(recipe.args[3].offset_bytes, 64u);
  EXPECT_EQ(recipe.args[2].int_value, 16384) << "the next pass has the next rows";
  EXPECT_EQ(recipe.args[3].int_value, 0) << "and the same workspace";
  EXPECT_EQ(recipe.args[4].kind, ArgKind::kPlan);
  EXPECT_EQ(recipe.args[5].kind, ArgKind::kSymbolM);
  EXPECT_THAT(SourceOf(p, s), HasSubstr("struct Program {"));
  EXPECT_THAT(SourceOf(p, s), HasSubstr("using NormProgram = NoProgram;"));
  p.program = {};
  EXPECT_THAT(SourceOf(p, s), Not(HasSubstr("void* leaf")));
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}, {1, 0}})->args.size(), 5u);
  p.fixed_rows = 3;
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}, {1, 0}})->args.back().int_value, 3);
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}, {1, 0}})->args[1].int_value, 0);
  p.fixed_rows = 0;
  EXPECT_EQ(SourceOf(p, s), SourceOf(p, {false, 256, 9}));
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}}).status().message(), "all_reduce: 1 operands, it has 2");
}

TEST(AllReduce, ANormIsOfRowsThatABlockHolds) {
  const CollectiveSchedule s{false, 512, 4};
  EXPECT_TRUE(CheckCollective(LayerWithNorm(16384), s).ok());
  EXPECT_TRUE(Says(CheckCollective(LayerWithNorm(16392), s),
                   "columns of a norm is 16392, must be at most 16384"));
  EXPECT_FALSE(CheckCollective(LayerWithNorm(8192), {false, 128, 4}).ok());
  CollectiveProblem p = LayerWithNorm(8192);
  testing::AddResidual(&p, false);  // each rank adds its own to what owners send
  EXPECT_FALSE(CheckCollective(p, {true, 512, 4}).ok());
  testing::AddResidual(&p);
  EXPECT_TRUE(CheckCollective(p, {true, 512, 4}).ok());
  testing::AddNorm(&p, true);
  EXPECT_TRUE(CheckCollective(p, s).ok());
  p.norm = false;
  EXPECT_TRUE(Says(CheckCollective(p, s), "norm is false, must be true: it has a program"));
  p = LayerWithNorm(8192);
  p.ranks = 8;
  EXPECT_TRUE(Says(CheckCollective(p, s), "ranks of a norm is 8, must be at most 4"));
  p = LayerWithNorm(8192);
  p.eps = 0;
  EXPECT_TRUE(Says(CheckCollective(p, s), "eps is 0, must be more than 0"));
  for (const int ranks : {2, 4}) {
    p = LayerWithNorm(8192);
    p.ranks = ranks;
    const auto best = [&](int64_t rows) {
      return SearchCollective(p, rows, *BuiltinModel("h100"));
    };
    for (const RankedCollective& one : best(4)) {
      EXPECT_LE(one.schedule.grid, 4) << "a block takes a row";
    }
    EXPECT_EQ(best(1024).front().schedule.two_shot, ranks > 2);
  }
}

// Programs of other ops: what they read, and how much more a thread holds.
TEST(AllReduce, AProgramReadsMatricesAndVectorsOfTheResultsType) {
  const CollectiveSchedule s{false, 256, 8};
  CollectiveProblem p{.ranks = 2, .columns = 8192};
  const auto program = [&](const char* text) {
    p.program = testing::CollectiveProgram(text, p.result);
    return CheckCollective(p, s);
  };
  EXPECT_TRUE(program("f32(bf16(y)) * 0.5 + f32(c) + f32(r)").ok());
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kLeaves = 2, kMatrices = 2"));
  const LaunchRecipe recipe = *RecipeOf(p, s, {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  EXPECT_EQ(recipe.args[2].int_value, 0) << "a vector has no rows";
  EXPECT_EQ(recipe.args[3].int_value, 16384);
  EXPECT_LT(CollectiveResidents(p, 256), CollectiveResidents(Layer(), 256));
  EXPECT_TRUE(CheckCollective(p, {true, 256, 8}).ok());
  EXPECT_TRUE(program("y * f32(c)").ok());
  EXPECT_FALSE(CheckCollective(p, {true, 256, 8}).ok()) << "owners send rounded sums";
  p.result = DType::kF16;
  EXPECT_TRUE(Says(CheckCollective(p, s), "program is mul(y,to_f32(c1)), must be of one result"));
}

// Two-shot sums with norms: a rank owns whole rows.
TEST(AllReduce, RowsWithNormsOfALaunchFitIntoASlot) {
  for (const int ranks : {2, 3, 4}) {
    CollectiveProblem p = LayerWithNorm(5120);
    p.ranks = ranks;
    const CollectiveSchedule s{true, 256, 64};
    constexpr int64_t kSlot = 1 << 20;
    const int64_t rows = MostCollectiveRows(p, s, kSlot), parts = CollectiveParts(p, s);
    ASSERT_GT(rows, 0);
    const int64_t owned = ((rows - 1) / ranks * parts + parts) * s.threads * p.ChunkElements();
    EXPECT_LE(owned * SizeOf(p.result), kSlot / 2) << ranks;
  }
}

TEST(AllReduce, ANormsSourceAndLaunchAgreeOnArguments) {
  CollectiveProblem p = LayerWithNorm(8192);
  const CollectiveSchedule s{false, 512, 4};
  // x, residual, gamma, the norm, the sum.
  LaunchRecipe recipe = *RecipeOf(p, s, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}});
  EXPECT_EQ(recipe.args.size(), 8u);
  EXPECT_EQ(recipe.args[3].int_value, 0) << "gamma has no rows";
  EXPECT_EQ(recipe.args[4].int_value, 16384);
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kEps = 0x1.0c6f7ap-20f"));
  EXPECT_THAT(SourceOf(p, s), HasSubstr("{leaf0, leaf1, }, out, normed, rows"));
  p.keeps = false;
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}, {1, 0}, {2, 0}, {3, 0}})->args.size(), 7u);
  EXPECT_THAT(SourceOf(p, s), HasSubstr("{leaf0, leaf1, }, nullptr, normed, rows"));
}

CollectiveProblem Parts(CollectiveKind kind, bool by_rows, int ranks = 2) {
  return CollectiveProblem{.kind = kind, .ranks = ranks, .columns = 4096, .by_rows = by_rows};
}
constexpr auto kScatter = CollectiveKind::kReduceScatter, kGather = CollectiveKind::kAllGather;

TEST(Parts, WhatNoKernelComputesIsNamed) {
  const CollectiveSchedule s;
  for (const CollectiveKind kind : {kScatter, kGather}) {
    EXPECT_TRUE(CheckCollective(Parts(kind, true, 8), s).ok());
    EXPECT_TRUE(Says(CheckCollective(Parts(kind, false), {true, 256, 1}),
                     "form is two-shot, must be one-shot"));
    CollectiveProblem p = Parts(kind, true);
    p.rows_per_m = 2;
    EXPECT_TRUE(Says(CheckCollective(p, s), "rows of M is 2, must be 1 where ranks have rows"));
    p.by_rows = false;
    EXPECT_TRUE(CheckCollective(p, s).ok());
    EXPECT_EQ(p.Rows(5), 10);
    p.rows_per_m = 0;
    EXPECT_FALSE(CheckCollective(p, s).ok());
  }
  CollectiveProblem p = Parts(kGather, false);
  p.element = p.result = DType::kE4M3;
  EXPECT_TRUE(CheckCollective(p, s).ok());
  p.columns = 8;
  EXPECT_TRUE(Says(CheckCollective(p, s), "all_gather: columns is 8, must be a multiple of 16"));
  p = Parts(kGather, false);
  testing::AddResidual(&p);
  EXPECT_TRUE(Says(CheckCollective(p, s), "must be what the ranks have"));
  p = Layer();
  p.by_rows = true;
  EXPECT_TRUE(Says(CheckCollective(p, s), "ranks have no parts"));
}

// A message is one part: of a scatter what one rank sums, of a gather what one has.
TEST(Parts, BytesAreThoseOfParts) {
  const DeviceModel model = *BuiltinModel("h100");
  const CollectiveSchedule s{false, 256, 132};
  const auto time = [&](const CollectiveProblem& p) { return *PredictSchedule(p, s, 1024, model); };
  CollectiveProblem sum = Parts(CollectiveKind::kAllReduce, false, 4);
  constexpr double kPart = 1024 * 4096 * 2;
  EXPECT_EQ(time(sum).dsm_bytes, 3 * kPart);
  EXPECT_EQ(time(sum).hbm_bytes, 2 * kPart);
  for (const CollectiveKind kind : {kScatter, kGather}) {
    EXPECT_EQ(time(Parts(kind, false, 4)).dsm_bytes, 3 * kPart);
    EXPECT_EQ(time(Parts(kind, true, 4)).hbm_bytes, 5 * kPart);
    EXPECT_EQ(MostCollectiveRows(Parts(kind, true), s, 1 << 20), (1 << 20) / 8192);
  }
  // Half of a sum's bytes over the link, of the same x.
  sum.columns = 4 * 4096;
  EXPECT_LT(time(Parts(kScatter, false, 4)).total_us, time(sum).total_us);
}

TEST(Parts, SourceAndLaunchAgreeOnArguments) {
  const CollectiveSchedule s{false, 256, 8};
  CollectiveProblem p = Parts(kGather, false, 3);
  LaunchRecipe recipe = *RecipeOf(p, s, {{0, 0}, {1, 0}});
  EXPECT_TRUE(recipe.Check().ok()) << recipe.Check();
  EXPECT_EQ(recipe.entry, "sinter_all_gather");
  ASSERT_EQ(recipe.args.size(), 5u);
  EXPECT_EQ(recipe.args[1].int_value, 8192);
  EXPECT_EQ(recipe.args[2].int_value, 3 * 8192) << "a row of all ranks";
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kernels/all_gather.cuh"));
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kByRows = false"));
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kRowVectors = 512"));
  p.element = p.result = DType::kE4M3;
  p.columns *= 2;
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kRowVectors = 512")) << "vectors of any type";
  p = Parts(kScatter, true);
  testing::AddResidual(&p);
  recipe = *RecipeOf(p, s, {{0, 0}, {1, 0}, {2, 0}});
  EXPECT_EQ(recipe.entry, "sinter_reduce_scatter");
  EXPECT_EQ(recipe.args[1].int_value, 2 * 8192);
  EXPECT_EQ(recipe.args[3].int_value, 8192);
  EXPECT_THAT(SourceOf(p, s), HasSubstr("kScatter = true, kNorm = false"));
  p.by_rows = false;
  p.rows_per_m = 5;
  EXPECT_EQ(RecipeOf(p, s, {{0, 0}, {1, 0}, {2, 0}})->rows_per_m, 5);
}

}  // namespace
}  // namespace sinter
