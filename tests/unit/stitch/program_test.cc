// Programs: who computes a reduction, in which pass, in which phase; what is refused, and why.

#include "src/stitch/sectors.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

StitchProgram Made(const Chain& body, ValueId owner) { return Got(MakeStitchProgram(body, owner)); }

std::string Refusal(const Chain& body, ValueId owner) {
  const absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner);
  EXPECT_FALSE(program.ok());
  return std::string(program.status().message());
}

// "0:row 1:store,row" of loops, by level.
std::string LoopText(const std::vector<StitchLoop>& loops) {
  const char* names[] = {"store", "row", "column", "segment", "hand", "scatter"};
  std::string text;
  for (const StitchLoop& loop : loops) {
    absl::StrAppend(&text, text.empty() ? "" : " ", loop.level, "x", loop.elements);
    for (const StitchRoot& root : loop.roots) absl::StrAppend(&text, ":", names[root.kind]);
  }
  return text;
}

TEST(StitchProgram, SoftmaxHasThreeLevelsInOnePhase) {
  const Chain body = FromText("softmax rows=M cols=64");
  const std::vector<ValueId> owners = OwnerCandidates(body);
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0], -1);
  const StitchProgram program = Made(body, owners[1]);
  EXPECT_TRUE(program.units_symbolic);
  EXPECT_EQ(program.units, 1);
  ASSERT_EQ(program.phases.size(), 1u);
  EXPECT_EQ(LoopText(program.phases[0].loops), "0x64:row 1x64:row 2x64:store");
  EXPECT_TRUE(program.phases[0].flat.empty());
}

TEST(StitchProgram, ReductionsOfOneLevelShareAPass) {
  const Chain chain = ReadChain(
      "x: f32[M,48]; y = x - spread(sum(x, 1, keep), x); out y - spread(reduce_max(x, 1, keep), "
      "y)");
  const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
  EXPECT_EQ(LoopText(program.phases[0].loops), "0x48:row:row 1x48:store");
}

TEST(StitchProgram, WithoutAnOwnerEachThreadReducesForItself) {
  const Chain body = FromText("softmax rows=M cols=16");
  const StitchProgram program = Made(body, -1);
  ASSERT_EQ(program.phases.size(), 1u);
  EXPECT_TRUE(program.phases[0].loops.empty());
  EXPECT_EQ(LoopText(program.phases[0].flat), "0x16:store");
  EXPECT_TRUE(program.phases[0].flat[0].symbolic);
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const bool reduces = body.op(static_cast<ValueId>(id)).kind == OpKind::kReduce;
    EXPECT_EQ(program.uses[id], reduces ? ReduceUse::kSerial : ReduceUse::kNone);
  }
}

TEST(StitchProgram, WhatReadsAColumnReductionIsInALaterPhase) {
  const Chain body = ColumnsThenRows(64, 32);
  const ValueId column = FirstReduction(body, 0), row = FirstReduction(body, 1);
  for (ValueId owner : {column, row}) {
    const StitchProgram program = Made(body, owner);
    EXPECT_EQ(program.units, 64);
    EXPECT_EQ(program.uses[static_cast<size_t>(column)], ReduceUse::kColumn);
    EXPECT_EQ(program.uses[static_cast<size_t>(row)], ReduceUse::kRow);
    ASSERT_EQ(program.phases.size(), 2u);
    EXPECT_EQ(LoopText(program.phases[0].loops), "0x32:column");
    EXPECT_EQ(LoopText(program.phases[1].loops), "0x32:store:row 1x1:store");
  }
}

// y and both gradients are 6 bytes an element, what they make of them 2, as it was stored.
TEST(StitchProgram, AStoredResultIsReadBackInsteadOfMoreInputs) {
  const Chain body = testing::GraphOf("batch_norm_gradient(2, 3, 5, 16)");
  const StitchProgram program = Made(body, body.outputs()[1].value);
  ASSERT_EQ(program.phases.size(), 2u);
  EXPECT_TRUE(program.phases[0].back.empty());
  ASSERT_EQ(program.phases[1].back.size(), 1u);
  EXPECT_EQ(program.phases[1].back[0].output, 0);
  EXPECT_EQ(program.phases[1].back[0].value, body.outputs()[0].value);
  const Chain forward = testing::GraphOf("batch_norm(64, 16, x)");
  for (const StitchPhase& phase : Made(forward, FirstReduction(forward, 0)).phases) {
    EXPECT_TRUE(phase.back.empty()) << "nothing is stored before";
  }
}

TEST(StitchProgram, ResultsThatNoUnitOwnsAreFlat) {
  const Chain chain = ReadChain("x: f32[M,24]; out sum(x, 0)");
  const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
  ASSERT_EQ(program.phases.size(), 2u);
  EXPECT_EQ(LoopText(program.phases[0].loops), "0x24:column");
  EXPECT_EQ(LoopText(program.phases[1].flat), "0x24:store");
  EXPECT_FALSE(program.phases[1].flat[0].symbolic);
}

TEST(StitchProgram, AMiddleAxisIsReducedByEachThread) {
  const Chain chain = ReadChain("x: f32[8,5,6]; out sum(x, 1)");
  EXPECT_EQ(OwnerCandidates(chain), std::vector<ValueId>{-1});
  const StitchProgram program = Made(chain, -1);
  EXPECT_EQ(program.uses[static_cast<size_t>(FirstReduction(chain, 1))], ReduceUse::kSerial);
  EXPECT_THAT(Refusal(chain, FirstReduction(chain, 1)),
              HasSubstr("neither the last nor the first"));
}

TEST(StitchProgram, LanesMayShareWhatAThreadReducesAlone) {
  const Chain body = testing::GraphOf("pooled_attention(4, 10, 6)");
  const StitchProgram program = *MakeStitchProgram(body, OwnerCandidates(body)[1]);
  ASSERT_EQ(program.phases.size(), 1u);
  ASSERT_EQ(program.phases[0].loops.size(), 3u);
  EXPECT_FALSE(program.phases[0].loops[0].serial);
  EXPECT_FALSE(program.phases[0].loops[1].serial);
  EXPECT_TRUE(program.phases[0].loops[2].serial) << "the weighted sum";
}

TEST(StitchProgram, ElementsOfColumnReductionsAndInPlaceOutputsHaveOneThread) {
  const Chain chain = ReadChain("x: f32[8,5,4]; out sum(sum(x, 1), 0)");
  for (ValueId owner : OwnerCandidates(chain)) {
    const auto program = MakeStitchProgram(chain, owner);
    if (!program.ok()) continue;
    for (const StitchPhase& phase : program->phases) {
      for (const StitchLoop& loop : phase.loops) {
        for (const StitchRoot& root : loop.roots) {
          EXPECT_FALSE(root.kind == StitchRoot::kColumn && loop.serial);
        }
      }
    }
  }
  const Chain in_place = ReadChain("x: f32[8,4]; y: f32[8,5,4]; out x + sum(y, 1) over x");
  EXPECT_FALSE(MakeStitchProgram(in_place, -1)->phases[0].flat[0].serial);
}

TEST(StitchProgram, RowsInsideAUnitAreSegments) {
  const Chain body = testing::GraphOf("norm_rope(6, 8, 2, 16)");
  std::set<int64_t> units;
  for (ValueId owner : OwnerCandidates(body)) {
    if (owner < 0) continue;
    const auto program = Got(MakeStitchProgram(body, owner));
    units.insert(program.units);
    std::map<ReduceUse, int> uses;
    for (const ReduceUse use : program.uses) ++uses[use];
    EXPECT_EQ(uses[ReduceUse::kRow], 1);
    EXPECT_EQ(uses[ReduceUse::kSegment], program.units == 12 ? 1 : 0) << "four heads of q each";
    EXPECT_EQ(uses[ReduceUse::kSerial], program.units == 12 ? 0 : 1) << "two units a head of k";
    if (program.units != 12) continue;
    ASSERT_EQ(program.phases.size(), 1u);
    ASSERT_EQ(program.phases[0].loops.size(), 4u) << "statistics and stores of q and of k";
    for (const StitchLoop& loop : program.phases[0].loops) EXPECT_TRUE(loop.segments);
  }
  EXPECT_EQ(units, (std::set<int64_t>{12, 48}));
}

// The scales of groups leave a unit from the lanes that joined the groups: nobody joins them again.
TEST(StitchProgram, ResultsOfSegmentsAreStoredWhereTheyAreJoined) {
  const Chain body = testing::FromText("rmsnorm_quantize rows=M cols=512 granularity=group");
  int rows = 0;
  for (ValueId owner : OwnerCandidates(body)) {
    const auto program = MakeStitchProgram(body, owner);
    if (!program.ok() || program->owner < 0 || program->units != 1) continue;
    ++rows;
    ASSERT_EQ(program->phases.size(), 1u);
    const StitchLoop& last = program->phases[0].loops.back();
    ASSERT_EQ(last.roots.size(), 2u) << "codes and scales";
    EXPECT_EQ(last.elements, 512);
    EXPECT_EQ(last.roots[0].spread, 1);
    EXPECT_EQ(last.roots[1].spread, 128);
    EXPECT_EQ(EvaluationsOf(body, *program, last, &program->phases[0]).steps, 0)
        << "a group is joined again";
  }
  EXPECT_EQ(rows, 1);
}

TEST(StitchProgram, TakesFineGrainedProducts) {
  for (const Chain& body : {testing::GraphOf("pooled_product(4, 10, 6)"),
                            testing::GraphOf("transposed_products(3, 4, 5, 6)")}) {
    for (ValueId owner : OwnerCandidates(body)) Made(body, owner);
  }
  EXPECT_EQ(Refusal(ReadChain("a: f32[2,3,5000]; b: f32[2,5000,4]; out a @ b"), -1),
            "op 2 (matmul): products have kernels of their own");
}

TEST(StitchProgram, RefusesAndNamesTheOp) {
  const std::pair<const char*, const char*> cases[] = {
      {"x: f32[M,8]; out transpose(exp(x), 1, 0)",
       "op 2 (transpose): axis 1 is M, only axis 0 may be: M must be the first dimension"},
      {"a: bf16[M,8]; w: bf16[8,4]; out a @ w",
       "op 2 (matmul): products have kernels of their own"},
      {"x: f32[4,5000]; out sum(x, 1)",
       "op 1 (reduce): is too long for one thread and not over whole rows"},
      {"x: f32[M,4] strides(1, 1*M); out exp(x)", "op 0 (input): a stride depends on M"},
      {"x: f32[M,4]; out exp(x) strides(1, 1*M)", "op 1 (exp): its output's stride depends on M"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(Refusal(ReadChain(text), -1), message);
}

TEST(StitchProgram, RefusesARowThatOtherUnitsRead) {
  const Chain chain = ReadChain("x: f32[6,5000]; out exp(spread(sum(x, 1), [5,6]))");
  EXPECT_THAT(Refusal(chain, FirstReduction(chain, 1)),
              HasSubstr("(reduce): is read by other units"));
}

TEST(StitchProgram, RefusesOwnersThatAreNone) {
  const Chain body = FromText("softmax rows=M cols=64");
  EXPECT_EQ(Refusal(body, 0), "owner 0 is not a reduction");
  const auto count = static_cast<ValueId>(body.ops().size());
  EXPECT_EQ(Refusal(body, count + 1), "owner 1 is not a reduction");
  EXPECT_THAT(Refusal(body, 1000), HasSubstr("(reduce): is not made in tiles of a result"));
}

TEST(StitchProgram, RefusesMorePhasesThanItMakes) {
  ChainReader r("x: f32[64,32]");
  for (int i = 0; i < 4; ++i) r.Add("x = x - spread(sum(x, 0, keep), x)");
  r.Add("out x");
  const Chain chain = r.Finish();
  EXPECT_EQ(Refusal(chain, FirstReduction(chain, 0)), "needs 5 phases, at most 4 are made");
}

TEST(StitchProgram, UnitsAreCutOffTheLeadingDims) {
  StitchProgram program{.units = 12};
  const auto cut = [&](const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (const int64_t extent : extents) {
      dims.push_back(extent == 0 ? Dim::M() : Dim::Constant(extent));
    }
    return CutUnits(program, dims);
  };
  EXPECT_EQ(cut({3, 4, 5})->unit_dims, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(cut({3, 4, 5})->element_dims, (std::vector<int64_t>{5}));
  EXPECT_FALSE(cut({3, 4, 5})->across);
  EXPECT_EQ(cut({3, 8, 5})->unit_dims, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(cut({3, 8, 5})->element_dims, (std::vector<int64_t>{2, 5}));
  EXPECT_TRUE(cut({3, 8, 5})->across);
  EXPECT_EQ(cut({12})->element_dims, std::vector<int64_t>{});
  EXPECT_EQ(cut({5, 12}).status().message(), "[5,12] is not 12 units");
  EXPECT_FALSE(cut({6}).ok());
  EXPECT_FALSE(cut({0, 12}).ok());
  program.units_symbolic = true;
  EXPECT_EQ(cut({0, 12, 7})->unit_dims, (std::vector<int64_t>{0, 12}));
  EXPECT_EQ(cut({12, 7}).status().message(), "[12,7] is not 12*M units");
}

TEST(StitchProgram, AStoreInPlaceWaitsForTheLastPassThatReadsItsInput) {
  for (const bool in_place : {false, true}) {
    const Chain chain =
        ReadChain("x, r: f32[M,48]; h = x + r; out h $0, h - spread(sum(h, 1, keep), h)",
                  in_place ? "over x" : "");
    const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
    EXPECT_EQ(LoopText(program.phases[0].loops),
              in_place ? "0x48:row 1x48:store:store" : "0x48:store:row 1x48:store");
    if (!in_place) continue;
    EXPECT_EQ(program.phases[0].loops[1].roots[1].output, 0) << "behind the one that reads x";
  }
}

TEST(StitchProgram, RefusesAStoreInPlaceWhereOtherThreadsRead) {
  EXPECT_EQ(Refusal(ReadChain("x: f32[8,8]; out exp(x) over x, exp(transpose(x, 1, 0))"), -1),
            "op 1 (exp): output 0 shares the buffer of an input that is read after it: leave its "
            "alias off");
}

TEST(StitchProgram, AnEarlierPhaseMayReadAllOfWhatIsStoredInPlace) {
  const Chain chain = ReadChain("x: f32[64,32]; out x - spread(sum(x, 0, keep), x) over x");
  EXPECT_EQ(Made(chain, OwnerCandidates(chain)[1]).phases.size(), 2u);
}

// A scatter walks the rows that it writes, and what it leaves in a loop of its own, which runs only
// where that is not there already.
TEST(StitchProgram, AScatterWritesItsRowsAndLeavesTheOthers) {
  for (const bool in_place : {true, false}) {
    const Chain chain = ReadChain(
        "x: f32[9,32]; ids: s64[M]; r: f32[M,32];"
        "out scatter(x, ids, r - spread(sum(r, 1, keep), r)) $0",
        in_place ? "over x" : "");
    const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
    ASSERT_EQ(program.phases.size(), 1u);
    EXPECT_EQ(LoopText(program.phases[0].loops), "0x32:row 1x32:scatter");
    EXPECT_EQ(LoopText(program.phases[0].flat), "0x288:store");
    EXPECT_EQ(program.phases[0].flat[0].apart, in_place ? 0 : -1);
  }
}

// A step's row is handed over in a loop of its own, after the ops that it is computed from; readers
// of the step come later.
TEST(StitchProgram, StepsOfRowsAreHandedOver) {
  const Chain body = testing::GraphOf("sums_of_softmax(M, 64)");
  const std::vector<ValueId> owners = OwnerCandidates(body);
  ASSERT_EQ(owners.size(), 1u);  // no kernel without units
  const StitchProgram program = Made(body, owners[0]);
  ASSERT_EQ(program.handed.size(), 1u);
  EXPECT_EQ(body.op(program.handed[0]).kind, OpKind::kScan);
  ASSERT_EQ(program.phases.size(), 1u);
  EXPECT_EQ(LoopText(program.phases[0].loops), "0x64:row 1x64:row 2x64:hand 3x64:store:store");
  EXPECT_TRUE(program.phases[0].flat.empty());
  // It may be listed among a schedule's hand-overs, or not.
  EXPECT_EQ(MakeStitchProgram(body, owners[0], program.handed)->handed, program.handed);
}

TEST(StitchProgram, RefusesStepsOfRowsByName) {
  const Chain alone = ReadChain("x: f32[9,9,5]; out cumsum(x)");
  EXPECT_EQ(Refusal(alone, -1), "op 1 (scan): its rows are not the kernel's units");
  EXPECT_EQ(Made(alone, 1).units, 81);
  EXPECT_EQ(Refusal(ReadChain("x: f32[9,9,5]; out transpose(cumsum(x), 1, 0, 2)"), 1),
            "op 1 (scan): is handed over inside a unit and read by others");
  EXPECT_EQ(Refusal(ReadChain("x: f32[9,9,5]; out sum(cumsum(x), 1, 2, keep)"), 2),
            "op 1 (scan): its rows are not the kernel's units");
}

TEST(StitchProgram, RefusesScattersByName) {
  const auto refusal = [](const std::string& text) {
    return Refusal(ReadChain("x, rows: f32[9,9]; ids: s32[9]; " + text), -1);
  };
  EXPECT_EQ(refusal("y = scatter(x, ids, rows); out y, exp(y)"),
            "op 3 (scatter): is read in the kernel that writes it");
  EXPECT_EQ(refusal("out scatter(x, reduce_max(spread(ids, [9,9]), 0), rows)"),
            "op 5 (scatter): its ids are reduced in the kernel that writes it");
  std::string doubled;
  for (int i = 0; i < 9; ++i) doubled += "ids = ids + ids; ";
  EXPECT_EQ(
      refusal(doubled + "out scatter(x, ids, rows)"),
      "op 12 (scatter): its ids take more than 8 ops, which each row would compute for others");
  // In place nothing else of what it writes over is read: neither by what it writes nor by another.
  const std::string read =
      "shares the buffer of an input that is read after it: leave its alias off";
  EXPECT_EQ(refusal("out scatter(x, ids, x + rows) over x"), "op 4 (scatter): output 0 " + read);
  EXPECT_EQ(refusal("out exp(x), scatter(x, ids, rows) over x"),
            "op 4 (scatter): output 1 " + read);
  // Ids are read by all rows, so that nothing is stored over them.
  EXPECT_EQ(refusal("out scatter(x, ids, rows) over x, ids + ids over ids"),
            "op 4 (add): output 1 " + read);
}

// Every output is stored once, and every reduction is made at most once in each phase, before its
// readers. A level needs only rows of lower levels.
TEST(StitchProgram, OfRandomGraphsAreComplete) {
  int made = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    const Chain body = testing::MakeRandomStitchGraph(seed);
    for (ValueId owner : OwnerCandidates(body)) {
      const absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner);
      if (!program.ok()) {
        EXPECT_EQ(program.status().code(), absl::StatusCode::kFailedPrecondition);
        continue;
      }
      ++made;
      std::multiset<int> stored;
      for (const StitchPhase& phase : program->phases) {
        std::set<ValueId> reduced;
        int level = 0;
        for (const std::vector<StitchLoop>* loops : {&phase.loops, &phase.flat}) {
          for (const StitchLoop& loop : *loops) {
            EXPECT_TRUE(loops == &phase.flat || loop.level >= level) << seed;
            level = loop.level;
            for (const StitchRoot& root : loop.roots) {
              const bool stores = root.kind == StitchRoot::kStore;
              if (stores) stored.insert(root.output);
              EXPECT_TRUE(stores || reduced.insert(root.value).second) << seed;
            }
          }
        }
      }
      EXPECT_EQ(stored.size(), static_cast<size_t>(body.num_outputs())) << seed;
      EXPECT_EQ(std::set<int>(stored.begin(), stored.end()).size(), stored.size()) << seed;
    }
  }
  std::printf("%d programs of %d graphs\n", made, testing::kRandomStitchGraphs);
  EXPECT_GT(made, 150);
}

}  // namespace
}  // namespace sinter
