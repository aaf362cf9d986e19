// Evaluations: reductions that one thread makes, nested and side by side.
#include "src/stitch/sectors.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// The evaluations of the only loop of a kernel without units.
Evaluations Alone(const Chain& body) {
  const StitchProgram program = Got(MakeStitchProgram(body, -1));
  return EvaluationsOf(body, program, program.phases[0].flat[0], nullptr);
}

TEST(Evaluations, ElementsAreComputedOnce) {
  const Evaluations once = Alone(ReadChain("x = exp({f32[6,4]}); out x + x"));
  for (const double times : once.times) EXPECT_EQ(times, 1);
  EXPECT_EQ(once.steps, 0);
}

TEST(Evaluations, InsideOneAnotherTheyMultiply) {
  const Chain chain = ReadChain("x: f32[5,7,3]; out sum(exp(sum(exp(x), 2)), 1)");
  const Evaluations e = Alone(chain);
  const ValueId outer = chain.outputs()[0].value, exp = chain.op(outer).operands[0];
  const ValueId sum = chain.op(exp).operands[0], below = chain.op(sum).operands[0];
  EXPECT_EQ(e.times[static_cast<size_t>(outer)], 7);
  EXPECT_EQ(e.times[static_cast<size_t>(exp)], 7);
  EXPECT_EQ(e.times[static_cast<size_t>(sum)], 7 * 3);
  EXPECT_EQ(e.times[static_cast<size_t>(below)], 7 * 3);
  EXPECT_EQ(e.steps, 7 + 7 * 3);
}

TEST(Evaluations, WhatDoesNotMoveWithALoopIsComputedBeforeIt) {
  const Chain chain =
      ReadChain("x: f32[5,7]; out sum(exp(x - spread(sum(x, 1, keep), x)), 1, keep)");
  const Evaluations e = Alone(chain);
  EXPECT_EQ(e.steps, 7 + 7) << "not 7 + 7 * 7";
  EXPECT_EQ(e.times[static_cast<size_t>(chain.input(0))], 7 + 7) << "in both loops";
}

TEST(Evaluations, AVectorOverTwoRowsTakesAnAccessEachElement) {
  const Chain rows = ReadChain("x: f32[6,16,4]; out exp(transpose(x, 1, 0, 2))");
  const Evaluations e = Alone(rows);
  EXPECT_EQ(e.AccessesOf(rows.input(0), 2), 0.5);
  EXPECT_EQ(e.AccessesOf(rows.input(0), 4), 0.25);
  EXPECT_EQ(e.AccessesOf(rows.input(0), 8), 1) << "rows of 4 lie 64 apart";
}

TEST(Evaluations, WhatAVectorReadsTwiceIsOneAccess) {
  const Chain chain = ReadChain("y: f32[16,8]; x: f32[16,1]; out y - spread(x, y)");
  const Evaluations e = Alone(chain);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(e.AccessesOf(chain.input(i), 8), 0.125);
  const Chain pairs = ReadChain("x: f32[16,1]; y: f32[16,2]; out y - spread(x, y)");
  const ValueId narrow =
      pairs.input_op(0).type.dims[1].value == 1 ? pairs.input(0) : pairs.input(1);
  EXPECT_EQ(Alone(pairs).AccessesOf(narrow, 8), 0.5) << "four of eight differ";
}

TEST(Evaluations, RowsOfTheUnitAreThere) {
  const Chain chain = testing::FromText("softmax rows=16 cols=64");
  const StitchProgram program = Got(MakeStitchProgram(chain, testing::FirstReduction(chain, 1)));
  for (const StitchLoop& loop : program.phases[0].loops) {
    EXPECT_EQ(EvaluationsOf(chain, program, loop, &program.phases[0]).steps, 0);
  }
  // The same row asked for by other units: each thread sums it again.
  const Chain mixed = ReadChain(
      "x: f32[4,9,32]; y = x - spread(sum(x, 2, keep), x); out x - spread(sum(y, 0, keep), x)");
  const StitchProgram rows = Got(MakeStitchProgram(mixed, testing::FirstReduction(mixed, 2)));
  double steps = 0;
  for (const StitchLoop& loop : rows.phases[0].loops) {
    steps = std::max(steps, EvaluationsOf(mixed, rows, loop, &rows.phases[0]).steps);
  }
  EXPECT_EQ(steps, 4 + 4 * 32);
}

// exp(x) with its halves changed round, and a sum to own the rows.
TEST(Evaluations, StatementsSayWhatALaterLoopTakes) {
  const Chain chain = ReadChain(
      "x: f32[M,16]; y = exp(x); left = y[:, 0:8]; right = y[:, 8:16];"
      "out concat(right, left, 1), sum(x, 1)");
  const ValueId y = OpsOf(chain, OpKind::kUnary).at(0);
  const StitchProgram program = Got(MakeStitchProgram(chain, OwnerCandidates(chain)[1], {y}));
  const StitchPhase& phase = program.phases[0];
  const auto made_of = [&](const StitchLoop& loop) {
    Evaluations e = EvaluationsOf(chain, program, loop, &phase);
    std::vector<std::pair<double, bool>> made;  // trips of y, and whether they are taken
    for (const auto& one : e.statements) {
      if (one.first.first != y) continue;
      made.push_back({e.TripsOf(one, 8), one.second.taken});
      if (!one.second.taken) continue;
      EXPECT_EQ(e.times[static_cast<size_t>(y)], 0) << "it is not computed again";
      const int64_t first = e.space.ValueAt(one.second.in_unit.at(0), e.element, 0);
      EXPECT_TRUE(first == 8 || first == -8) << first;
    }
    return made;
  };
  using Made = std::vector<std::pair<double, bool>>;
  EXPECT_EQ(made_of(phase.loops[phase.hands[0].made]), (Made{{16, false}}));
  EXPECT_EQ(made_of(phase.loops[phase.hands[0].last]), (Made{{16, true}, {16, true}}));
}

}  // namespace
}  // namespace sinter
