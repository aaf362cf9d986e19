// The text form: the published problem lists as they are, round trips, and what each kind stands
// for.
#include "src/chain/problem.h"

#include "tests/support/files.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

constexpr char kLines[] = "tests/unit/chain/problem_lines.txt";

std::string Published() { return FileText("tests/unit/chain/published_problems.txt"); }

TEST(ProblemLists, ReadAsTheyAre) {
  const std::vector<Problem> problems = Got(ParseProblems(Published()));
  EXPECT_EQ(problems.size(), 36u);
  for (const Problem& p : problems) {
    ASSERT_TRUE(p.m.has_value()) << p.id;
    EXPECT_TRUE(p.chain.UsesM()) << p.id;
  }
}

TEST(ProblemLists, ShapesArriveInTheChain) {
  const std::vector<Problem> problems = *ParseProblems(Published());
  const Chain& g5 = problems[4].chain;
  ASSERT_EQ(g5.num_inputs(), 3);
  EXPECT_EQ(ToString(g5.input_op(0).type), "bf16[M,4096]");
  EXPECT_EQ(ToString(g5.output_type(0)), "bf16[M,4096]");
  EXPECT_EQ(problems[4].m, 128);
  const Chain& s8 = problems[17].chain;
  ASSERT_EQ(s8.num_inputs(), 4);
  EXPECT_EQ(ToString(s8.input_op(1).type), "bf16[3072,1024]");
  // A batch sweep is one chain.
  for (int i = 19; i < 28; ++i) EXPECT_EQ(problems[i].chain, problems[18].chain);
}

TEST(WriteProblem, RoundTripsEveryProblemOfTheLists) {
  const std::vector<Problem> problems = *ParseProblems(Published());
  for (const Problem& p : problems) {
    const std::string line = WriteProblem(p);
    const Problem back = Got(ParseProblem(line), line);
    EXPECT_EQ(WriteProblem(back), line);
    EXPECT_EQ(back.id, p.id);
    EXPECT_EQ(back.m, p.m);
    EXPECT_EQ(back.chain, p.chain);
  }
}

TEST(WriteProblem, SpellsDefaultsAndNumbersInOneWay) {
  const auto expect = [](const std::string& in, const std::string& out) {
    const Problem problem = Got(ParseProblem(in), in);
    EXPECT_EQ(WriteProblem(problem), out);
    EXPECT_EQ(ParseProblem(out)->chain, problem.chain);
  };
  for (const auto& [in, out] : RefusalsOf(kLines, "written")) expect(in, out);
  expect("\tlayernorm rows=3\tcols=8 eps=0.00001 # comment",
         "layernorm rows=3 cols=8 eps=1e-05 affine=1 dtype=bf16");
}

TEST(ParseProblem, TheValueOfMIsNotPartOfTheChain) {
  const Problem one = *ParseProblem("matmul m=1 n=8 k=8"),
                all = *ParseProblem("matmul m=M n=8 k=8");
  EXPECT_EQ(one.chain, all.chain);
  EXPECT_EQ(one.m, 1);
  EXPECT_FALSE(all.m.has_value());
}

TEST(ParseProblem, InputsComeInTheDocumentedOrder) {
  for (const auto& [line, expected] : RefusalsOf(kLines, "inputs")) {
    const Chain chain = Got(ParseProblem(line), line).chain;
    std::vector<std::string> names;
    for (int i = 0; i < chain.num_inputs(); ++i) names.push_back(chain.InputName(i));
    EXPECT_EQ(absl::StrJoin(names, " "), expected) << line;
  }
}

}  // namespace
}  // namespace sinter
