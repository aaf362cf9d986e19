// Bodies of few ops whose values are reached in very many ways are refused before anything walks
// them, and programs are made in time that is linear in what they hold.
#include "src/stitch/body_work.h"

#include "src/base/codec.h"
#include "tests/support/deep_graphs.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

using testing::DeepGraph;

std::string WhyNot(const Chain& body, ValueId owner = -1, StitchBudget* budget = nullptr) {
  return std::string(MakeStitchProgram(body, owner, {}, budget).status().message());
}

// Every row of the ladder reads all rows below it: asked again and again for their levels, 40 would
// take longer than anyone waits.
TEST(BodyWork, LevelsOfALongLadderOfRowsAreFoundOnce) {
  const Chain body = testing::MakeDeepGraph(DeepGraph::kReductions, 122, 4, 1);
  const auto owner = OwnerCandidates(body).back();
  const StitchProgram program = Got(MakeStitchProgram(body, owner));
  ASSERT_EQ(program.phases.size(), 1u);
  EXPECT_EQ(program.phases[0].loops.back().level, 40);
  EXPECT_LT(program.visits, 10000);
}

TEST(BodyWork, RefusesWhatIsReadAtTooManyPlacesAndNamesAnOp) {
  const struct {
    DeepGraph kind;
    const char* why;
  } cases[] = {
      {DeepGraph::kShifts, "one kernel would compute values at more than 16384 places"},
      {DeepGraph::kConcats, "the source of one kernel would have more than 400 branches"},
  };
  for (const auto& one : cases) {
    const std::string why = WhyNot(testing::MakeDeepGraph(one.kind, 100, 8, 1));
    EXPECT_THAT(why, HasSubstr(one.why)) << NameOf(one.kind);
    EXPECT_THAT(why, StartsWith("op ")) << NameOf(one.kind);
  }
}

Chain NestedConcats(size_t wide) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kF32, {Dim::Constant(16), Dim::Constant(1)}});
  for (int i = 0; i < 2; ++i) x = *b.Concat(std::vector<ValueId>(wide, x), 1);
  return Finished(b, {*b.Unary(UnaryKind::kExp, x)});
}

// 467 bytes of JSON, 4,160 sides: a compiler took a minute of processor time.
TEST(BodyWork, RefusesNestedConcatenationsOfManySides) {
  EXPECT_THAT(
      WhyNot(NestedConcats(64)),
      HasSubstr("op 1 (concat): the source of one kernel would have more than 400 branches"));
  EXPECT_EQ(WhyNot(NestedConcats(19)), "");
}

TEST(BodyWork, RefusesManyOpsThatTakeACompilerLong) {
  for (const auto& [kind, most] : {std::pair(UnaryKind::kSin, 50), {UnaryKind::kErf, 200}}) {
    for (const int more : {0, 1}) {
      ChainBuilder b;
      ValueId x = *b.Input({DType::kF32, {Dim::Constant(16), Dim::Constant(64)}});
      for (int i = 0; i < most + more; ++i) x = *b.Unary(kind, x);
      EXPECT_THAT(WhyNot(Finished(b, {x})), HasSubstr(more ? "more than 400 branches" : ""));
    }
  }
}

TEST(BodyWork, RefusesPlacesThatTakeLongToWrite) {
  EXPECT_THAT(WhyNot(testing::MakeDeepGraph(DeepGraph::kTurns, 40, 4, 1)),
              HasSubstr("terms to write, at most 2500 are written"));
}

// Views cost the ids of a scatter no op, and each of them takes more terms than the last.
TEST(BodyWork, RefusesIdsThatTakeLongToWrite) {
  const auto refusal = [](int turns) {
    Body body;
    std::vector<int64_t> dims = {2, 3, 5, 7, 3, 2};
    ValueId ids = body.In(dims, DType::kS32);
    for (int i = 0; i < turns; ++i) {
      ids = body.Take(body.b.Transpose(ids, {4, 2, 0, 5, 3, 1}));
      std::rotate(dims.begin(), dims.begin() + 1 + i % 4, dims.end());
      ids = body.Take(body.b.Reshape(ids, Body::Dims(dims)));
    }
    ids = body.Take(body.b.Reshape(ids, Body::Dims({1260})));
    return WhyNot(
        body.Finish({body.Take(body.b.Scatter(body.In({9, 4}), ids, body.In({1260, 4})))}));
  };
  EXPECT_EQ(refusal(2), "");
  EXPECT_THAT(refusal(60), HasSubstr("terms to write, at most 2500 are written"));
}

TEST(BodyWork, RefusesDeepAndLongBodies) {
  EXPECT_EQ(WhyNot(testing::MakeDeepGraph(DeepGraph::kTwice, 600, 4, 1)),
            "op 512 (add): lies 513 ops deep, at most 512 are followed in one kernel");
  EXPECT_THAT(WhyNot(testing::MakeDeepGraph(DeepGraph::kFan, 9000, 4, 1)),
              HasSubstr(" ops, one kernel computes at most 4400"));
  EXPECT_TRUE(WhyNot(testing::MakeDeepGraph(DeepGraph::kTwice, 512, 4, 1)).empty());
}

// Halves that change places: each side of a concatenation recomputes what the other has.
TEST(BodyWork, CountsTheSidesOfConcatenationsAsSourceIsWritten) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kF32, {Dim::Constant(64), Dim::Constant(96)}});
  for (int i = 0; i < 20; ++i) {
    const ValueId low = *b.Slice(x, {0, 0}, {Dim::Constant(64), Dim::Constant(48)});
    const ValueId high = *b.Slice(x, {0, 48}, {Dim::Constant(64), Dim::Constant(96)});
    x = *b.Concat({*b.Unary(UnaryKind::kExp, high), low}, 1);
  }
  EXPECT_THAT(WhyNot(Finished(b, {x})), HasSubstr("would have more than 400 branches"));
}

// Predictions of such kernels would not be numbers.
TEST(BodyWork, RefusesReductionsTooDeepInsideOneAnother) {
  ChainBuilder b;
  ValueId x = *b.Input({DType::kF32, {Dim::Constant(8)}});
  for (int i = 0; i < 100; ++i) {
    const ValueId column = *b.Reshape(x, {Dim::Constant(8), Dim::Constant(1)});
    const ValueId spread = *b.Broadcast(column, {Dim::Constant(8), Dim::Constant(1000)});
    x = *b.Reduce(ReduceKind::kSum, spread, {1});
  }
  EXPECT_THAT(WhyNot(Finished(b, {x})),
              HasSubstr("one thread would compute it more than 1e+12 times for one element"));
}

TEST(BodyWork, ProgramsShareABudget) {
  const Chain body = testing::MakeDeepGraph(DeepGraph::kTwice, 100, 4, 1);
  StitchBudget budget{.visits = 250};
  EXPECT_EQ(WhyNot(body, -1, &budget), "");
  EXPECT_EQ(WhyNot(body, -1, &budget), "");
  const absl::Status status = MakeStitchProgram(body, -1, {}, &budget).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace
}  // namespace sinter
