#include "tests/bench/graph_cases.h"

#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

std::vector<std::string> IdsOf(const std::vector<GraphCase>& cases) {
  std::vector<std::string> ids;
  for (const GraphCase& one : cases) ids.push_back(one.id);
  return ids;
}

TEST(GraphCases, AreReadFromFoldersFilesAndLists) {
  const auto all = Got(LoadGraphCases(
      {"tests/bench/problems/memory_chains.txt", "tests/bench/problems/stitch"}, {}));
  EXPECT_EQ(all.size(), 8u + 22u);
  EXPECT_EQ(all[0].id, "N1");
  EXPECT_EQ(all[0].m, 8192);
  const DeviceModel h200 = *BuiltinModel("h200"), h100 = *BuiltinModel("h100");
  EXPECT_NEAR(all[0].LimitUs(h200), 8.7, 0.05);
  EXPECT_NEAR(all[0].LimitUs(h100), 11.8, 0.05);  // of another memory
  const auto one = Got(LoadGraphCases({"tests/bench/problems/stitch/adam.json"}, {"adam"}));
  EXPECT_EQ(one[0].Elements(), 25000000);
  EXPECT_EQ(one[0].Bytes(), int64_t{25000000} * (3 * 4 + 2 + 3 * 4 + 2) + 3 * 4);
  const auto some = LoadGraphCases({"tests/bench/problems/stitch"}, {"bert_ffn_mid", "adam"});
  EXPECT_EQ(IdsOf(*some), (std::vector<std::string>{"adam", "bert_ffn_mid"}));
}

TEST(GraphCases, ErrorsNameWhatIsMissing) {
  EXPECT_EQ(LoadGraphCases({"tests/bench/problems/stitch"}, {"adamm"}).status().message(),
            "no graph 'adamm'");
  EXPECT_EQ(LoadGraphCases({"tests/bench/nothing.json"}, {}).status().message(),
            "cannot read 'tests/bench/nothing.json'");
  EXPECT_FALSE(LoadGraphCases({"tests/bench/results"}, {}).ok());
  EXPECT_EQ(LoadGraphCases({"tests/golden/chain/masked_softmax.json"}, {}).status().message(),
            "tests/golden/chain/masked_softmax.json: M is left open");
}

TEST(GraphCases, ARepeatedAxisCountsOnce) {
  GraphCase c{.chain = ReadChain("x: f32[8,16] strides(0, 1); out exp(x)")};
  EXPECT_EQ(c.Bytes(), 16 * 4 + 8 * 16 * 4);
  EXPECT_EQ(c.Ops(), 1);
}

TEST(RandomGraphCases, AreNumberedFromOne) {
  const std::vector<GraphCase> cases = RandomGraphCases(3, 1 << 10);
  EXPECT_EQ(IdsOf(cases), (std::vector<std::string>{"random1", "random2", "random3"}));
  EXPECT_GE(cases[0].Ops(), 5);
  EXPECT_EQ(IdsOf(*Selected(cases, {"random2"})), (std::vector<std::string>{"random2"}));
}

TEST(WithRowsAsM, WorksWhereNoOpMixesRows) {
  const auto cases = Got(LoadGraphCases({"tests/bench/problems/stitch"}, {}));
  std::vector<std::string> can;
  for (const GraphCase& c : cases) {
    const std::optional<Chain> chain = WithRowsAsM(c.chain, c.chain.output_type(0).dims[0].value);
    if (!chain.has_value()) continue;
    can.push_back(c.id);
    EXPECT_TRUE(chain->UsesM());
    EXPECT_EQ(chain->num_inputs(), c.chain.num_inputs());
  }
  const auto has = [&](const char* id) {
    return std::find(can.begin(), can.end(), id) != can.end();
  };
  EXPECT_TRUE(has("transformer_xent"));
  EXPECT_TRUE(has("softmax_backward"));
  EXPECT_FALSE(has("ln_backward"));      // sums over rows
  EXPECT_FALSE(has("batchnorm_train"));  // mean over rows
}

}  // namespace
}  // namespace sinter::bench
