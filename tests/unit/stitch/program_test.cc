// Programs: who computes a reduction, in which pass, in which phase; what is refused, and why.
#include "src/stitch/program.h"

#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/stitch/sectors.h"
#include "tests/support/composed_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/row_step_graphs.h"
#include "tests/unit/stitch/bodies.h"

namespace sinter {
namespace {

using testing::Body;
using testing::ColumnsThenRows;
using testing::FirstReduction;
using testing::FromText;

StitchProgram Made(const Chain& body, ValueId owner) {
  absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : StitchProgram();
}

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
  Body body;
  const ValueId x = body.In({0, 48});
  const ValueId sum = body.Reduce(x, {1}), most = body.Reduce(x, {1}, true, ReduceKind::kMax);
  const Chain chain = body.Finish({body.Sub(most, body.Sub(sum, x))});
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
  const Chain body = testing::BatchNormGradient(2, 3, 5, 16);
  const StitchProgram program = Made(body, body.outputs()[1].value);
  ASSERT_EQ(program.phases.size(), 2u);
  EXPECT_TRUE(program.phases[0].back.empty());
  ASSERT_EQ(program.phases[1].back.size(), 1u);
  EXPECT_EQ(program.phases[1].back[0].output, 0);
  EXPECT_EQ(program.phases[1].back[0].value, body.outputs()[0].value);
  const Chain forward = testing::BatchNorm(64, 16);
  for (const StitchPhase& phase : Made(forward, FirstReduction(forward, 0)).phases) {
    EXPECT_TRUE(phase.back.empty()) << "nothing is stored before";
  }
}

TEST(StitchProgram, ResultsThatNoUnitOwnsAreFlat) {
  Body body;
  const Chain chain = body.Finish({body.Reduce(body.In({0, 24}), {0}, false)});
  const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
  ASSERT_EQ(program.phases.size(), 2u);
  EXPECT_EQ(LoopText(program.phases[0].loops), "0x24:column");
  EXPECT_EQ(LoopText(program.phases[1].flat), "0x24:store");
  EXPECT_FALSE(program.phases[1].flat[0].symbolic);
}

TEST(StitchProgram, AMiddleAxisIsReducedByEachThread) {
  Body body;
  const Chain chain = body.Finish({body.Reduce(body.In({8, 5, 6}), {1}, false)});
  EXPECT_EQ(OwnerCandidates(chain), std::vector<ValueId>{-1});
  const StitchProgram program = Made(chain, -1);
  EXPECT_EQ(program.uses[static_cast<size_t>(FirstReduction(chain, 1))], ReduceUse::kSerial);
  EXPECT_NE(Refusal(chain, FirstReduction(chain, 1)).find("neither the last nor the first"),
            std::string::npos);
}

TEST(StitchProgram, LanesMayShareWhatAThreadReducesAlone) {
  const Chain body = testing::PooledAttention(4, 10, 6, false);
  const StitchProgram program = *MakeStitchProgram(body, OwnerCandidates(body)[1]);
  ASSERT_EQ(program.phases.size(), 1u);
  ASSERT_EQ(program.phases[0].loops.size(), 3u);
  EXPECT_FALSE(program.phases[0].loops[0].serial);
  EXPECT_FALSE(program.phases[0].loops[1].serial);
  EXPECT_TRUE(program.phases[0].loops[2].serial) << "the weighted sum";
}

TEST(StitchProgram, ElementsOfColumnReductionsAndInPlaceOutputsHaveOneThread) {
  Body columns;
  const ValueId middle = columns.Reduce(columns.In({8, 5, 4}), {1}, false);
  const Chain chain = columns.Finish({columns.Reduce(middle, {0}, false)});
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
  Body shares;
  const ValueId x = shares.In({8, 4}), y = shares.In({8, 5, 4});
  const ValueId sum =
      shares.Take(shares.b.Binary(BinaryKind::kAdd, x, shares.Reduce(y, {1}, false)));
  ASSERT_TRUE(shares.b.Output(sum, {{}, x}).ok());
  const Chain in_place = *shares.b.Finish();
  EXPECT_FALSE(MakeStitchProgram(in_place, -1)->phases[0].flat[0].serial);
}

TEST(StitchProgram, RowsInsideAUnitAreSegments) {
  const Chain body = testing::NormRope(6, 8, 2, 16);
  std::set<int64_t> units;
  for (ValueId owner : OwnerCandidates(body)) {
    if (owner < 0) continue;
    const auto program = MakeStitchProgram(body, owner);
    ASSERT_TRUE(program.ok()) << program.status();
    units.insert(program->units);
    std::map<ReduceUse, int> uses;
    for (const ReduceUse use : program->uses) ++uses[use];
    EXPECT_EQ(uses[ReduceUse::kRow], 1);
    EXPECT_EQ(uses[ReduceUse::kSegment], program->units == 12 ? 1 : 0) << "four heads of q each";
    EXPECT_EQ(uses[ReduceUse::kSerial], program->units == 12 ? 0 : 1) << "two units a head of k";
    if (program->units != 12) continue;
    ASSERT_EQ(program->phases.size(), 1u);
    ASSERT_EQ(program->phases[0].loops.size(), 4u) << "statistics and stores of q and of k";
    for (const StitchLoop& loop : program->phases[0].loops) EXPECT_TRUE(loop.segments);
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
    EXPECT_EQ(EvaluationsOf(body, *program, last, true).steps, 0) << "a group is joined again";
  }
  EXPECT_EQ(rows, 1);
}

TEST(StitchProgram, TakesFineGrainedProducts) {
  for (const Chain& body :
       {testing::PooledAttention(4, 10, 6, true), testing::TransposedProducts(3, 4, 5, 6)}) {
    for (ValueId owner : OwnerCandidates(body)) {
      const auto program = MakeStitchProgram(body, owner);
      EXPECT_TRUE(program.ok()) << program.status();
    }
  }
  Body wide;
  const ValueId a = wide.In({2, 3, 5000}), b = wide.In({2, 5000, 4});
  const Chain product = wide.Finish({wide.Take(wide.b.Matmul(a, b))});
  EXPECT_EQ(MakeStitchProgram(product, -1).status().message(),
            "op 2 (matmul): products have kernels of their own");
}

TEST(StitchProgram, RefusesAndNamesTheOp) {
  Body middle;
  const Chain symbolic =
      middle.Finish({middle.Take(middle.b.Transpose(middle.Exp(middle.In({0, 8})), {1, 0}))});
  EXPECT_EQ(Refusal(symbolic, -1),
            "op 2 (transpose): axis 1 is M, only axis 0 may be: M must be the first dimension");

  Body products;
  const ValueId a = products.In({0, 8}, DType::kBF16), w = products.In({8, 4}, DType::kBF16);
  const Chain product = products.Finish({products.Take(products.b.Matmul(a, w))});
  EXPECT_EQ(Refusal(product, -1), "op 2 (matmul): products have kernels of their own");

  Body rows;
  const Chain longer = rows.Finish({rows.Reduce(rows.In({4, 5000}), {1}, false)});
  EXPECT_EQ(Refusal(longer, -1),
            "op 1 (reduce): is too long for one thread and not over whole rows");

  Body strided;
  const ValueId gaps = strided.Take(
      strided.b.Input({DType::kF32, Body::Dims({0, 4})}, {false, {{1, 0}, {1, 1}}, ""}));
  const Chain columns = strided.Finish({strided.Exp(gaps)});
  EXPECT_EQ(Refusal(columns, -1), "op 0 (input): a stride depends on M");

  Body turned;
  const ValueId value = turned.Exp(turned.In({0, 4}));
  ASSERT_TRUE(turned.b.Output(value, {{{1, 0}, {1, 1}}, -1}).ok());
  EXPECT_EQ(Refusal(*turned.b.Finish(), -1), "op 1 (exp): its output's stride depends on M");
}

TEST(StitchProgram, RefusesARowThatOtherUnitsRead) {
  Body body;
  const ValueId x = body.In({6, 5000});
  const ValueId sums = body.Reduce(x, {1}, false);
  const ValueId wide = body.Take(body.b.Broadcast(sums, Body::Dims({5, 6})));
  const Chain chain = body.Finish({body.Exp(wide)});
  EXPECT_NE(Refusal(chain, FirstReduction(chain, 1)).find("(reduce): is read by other units"),
            std::string::npos);
}

TEST(StitchProgram, RefusesOwnersThatAreNone) {
  const Chain body = FromText("softmax rows=M cols=64");
  EXPECT_EQ(Refusal(body, 0), "owner 0 is not a reduction");
  const auto count = static_cast<ValueId>(body.ops().size());
  EXPECT_EQ(Refusal(body, count + 1), "owner 1 is not a reduction");
  EXPECT_NE(Refusal(body, 1000).find("(reduce): is not made in tiles of a result"),
            std::string::npos);
}

TEST(StitchProgram, RefusesMorePhasesThanItMakes) {
  Body body;
  ValueId x = body.In({64, 32});
  for (int i = 0; i < 4; ++i) x = body.Sub(body.Reduce(x, {0}), x);
  const Chain chain = body.Finish({x});
  EXPECT_EQ(Refusal(chain, FirstReduction(chain, 0)), "needs 5 phases, at most 4 are made");
}

TEST(StitchProgram, UnitsAreCutOffTheLeadingDims) {
  StitchProgram program;
  program.units = 12;
  const auto cut = [&](const std::vector<int64_t>& extents) {
    return CutUnits(program, Body::Dims(extents));
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
    Body body;
    const ValueId x = body.In({0, 48}), r = body.In({0, 48});
    const ValueId h = body.Take(body.b.Binary(BinaryKind::kAdd, x, r));
    const ValueId y = body.Sub(body.Reduce(h, {1}), h);
    ASSERT_TRUE(body.b.Output(h, {{}, in_place ? x : -1}).ok());
    const Chain chain = body.Finish({y});
    const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
    EXPECT_EQ(LoopText(program.phases[0].loops),
              in_place ? "0x48:row 1x48:store:store" : "0x48:store:row 1x48:store");
    if (!in_place) continue;
    EXPECT_EQ(program.phases[0].loops[1].roots[1].output, 0) << "behind the one that reads x";
  }
}

TEST(StitchProgram, RefusesAStoreInPlaceWhereOtherThreadsRead) {
  Body body;
  const ValueId x = body.In({8, 8});
  const ValueId y = body.Exp(x), turned = body.Take(body.b.Transpose(x, {1, 0}));
  ASSERT_TRUE(body.b.Output(y, {{}, x}).ok());
  const Chain chain = body.Finish({body.Exp(turned)});
  EXPECT_EQ(Refusal(chain, -1),
            "op 1 (exp): output 0 shares the buffer of an input that is read after it: leave its "
            "alias off");
}

TEST(StitchProgram, AnEarlierPhaseMayReadAllOfWhatIsStoredInPlace) {
  Body body;
  const ValueId x = body.In({64, 32});
  ASSERT_TRUE(body.b.Output(body.Sub(body.Reduce(x, {0}), x), {{}, x}).ok());
  const Chain chain = body.Finish({});
  EXPECT_EQ(Made(chain, OwnerCandidates(chain)[1]).phases.size(), 2u);
}

// A scatter walks the rows that it writes, and what it leaves in a loop of its own, which runs only
// where that is not there already.
TEST(StitchProgram, AScatterWritesItsRowsAndLeavesTheOthers) {
  for (const bool in_place : {true, false}) {
    Body body;
    const ValueId x = body.In({9, 32}), ids = body.In({0}, DType::kS64), rows = body.In({0, 32});
    const ValueId written =
        body.Take(body.b.Scatter(x, ids, body.Sub(body.Reduce(rows, {1}), rows)));
    ASSERT_TRUE(body.b.Output(written, {{}, in_place ? x : -1}).ok());
    const Chain chain = body.Finish({});
    const StitchProgram program = Made(chain, OwnerCandidates(chain)[1]);
    ASSERT_EQ(program.phases.size(), 1u);
    EXPECT_EQ(LoopText(program.phases[0].loops), "0x32:row 1x32:scatter");
    EXPECT_EQ(LoopText(program.phases[0].flat), "0x288:store");
    EXPECT_EQ(program.phases[0].flat[0].apart, in_place ? 0 : -1);
  }
}

// A step's row is handed over in a loop of its own, behind what it is computed of; what reads the
// step comes later.
TEST(StitchProgram, StepsOfRowsAreHandedOver) {
  const Chain body = testing::SumsOfSoftmax(0, 64, false);
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
  const auto body_of = [](const std::function<ValueId(Body&, ValueId)>& make) {
    Body body;
    const ValueId x = body.In({9, 9, 5});
    return body.Finish({make(body, x)});
  };
  const auto scan = [](Body& body, ValueId x) {
    return body.Take(body.b.Scan(ReduceKind::kSum, x));
  };
  const Chain alone = body_of(scan);
  EXPECT_EQ(Refusal(alone, -1), "op 1 (scan): its rows are not the kernel's units");
  EXPECT_EQ(Made(alone, 1).units, 81);
  const Chain turned = body_of([&](Body& body, ValueId x) {
    return body.Take(body.b.Transpose(scan(body, x), {1, 0, 2}));
  });
  EXPECT_EQ(Refusal(turned, 1), "op 1 (scan): is handed over inside a unit and read by others");
  const Chain summed = body_of([&](Body& body, ValueId x) {
    return body.Reduce(scan(body, x), {1, 2});
  });
  EXPECT_EQ(Refusal(summed, 2), "op 1 (scan): its rows are not the kernel's units");
}

TEST(StitchProgram, RefusesScattersByName) {
  const auto refusal = [](const std::function<void(Body&, ValueId, ValueId, ValueId)>& make) {
    Body body;
    const ValueId x = body.In({9, 9}), ids = body.In({9}, DType::kS32), rows = body.In({9, 9});
    make(body, x, ids, rows);
    return Refusal(body.Finish({}), -1);
  };
  const auto out = [](Body& body, ValueId value, ValueId over = -1) {
    EXPECT_TRUE(body.b.Output(value, {{}, over}).ok());
  };
  EXPECT_EQ(refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
              const ValueId written = body.Take(body.b.Scatter(x, ids, rows));
              out(body, written);
              out(body, body.Exp(written));
            }),
            "op 3 (scatter): is read in the kernel that writes it");
  EXPECT_EQ(refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
              const ValueId sum = body.Take(body.b.Reduce(
                  ReduceKind::kMax, body.Take(body.b.Broadcast(ids, Body::Dims({9, 9}))), {0}));
              out(body, body.Take(body.b.Scatter(x, sum, rows)));
            }),
            "op 5 (scatter): its ids are reduced in the kernel that writes it");
  EXPECT_EQ(
      refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
        for (int i = 0; i < 9; ++i) ids = body.Take(body.b.Binary(BinaryKind::kAdd, ids, ids));
        out(body, body.Take(body.b.Scatter(x, ids, rows)));
      }),
      "op 12 (scatter): its ids take more than 8 ops, which each row would compute for others");
  // In place nothing else of what it writes over is read: neither by what it writes nor by another.
  const std::string read =
      "shares the buffer of an input that is read after it: leave its alias off";
  EXPECT_EQ(refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
              const ValueId sum = body.Take(body.b.Binary(BinaryKind::kAdd, x, rows));
              out(body, body.Take(body.b.Scatter(x, ids, sum)), x);
            }),
            "op 4 (scatter): output 0 " + read);
  EXPECT_EQ(refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
              out(body, body.Exp(x));
              out(body, body.Take(body.b.Scatter(x, ids, rows)), x);
            }),
            "op 4 (scatter): output 1 " + read);
  // Ids are read by all rows, so that nothing is stored over them.
  EXPECT_EQ(refusal([&](Body& body, ValueId x, ValueId ids, ValueId rows) {
              out(body, body.Take(body.b.Scatter(x, ids, rows)), x);
              out(body, body.Take(body.b.Binary(BinaryKind::kAdd, ids, ids)), ids);
            }),
            "op 4 (add): output 1 " + read);
}

// Every output is stored once and every reduction is made in each phase at most once, before what
// reads it: a level needs rows of lower levels alone.
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
