// Sums over ranks in chains: what is refused, one spelling of one rank, keys, bytes, texts.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"
#include "src/chain/chain_json.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

Chain Parse(const std::string& line) {
  const absl::StatusOr<Problem> problem = ParseProblem(line);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.ok() ? problem->chain : Chain();
}

// A chain that gives x, bf16[M,16], summed over `ranks`.
Chain SumOver(int32_t ranks) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  EXPECT_TRUE(b.Output(*b.AllReduce(x, ranks)).ok());
  return *b.Finish();
}

TEST(AllReduce, RefusesBadCallsAndStaysAsItWas) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
  const ValueId ids = *b.Input({DType::kS32, {Dim::M(), C(16)}});
  const ValueId codes = *b.Input({DType::kE4M3, {Dim::M(), C(16)}});
  ASSERT_TRUE(b.AllReduce(x, 4).ok());
  const struct {
    ValueId x;
    int32_t ranks;
    const char* message;
  } cases[] = {
      {9, 2, "op 4 (all_reduce): x is value 9, must be in [0, 3]"},
      {x, 0, "op 4 (all_reduce): ranks is 0, must be 1 to 8"},
      {x, -1, "op 4 (all_reduce): ranks is -1, must be 1 to 8"},
      {x, 9, "op 4 (all_reduce): ranks is 9, must be 1 to 8"},
      {ids, 4, "op 4 (all_reduce): dtype of x is s32, must be f32, f16 or bf16"},
      {codes, 4, "op 4 (all_reduce): dtype of x is e4m3, must be f32, f16 or bf16"},
      {x, 2,
       "op 4 (all_reduce): ranks is 2, of op 3 (all_reduce) 4: a chain is split over one group"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<ValueId> added = b.AllReduce(c.x, c.ranks);
    EXPECT_EQ(added.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(added.status().message()), c.message);
    EXPECT_EQ(b.size(), 4);
  }
}

TEST(AllReduce, HasItsOperandsTypeAndMakesTheChainsRanks) {
  const Chain chain = SumOver(2);
  EXPECT_EQ(chain.ranks(), 2);
  EXPECT_EQ(chain.output_type(0), chain.input_op(0).type);
  EXPECT_EQ(chain.op(1).kind, OpKind::kAllReduce);
  EXPECT_NE(chain.ToString().find("all_reduce 0 ranks=2"), std::string::npos) << chain.ToString();
}

TEST(AllReduce, OverOneRankIsACast) {
  const Chain chain = SumOver(1);
  EXPECT_EQ(chain.ranks(), 1);
  EXPECT_EQ(chain.op(1).kind, OpKind::kCast);
  ChainBuilder b;
  ASSERT_TRUE(b.Output(*b.Cast(*b.Input({DType::kBF16, {Dim::M(), C(16)}}), DType::kBF16)).ok());
  EXPECT_EQ(chain, *b.Finish());
}

TEST(AllReduce, RanksArePartOfTheKey) {
  std::set<std::string> keys;
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    keys.insert(SumOver(ranks).CanonicalDigest().Hex());
  }
  EXPECT_EQ(keys.size(), 8u);
}

TEST(AllReduce, ReadsBackFromBytesJsonAndText) {
  for (const char* line : {"all_reduce rows=M cols=64 ranks=8 residual=1 dtype=f16",
                           "row_parallel m=M n=64 k=32 ranks=2 residual=0 norm=none eps=1e-06 "
                           "layout=io dtype=bf16"}) {
    const Chain chain = Parse(line);
    EXPECT_GT(chain.ranks(), 1);
    const absl::StatusOr<Chain> bytes = ChainFromCanonicalBytes(chain.CanonicalBytes());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, chain);
    EXPECT_EQ(bytes->ranks(), chain.ranks());
    const absl::StatusOr<Chain> json = ChainFromJson(ChainToJson(chain));
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_EQ(*json, chain);
  }
}

TEST(AllReduce, BadTextAndJsonNameTheField) {
  const struct {
    const char *line, *message;
  } texts[] = {
      {"all_reduce rows=M cols=64", "all_reduce: key ranks is missing"},
      {"all_reduce rows=M cols=64 ranks=9",
       "all_reduce: op 1 (all_reduce): ranks is 9, must be 1 to 8"},
      {"row_parallel m=M n=64 k=32 ranks=2 norm=layer",
       "row_parallel: norm is layer, must be one of none rms"},
  };
  for (const auto& c : texts) {
    EXPECT_EQ(std::string(ParseProblem(c.line).status().message()), c.message);
  }
  const std::string head =
      R"({"schema": 1, "inputs": [{"id": 0, "dtype": "bf16", "dims": ["M", 8]}],
 "ops": [{"id": 1, "op": "all_reduce", "in": [0])";
  const std::string tail = R"(}], "outputs": [{"value": 1}]})";
  EXPECT_TRUE(ChainFromJson(absl::StrCat(head, ", \"ranks\": 2", tail)).ok());
  EXPECT_TRUE(ChainFromJson(absl::StrCat(head, ", \"ranks\": 1", tail)).ok());
  EXPECT_NE(ChainFromJson(absl::StrCat(head, tail)).status().message().find("ops[0].ranks"),
            absl::string_view::npos);
  const absl::Status many =
      ChainFromJson(absl::StrCat(head, ", \"ranks\": 4294967298", tail)).status();
  EXPECT_NE(many.message().find("ranks is"), absl::string_view::npos) << many;
}

}  // namespace
}  // namespace sinter
