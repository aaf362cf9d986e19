// Bodies of few ops whose values are reached in very many ways are refused before anything walks
// them, and programs are made in time that is linear in what they hold.
#include "src/stitch/body_work.h"

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
  const StitchProgram program = Got(MakeStitchProgram(body, OwnerCandidates(body).back()));
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
  ChainReader r("x: f32[16,1]");
  for (int i = 0; i < 2; ++i) {
    r.Add("x = concat($0, 1)", absl::StrJoin(std::vector<std::string>(wide, "x"), ", "));
  }
  r.Add("out exp(x)");
  return r.Finish();
}

// 467 bytes of JSON, 4,160 sides: a compiler took a minute of processor time.
TEST(BodyWork, RefusesNestedConcatenationsOfManySides) {
  EXPECT_THAT(
      WhyNot(NestedConcats(64)),
      HasSubstr("op 1 (concat): the source of one kernel would have more than 400 branches"));
  EXPECT_EQ(WhyNot(NestedConcats(19)), "");
}

TEST(BodyWork, RefusesManyOpsThatTakeACompilerLong) {
  for (const auto& [kind, most] : {std::pair("sin", 50), {"erf", 200}}) {
    for (const int more : {0, 1}) {
      ChainReader r("x: f32[16,64]");
      for (int i = 0; i < most + more; ++i) r.Add("x = $0(x)", kind);
      r.Add("out x");
      EXPECT_THAT(WhyNot(r.Finish()), HasSubstr(more ? "more than 400 branches" : ""));
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
    std::vector<int64_t> dims = {2, 3, 5, 7, 3, 2};
    ChainReader r("x: f32[9,4]; rows: f32[1260,4]; ids: s32[$0]", absl::StrJoin(dims, ","));
    for (int i = 0; i < turns; ++i) {
      std::rotate(dims.begin(), dims.begin() + 1 + i % 4, dims.end());
      r.Add("ids = reshape(transpose(ids, 4, 2, 0, 5, 3, 1), [$0])", absl::StrJoin(dims, ","));
    }
    r.Add("out scatter(x, reshape(ids, [1260]), rows)");
    return WhyNot(r.Finish());
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
  ChainReader r("x: f32[64,96]");
  for (int i = 0; i < 20; ++i) r.Add("x = concat(exp(x[:, 48:96]), x[:, 0:48], 1)");
  r.Add("out x");
  EXPECT_THAT(WhyNot(r.Finish()), HasSubstr("would have more than 400 branches"));
}

// Predictions of such kernels would not be numbers.
TEST(BodyWork, RefusesReductionsTooDeepInsideOneAnother) {
  ChainReader r("x: f32[8]");
  for (int i = 0; i < 100; ++i) r.Add("x = sum(spread(reshape(x, [8,1]), [8,1000]), 1)");
  r.Add("out x");
  EXPECT_THAT(WhyNot(r.Finish()),
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
