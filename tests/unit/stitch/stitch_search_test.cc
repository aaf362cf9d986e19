// The stitch family's search: what it ranks can be built, the order is fixed, costs follow sizes.

#include "src/chain/op.h"
#include "src/stitch/body_work.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

const DeviceModel& H200Model() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

absl::StatusOr<std::vector<RankedStitch>> All(const Chain& body, int64_t bucket,
                                              bool cooperative = true) {
  return SearchStitch(body, bucket, H200Model(),
                      {.top_k = std::numeric_limits<int>::max(), .allow_cooperative = cooperative});
}

void ExpectLegal(const Chain& body, int64_t bucket, const RankedStitch& ranked) {
  const StitchSchedule& s = ranked.schedule;
  EXPECT_TRUE(CheckStitchFields(s).ok()) << CheckStitchFields(s);
  const StitchProgram program = Got(MakeStitchProgram(body, s.owner, s.handed));
  EXPECT_LE(StitchSharedBytes(body, program, s), H200Model().shared_bytes_per_block)
      << s.ToString();
  if (program.phases.size() > 1) {
    EXPECT_LE(s.grid, H200Model().sm_count * s.blocks_per_sm)
        << "not all resident: " << s.ToString();
  }
  const StitchLoad load = LoadOf(body, program, s, bucket, H200Model());
  EXPECT_GE(
      ranked.prediction.total_us,
      (load.input_bytes + load.output_bytes) / H200Model().hbm_bytes_per_us + H200Model().launch_us)
      << "faster than memory: " << s.ToString();
}

void ExpectRanked(const std::vector<RankedStitch>& ranked) {
  std::set<std::string> seen;
  for (size_t i = 0; i < ranked.size(); ++i) {
    EXPECT_TRUE(seen.insert(ranked[i].schedule.Canonical()).second) << "a schedule twice";
    if (i == 0) continue;
    const double before = ranked[i - 1].prediction.total_us, us = ranked[i].prediction.total_us;
    EXPECT_TRUE(before < us || (before == us && ranked[i - 1].schedule.Canonical() <
                                                    ranked[i].schedule.Canonical()))
        << i;
  }
}

// Reductions of all elements, with M and without: units of all blocks share the work.
TEST(StitchSearch, ReducesEverythingByAllBlocks) {
  for (const auto& [dims, axes] :
       {std::pair("M", "0"), {"M,64", "0, 1"}, {"M,4,6", "0, 1, 2"}, {"4096,4096", "0, 1"}}) {
    const Chain body = ReadChain("x: f32[$0]; out sum(x, $1)", dims, axes);
    const auto ranked = Got(All(body, 8192));
    EXPECT_GE(ranked.front().schedule.owner, static_cast<int>(body.ops().size()));
    if (dims[0] != 'M') {
      EXPECT_LT(ranked.front().prediction.total_us, 30);
    }
  }
}

// Each block of a cluster reads its part of a unit through the L1 of its own SM: rows of a
// transpose in 16-element pieces take twice their bytes, not the time of one L1.
TEST(StitchSearch, AClusterReadsThroughAllItsL1s) {
  const auto ranked =
      Got(All(ReadChain("x = transpose({f32[65536,16,16]}, 1, 0, 2); out sum(x, 1, 2)"), 1));
  const Prediction& best = ranked.front().prediction;
  EXPECT_GT(ranked.front().schedule.cluster, 1);
  EXPECT_LT(best.total_us, 2 * best.hbm_bytes / H200Model().hbm_bytes_per_us);
}

// A concat's branches are read one at a time, however many there are.
TEST(StitchSearch, JoinsAsManyOperandsAsAConcatMayHave) {
  for (const int count : {32, 33, 64}) {
    std::string parts;
    for (int i = 0; i < count; ++i) parts += "{bf16[M,8]}, ";
    EXPECT_TRUE(All(ReadChain("out concat($0 1)", parts), 128).ok()) << count;
  }
}

TEST(StitchSearch, PutsTheBestOfEachKindInFront) {
  const Chain body = FromText("layernorm rows=256 cols=4096 eps=1e-5 affine=1 dtype=bf16");
  const std::vector<RankedStitch> plain = *All(body, 256);
  const std::vector<RankedStitch> ranked = *SearchStitch(
      body, 256, H200Model(), {.top_k = std::numeric_limits<int>::max(), .kinds_first = true});
  ASSERT_EQ(ranked.size(), plain.size());
  EXPECT_EQ(ranked[0].schedule, plain[0].schedule);
  const auto kind = [](StitchSchedule s) {
    s.grid = s.cluster;
    s.keep_alike = false;
    return s.Canonical();
  };
  std::set<std::string> kinds;
  size_t first = 0;
  while (first < ranked.size() && kinds.insert(kind(ranked[first].schedule)).second) ++first;
  for (size_t i = first; i < ranked.size(); ++i) {
    EXPECT_EQ(kinds.count(kind(ranked[i].schedule)), 1u) << i;
  }
  EXPECT_LT(first, ranked.size());
}

TEST(StitchSearch, TightRegistersGiveAnSmMoreBlocks) {
  const Chain body = FromText("layernorm rows=4096 cols=4096 eps=1e-5 affine=1 dtype=bf16");
  SearchOptions options{.top_k = std::numeric_limits<int>::max(), .tight_registers = true};
  const auto most_blocks = [](const std::vector<RankedStitch>& ranked) {
    std::map<std::string, int> most;
    for (const RankedStitch& one : ranked) {
      StitchSchedule s = one.schedule;
      s.grid = s.blocks_per_sm = 1;
      int& blocks = most[s.Canonical()];
      blocks = std::max(blocks, one.schedule.blocks_per_sm);
    }
    return most;
  };
  const std::vector<RankedStitch> tight = *SearchStitch(body, 4096, H200Model(), options);
  ExpectRanked(tight);
  for (const RankedStitch& one : tight) ExpectLegal(body, 4096, one);
  const auto estimated = most_blocks(*All(body, 4096)), needed = most_blocks(tight);
  int more = 0;
  for (const auto& [schedule, blocks] : estimated) {
    ASSERT_EQ(needed.count(schedule), 1u);
    EXPECT_GE(needed.at(schedule), blocks);
    more += needed.at(schedule) > blocks;
  }
  EXPECT_GT(more, 0);
  ExpectRanked(*SearchStitch(ColumnsThenRows(4096, 1024), 1, H200Model(), options));
}

TEST(SearchStitch, RanksWhatCanBeBuilt) {
  int searched = 0;
  size_t schedules = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; seed += 4) {
    const Chain body = testing::MakeRandomStitchGraph(seed);
    const auto ranked = All(body, 1);
    if (!ranked.ok()) {
      EXPECT_EQ(ranked.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(ranked.status().message().rfind("op ", 0), 0u) << ranked.status();
      continue;
    }
    ++searched;
    schedules += ranked->size();
    ExpectRanked(*ranked);
    for (size_t i = 0; i < ranked->size(); i += 1 + ranked->size() / 40) {
      SCOPED_TRACE(seed);
      ExpectLegal(body, 1, (*ranked)[i]);
    }
    const auto again = All(body, 1);
    ASSERT_EQ(again->size(), ranked->size());
    for (size_t i = 0; i < ranked->size(); ++i) {
      EXPECT_TRUE((*again)[i].schedule == (*ranked)[i].schedule) << i;
    }
  }
  std::printf("%d bodies, %zu schedules\n", searched, schedules);
  EXPECT_GT(searched, 30);
}

// A thread that makes several results of a row reads each pixel and each factor once for them.
TEST(SearchStitch, MakesSeveralResultsOfWindowsAtOnce) {
  for (const char* line : {"depthwise_conv b=M ic=144 h=56 w=56 k=3 act=silu bias=1 weights=HWIO",
                           "pool b=M ic=64 h=112 w=112 k=3 stride=2 pad=1"}) {
    const Chain body = testing::FromText(line);
    const auto ranked = Got(
        SearchStitch(body, 32, *BuiltinModel("h200"), {.top_k = std::numeric_limits<int>::max()}));
    EXPECT_GT(ranked.front().schedule.pixels, 1) << line;
    const auto one = std::find_if(ranked.begin(), ranked.end(),
                                  [](const RankedStitch& r) { return r.schedule.pixels == 1; });
    ASSERT_NE(one, ranked.end());
    EXPECT_GT(one->prediction.total_us, 1.1 * ranked.front().prediction.total_us) << line;
  }
}

// A block has several rows of results, of few enough channels, so that an SM reads a row of x less
// often than there are taps.
TEST(WindowReads, AreFewOfRowsThatABlockHas) {
  const Chain narrow = testing::FromText("depthwise_conv b=M ic=32 h=56 w=56 k=3");
  const Chain wide = testing::FromText("depthwise_conv b=M ic=672 h=56 w=56 k=3");
  StitchSchedule s{.block_threads = 128, .unit_threads = 128, .vector = 8, .pixels = 4};
  const auto row_of = [](const Chain& body) { return MakeStitchProgram(body, -1)->windows; };
  EXPECT_EQ(WindowRun(row_of(narrow), 8, 128), 4) << "all channels";
  EXPECT_EQ(WindowRun(row_of(wide), 8, 128), 14);
  EXPECT_DOUBLE_EQ(WindowReads(narrow, row_of(narrow), s), 6.0 / 4 * 34 / 32);
  EXPECT_DOUBLE_EQ(WindowReads(wide, row_of(wide), s), 6.0 / 4 * 11 / 9);
  s.pixels = 1;  // a row of three, of 1.5 pixels
  EXPECT_DOUBLE_EQ(WindowReads(wide, row_of(wide), s), 3.0 * 3);
  s.vector = 1;  // runs of 128 bytes
  s.pixels = 4;
  EXPECT_EQ(WindowRun(row_of(wide), 1, 128), 56);
}

// Where results lie elsewhere than the loop stands, or an output takes an input's buffer, each
// result is made by itself.
TEST(SearchStitch, MakesOneResultOfWindowsAtOnceWhereTheyLieElsewhere) {
  const Chain body =
      ReadChain("x: bf16[M,8,8,16]; out transpose(max_pool2d(x, taps=[3,3]), 0, 3, 1, 2)");
  EXPECT_TRUE(MakeStitchProgram(body, -1)->windows.reductions.empty());
  const Chain flat =
      ReadChain("x: bf16[M,8,8,16]; out reshape(max_pool2d(x, taps=[3,3]), [M,36,16])");
  EXPECT_EQ(MakeStitchProgram(flat, -1)->windows.reductions.size(), 1u);
}

StitchSpec OneAtATime(const Chain& body) {
  const auto ranked = All(body, 1);
  StitchSpec spec{.body = body};
  for (const RankedStitch& one : *ranked) {
    if (one.schedule.pixels == 1 && one.schedule.chunks == 1 && one.schedule.split == 1) {
      spec.schedule = one.schedule;
    }
  }
  return spec;
}

// What a launch's check says of `pixels` results at once in a record; "": nothing.
std::string RefusalOf(StitchSpec spec, int pixels) {
  spec.schedule.pixels = pixels;
  const StitchCode code = *CodeOf(std::make_shared<const StitchSpec>(spec));
  return std::string(CheckStitchLaunch(spec, code, H200Model()).status().message());
}

// A record may say anything: steps of rows take whole warps of one block.
TEST(SearchStitch, StepsOfRowsTakeWholeWarps) {
  const Chain body = testing::GraphOf("largest(M, 128, 8, f32)");
  const auto ranked = Got(All(body, 64));
  for (const RankedStitch& one : ranked) EXPECT_GE(one.schedule.unit_threads, 32);
  StitchSpec spec{.body = body};
  const auto refusal = [&](int unit_threads) {
    spec.schedule = ranked.front().schedule;
    spec.schedule.unit_threads = unit_threads;
    const StitchCode code = Got(CodeOf(std::make_shared<const StitchSpec>(spec)));
    return std::string(CheckStitchLaunch(spec, code, H200Model()).status().message());
  };
  EXPECT_EQ(refusal(32), "");
  EXPECT_EQ(refusal(16), "unit_threads 16 with steps of rows are below 32");
}

// Past the last result of a row other operands have no element, which a thread would read.
TEST(SearchStitch, ResultsAtOnceDivideARowOfWhichOtherOperandsAreRead) {
  for (const char* factors : {"3, 3, 1", "1, 1, 144"}) {
    for (const int64_t width : {29, 28}) {
      const Chain body = testing::GraphOf("windows_times(32, 29, $0, 144, $1)", width, factors);
      const auto ranked = All(body, 1);
      std::set<int> numbers;
      for (const RankedStitch& one : *ranked) numbers.insert(one.schedule.pixels);
      EXPECT_EQ(numbers, width == 29 ? std::set<int>{1} : (std::set<int>{1, 2, 4, 7}));
      const StitchSpec spec = OneAtATime(body);
      EXPECT_EQ(RefusalOf(spec, 1), "");
      EXPECT_EQ(RefusalOf(spec, 4), width == 29 ? "pixels 4 do not divide a row of 29" : "");
    }
  }
}

TEST(SearchStitch, RecordsMakeNoMoreResultsAtOnceThanSourceHasBranchesFor) {
  ChainReader r("x: f32[M,8,40,16]; y = max_pool2d(x, taps=[3,3], pads=[1,1,1,1])");
  int64_t branches = 0;
  while (branches * 16 <= kMostBranches) {
    r.Add("y = sin(y)");
    branches += TraitsOf(UnaryKind::kSin).compile_branches;
  }
  r.Add("out y");
  const StitchSpec spec = OneAtATime(r.Finish());
  const int most = static_cast<int>(kMostBranches / branches);
  ASSERT_GT(most, 1);
  EXPECT_EQ(RefusalOf(spec, most), "");
  EXPECT_EQ(RefusalOf(spec, most + 1),
            "pixels " + std::to_string(most + 1) + " are above " + std::to_string(most));
}

TEST(SearchStitch, KeepsTheBest) {
  const Chain body = FromText("layernorm rows=M cols=1024");
  const auto all = Got(All(body, 8192));
  const auto top = SearchStitch(body, 8192, H200Model(), {.top_k = 5});
  ASSERT_EQ(top->size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE((*top)[i].schedule == all[i].schedule) << i;
}

TEST(SearchStitch, WithoutCooperativeLaunchesThereIsOnePhase) {
  const Chain columns = ColumnsThenRows(8192, 64);
  EXPECT_TRUE(All(columns, 1).ok());
  EXPECT_EQ(All(columns, 1, false).status().code(), absl::StatusCode::kFailedPrecondition);
  int one_phase = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Chain body = testing::MakeRandomStitchGraph(seed);
    const auto ranked = All(body, 1, false);
    if (!ranked.ok()) continue;
    for (const RankedStitch& one : *ranked) {
      ASSERT_EQ(MakeStitchProgram(body, one.schedule.owner, one.schedule.handed)->phases.size(), 1u)
          << seed;
    }
    ++one_phase;
  }
  EXPECT_GT(one_phase, 5);
}

TEST(SearchStitch, NamesTheOpThatNoKernelTakes) {
  const Chain product = ReadChain("a: bf16[M,8]; w: bf16[8,4]; out a @ w");
  EXPECT_EQ(All(product, 1).status().message(),
            "op 2 (matmul): products have kernels of their own");
}

TEST(SearchStitch, LongRowsAreSharedByMoreThreads) {
  const auto owner_threads = [](const char* line, int64_t bucket) {
    const auto ranked = Got(All(FromText(line), bucket));
    return ranked.front().schedule.unit_threads * ranked.front().schedule.cluster;
  };
  EXPECT_LT(owner_threads("softmax rows=M cols=64", 8192),
            owner_threads("softmax rows=M cols=16384", 8192));
}

// Measured at one row of 1024: 2.67 us if one warp reads the norm's weight after the sum of
// squares, 1.54 us if it has read it before.
TEST(SearchStitch, OneRowReadsItsWeightBeforeTheSum) {
  const Chain body = FromText("rmsnorm rows=M cols=1024 eps=1e-6 affine=1 dtype=bf16");
  const std::vector<RankedStitch> ranked = *All(body, 1);
  const StitchSchedule& best = ranked.front().schedule;
  EXPECT_TRUE(best.keep_alike || best.UnitsPerBlock() == 1) << best.ToString();
  int late = 0;
  for (const RankedStitch& one : ranked) {
    const StitchSchedule& s = one.schedule;
    if (s.unit_threads != 32 || s.vector != 8 || !s.keep_inputs || s.keep_values) continue;
    EXPECT_NEAR(one.prediction.total_us, s.keep_alike ? 1.54 : 2.67, 0.5) << s.ToString();
    ++late;
  }
  EXPECT_GE(late, 2);
}

TEST(SearchStitch, HoldsOnChipWhatLaterPhasesReadAgain) {
  const Chain body = testing::GraphOf("batch_norm(25088, 256, x)");
  const StitchSchedule best = Got(All(body, 1)).front().schedule;
  EXPECT_GT(best.hold_bytes, 0) << best.ToString();
  const StitchProgram program = *MakeStitchProgram(body, best.owner, best.handed);
  StitchSchedule without = best;
  without.hold_bytes = 0;
  EXPECT_LT(LoadOf(body, program, best, 1, H200Model()).again_bytes,
            LoadOf(body, program, without, 1, H200Model()).again_bytes - 0.99 * 25088 * 256 * 2)
      << "one phase behind the first reads x again";
}

TEST(SearchStitch, BlocksThatMeetFitTogether) {
  constexpr int64_t kSharedPerSm = 228 * 1024, kSharedOfSystem = 1024;
  for (const int64_t columns : {256, 2048}) {
    const Chain body = testing::GraphOf("batch_norm(25088, $0, x)", columns);
    const auto ranked = Got(All(body, 1));
    for (const RankedStitch& one : ranked) {
      const StitchSchedule& s = one.schedule;
      const int64_t shared =
          StitchSharedBytes(body, *MakeStitchProgram(body, s.owner, s.handed), s);
      EXPECT_LE((shared + kSharedOfSystem) * s.blocks_per_sm, kSharedPerSm) << s.ToString();
    }
  }
}

TEST(SearchStitch, SharesLongReductionsOfFewElements) {
  for (const char* graph : {"attention", "product"}) {
    const auto ranked = Got(All(testing::GraphOf("pooled_$0(256, 100, 36)", graph), 1));
    EXPECT_GT(ranked.front().schedule.split, 1) << ranked.front().schedule.ToString();
  }
}

// The softmax is computed for each of 36 columns, unless a unit's threads hand it over.
TEST(SearchStitch, OffersHandOversOfWhatManyReadersWouldCompute) {
  for (const char* graph : {"attention", "product"}) {
    const auto ranked = Got(All(testing::GraphOf("pooled_$0(256, 100, 36)", graph), 1));
    int offered = 0;
    for (const RankedStitch& one : ranked) {
      const StitchSchedule& s = one.schedule;
      offered += !s.handed.empty();
      if (s.handed.empty()) continue;
      const Chain body = testing::GraphOf("pooled_$0(256, 100, 36)", graph);
      const StitchProgram program = *MakeStitchProgram(body, s.owner, s.handed);
      EXPECT_LE((StitchSharedBytes(body, program, s) + 1024) * s.blocks_per_sm, 233472);
    }
    EXPECT_GT(offered, 0);
  }
}

TEST(SearchStitch, OffersNoHandOversWhereMemoryIsWaitedForOrNothingIsRepeated) {
  for (const char* line : {"softmax rows=M cols=1024", "layernorm rows=M cols=4096",
                           "residual_rmsnorm rows=M cols=2048"}) {
    for (const int64_t rows : {64, 8192}) {
      const auto ranked = Got(All(FromText(line), rows));
      for (const RankedStitch& one : ranked) EXPECT_TRUE(one.schedule.handed.empty()) << line;
    }
  }
}

// A dear value that every element of its unit is a sum of: with hand-overs it is computed once.
TEST(SearchStitch, HandsOverDearFactorsOfProducts) {
  const Chain chain = ReadChain("x, y: f32[2048,24,24]; out erf(x) @ erf(y), sum(x, 1, 2)");
  const auto ranked = Got(All(chain, 1));
  const RankedStitch& best = ranked.front();
  EXPECT_EQ(best.schedule.handed.size(), 2u) << best.schedule.ToString();
  const auto plain = std::find_if(ranked.begin(), ranked.end(), [](const RankedStitch& one) {
    return one.schedule.handed.empty();
  });
  ASSERT_TRUE(plain != ranked.end());
  EXPECT_GT(plain->prediction.total_us, 1.9 * best.prediction.total_us);
}

// Few threads would do all of it, each one step after another.
TEST(SearchStitch, LongSumsOfDearValuesAreNoThreadsOwn) {
  const Chain chain =
      ReadChain("x: bf16[4096,3072]; dear = erf(f32(x)); out bf16(dear), sum(dear, 0)");
  const auto ranked = Got(All(chain, 1));
  const StitchSchedule& best = ranked.front().schedule;
  EXPECT_EQ(best.split, 1) << best.ToString();
  StitchSchedule shared;  // by lanes: 96 blocks of 32 columns, 128 steps one after another
  shared.owner = -1;
  shared.block_threads = shared.unit_threads = 128;
  shared.vector = 8;
  shared.split = 32;
  shared.grid = 96;
  EXPECT_GT(TimesOfStitch(chain, shared, 1, H200Model())->alone.total_us,
            2 * ranked.front().prediction.total_us);
}

TEST(StitchLoad, CountsEachTensorOnce) {
  const Chain body = FromText("softmax rows=M cols=1024 dtype=bf16");
  const auto ranked = Got(All(body, 4096));
  for (const RankedStitch& one : ranked) {
    const StitchProgram program = *MakeStitchProgram(body, one.schedule.owner, one.schedule.handed);
    const StitchLoad load = LoadOf(body, program, one.schedule, 4096, H200Model());
    EXPECT_EQ(load.input_bytes, 4096.0 * 1024 * 2);
    EXPECT_EQ(load.output_bytes, 4096.0 * 1024 * 2);
    EXPECT_EQ(load.column_joins, 0);
    if (one.schedule.keep_inputs) {
      EXPECT_EQ(load.again_bytes, 0);
    }
    if (one.schedule.owner >= 0) {
      EXPECT_EQ(load.levels, 3);
    }
  }
}

TEST(StitchLoad, VectorsOverTwoRowsSaveNoInstructions) {
  const Chain chain = ReadChain("x: f32[600,64,4]; out exp(transpose(x, 1, 0, 2))");
  const StitchProgram program = *MakeStitchProgram(chain, -1);
  const auto instructions = [&](int vector) {
    return LoadOf(chain, program, {.vector = vector}, 1, H200Model()).instructions;
  };
  EXPECT_LT(instructions(4), instructions(2));
  EXPECT_GT(instructions(8), 1.2 * instructions(4));
}

// Each row computes the ids of others again.
TEST(StitchLoad, CountsWhatComputesTheIdsOfAScatter) {
  const auto instructions = [](int ops) {
    ChainReader r("ids: s32[512]; x: f32[64,4]; rows: f32[512,4]");
    for (int i = 0; i < ops; ++i) r.Add("ids = ids + ids");
    r.Add("out scatter(x, ids, rows)");
    const Chain chain = r.Finish();
    const StitchProgram program = *MakeStitchProgram(chain, -1);
    return LoadOf(chain, program, StitchSchedule{}, 1, H200Model()).instructions;
  };
  EXPECT_GT(instructions(8), 2 * instructions(0));
}

TEST(StitchLoad, GrowsWithTheRows) {
  const Chain body = FromText("layernorm rows=M cols=512");
  const StitchProgram program = *MakeStitchProgram(body, OwnerCandidates(body)[1]);
  StitchSchedule s{.owner = program.owner};
  const StitchLoad few = LoadOf(body, program, s, 100, H200Model()),
                   many = LoadOf(body, program, s, 300, H200Model());
  EXPECT_DOUBLE_EQ(many.output_bytes, 3 * few.output_bytes);
  EXPECT_DOUBLE_EQ(many.instructions, 3 * few.instructions);
  EXPECT_EQ(WorkItems(program, 300), 300);
  EXPECT_EQ(MainElements(program), 512);
}

}  // namespace
}  // namespace sinter
