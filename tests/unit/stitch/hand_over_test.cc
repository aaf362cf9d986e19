// Hand-over: where an element lies in its unit, what may be handed over, what programs make of it.
#include "src/stitch/phases.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

ValueId FirstOf(const Chain& chain, OpKind kind) { return OpsOf(chain, kind).at(0); }

// exp(x[M, 16]) and the same with its halves changed round, with a sum to own the rows.
Chain HalvesRound(bool in_place) {
  return ReadChain(
      "x: f32[M,16]; y = exp(x); left = y[:, 0:8]; right = y[:, 8:16];"
      "out concat(right, left, 1) $0, sum(x, 1)",
      in_place ? "over x" : "");
}

StitchProgram RowsOf(const Chain& chain) {
  return Got(MakeStitchProgram(chain, OwnerCandidates(chain)[1]));
}

TEST(HandOver, FindsTheUnitAxisByAxis) {
  const Chain chain = HalvesRound(false);
  const StitchProgram program = RowsOf(chain);
  IndexSpace space;
  const IndexVar unit = space.AddLoop("u", 0, 1), i = space.AddLoop("i", 16, 2);
  const std::vector<Dim> dims = chain.input_op(0).type.dims;
  const Index u = Index::Of(unit), x = Index::Of(i);
  const auto shifted = PlaceInUnit(program, dims, {u, x.Plus(-8)}, unit, space);
  ASSERT_TRUE(shifted.has_value()) << "behind a border, where it may be negative";
  EXPECT_EQ((*shifted)[0], x.Plus(-8));
  EXPECT_FALSE(PlaceInUnit(program, dims, {u.Plus(1), x}, unit, space).has_value());
  EXPECT_FALSE(PlaceInUnit(program, dims, {x, u}, unit, space).has_value());
}

TEST(HandOver, TellsOwnElementsFromOthers) {
  const Chain chain = HalvesRound(false);
  StitchProgram program = RowsOf(chain);
  const ValueId y = FirstOf(chain, OpKind::kUnary);
  program.handed = {y};
  IndexSpace space;
  const IndexVar unit = space.AddLoop("u", 0, 1), i = space.AddLoop("i", 16, 2);
  const Index u = Index::Of(unit), x = Index::Of(i);
  const auto read = [&](const Position& at, int64_t elements, IndexVar of) {
    return ReadOfHanded(chain, program, y, at, {of, i, elements}, space);
  };
  EXPECT_EQ(read({u, x}, 16, unit), HandRead::kOwn);
  EXPECT_EQ(read({u, x}, 8, unit), HandRead::kTaken) << "another loop's threads";
  EXPECT_EQ(read({u, x.Plus(8)}, 16, unit), HandRead::kTaken);
  EXPECT_EQ(read({u.Plus(1), x}, 16, unit), HandRead::kOutside);
  EXPECT_EQ(read({u, x.Plus(8)}, 16, -1), HandRead::kNone) << "no unit owns the reader";
}

TEST(HandOver, IsAPassOfItsOwnInFrontOfItsReaders) {
  const Chain chain = HalvesRound(false);
  const ValueId y = FirstOf(chain, OpKind::kUnary);
  const StitchProgram program = *MakeStitchProgram(chain, OwnerCandidates(chain)[1], {y});
  ASSERT_EQ(program.phases.size(), 1u);
  const std::vector<StitchLoop>& loops = program.phases[0].loops;
  ASSERT_EQ(loops.size(), 3u) << "the last stores the sums";
  EXPECT_EQ(loops[0].roots.size(), 2u) << "the sum and what is left";
  ASSERT_EQ(loops[1].roots.size(), 1u);
  EXPECT_EQ(loops[1].roots[0].reads, std::vector<ValueId>{y});
  ASSERT_EQ(program.phases[0].hands.size(), 1u);
  EXPECT_EQ(program.phases[0].hands[0].made, 0u);
  EXPECT_EQ(program.phases[0].hands[0].last, 1u);
  StitchSchedule s;
  s.owner = program.owner, s.unit_threads = 32;
  EXPECT_EQ(CompositionsOf(chain, program, s)[static_cast<size_t>(y)], Composition::kBlock);
}

TEST(HandOver, IsRefusedWhereItMakesNoSense) {
  const Chain chain = HalvesRound(false);
  const ValueId owner = OwnerCandidates(chain)[1], y = FirstOf(chain, OpKind::kUnary);
  const auto refused = [&](ValueId by, std::vector<ValueId> handed) {
    return std::string(MakeStitchProgram(chain, by, handed).status().message());
  };
  EXPECT_THAT(refused(owner, {owner}), HasSubstr("is not a value that the threads"));
  EXPECT_THAT(refused(-1, {y}), HasSubstr("is not a value that the threads"));
  EXPECT_THAT(refused(owner, {FirstOf(chain, OpKind::kConcat)}), HasSubstr("at no other element"));
  EXPECT_THAT(refused(owner, {1000}), HasSubstr("is handed over and not there"));
}

// The columns of y are other units'.
TEST(HandOver, IsRefusedWhereOtherUnitsRead) {
  const Chain chain = ReadChain("x: f32[8,8]; y = exp(x); out transpose(y, 1, 0), sum(x, 1)");
  const auto program =
      MakeStitchProgram(chain, OwnerCandidates(chain)[1], {FirstOf(chain, OpKind::kUnary)});
  EXPECT_TRUE(Says(program, "read by others"));
}

// A scatter's rows ask for the ids of all later rows, which other units have.
TEST(HandOver, IsRefusedWhereAScatterAsksForIdsOfOtherUnits) {
  const Chain chain = ReadChain(
      "ids: s32[8]; rows: f32[8,16]; x: f32[9,16]; out scatter(x, ids + ids, rows), sum(rows, 1)");
  const ValueId owner = OwnerCandidates(chain)[1], handed = FirstOf(chain, OpKind::kBinary);
  ASSERT_TRUE(MakeStitchProgram(chain, owner).ok());
  EXPECT_TRUE(Says(MakeStitchProgram(chain, owner, {handed}), "read by others"));
}

// A value that is handed over has been read before any thread stores.
TEST(HandOver, LetsOutputsTakeTheirInputsPlace) {
  const Chain chain = HalvesRound(true);
  const ValueId owner = OwnerCandidates(chain)[1];
  EXPECT_FALSE(MakeStitchProgram(chain, owner).ok());
  const auto program = Got(MakeStitchProgram(chain, owner, {FirstOf(chain, OpKind::kUnary)}));
}

TEST(HandOver, LiesAsItIsStoredWhereNothingIsLost) {
  const Chain chain = ReadChain("x: bf16[8,16]; y = f16(exp(f32(x))); out y + y");
  const auto type_of = [&](OpKind kind, DType dtype) {
    for (const ValueId id : OpsOf(chain, kind)) {
      if (chain.op(id).type.dtype == dtype) return HandedType(chain, id);
    }
    return DType::kPred;
  };
  EXPECT_EQ(type_of(OpKind::kInput, DType::kBF16), DType::kBF16);
  EXPECT_EQ(type_of(OpKind::kCast, DType::kF16), DType::kF16);
  EXPECT_EQ(type_of(OpKind::kCast, DType::kF32), DType::kF32);
  EXPECT_EQ(type_of(OpKind::kBinary, DType::kF16), DType::kF32) << "not rounded in between";
}

}  // namespace
}  // namespace sinter
