// Sums over ranks in chains: what is refused, one spelling of one rank, keys, bytes, texts.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
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

TEST(AllGather, RefusesBadCallsAndStaysAsItWas) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(18)}});
  const ValueId ids = *b.Input({DType::kS32, {Dim::M(), C(16)}});
  const ValueId one = *b.Input({DType::kBF16, {}});
  const ValueId wide = *b.Input({DType::kBF16, {C(kMaxExtent / 2)}});
  const ValueId codes = *b.Input({DType::kE4M3, {Dim::M(), C(16)}});
  using Add = std::function<absl::StatusOr<ValueId>()>;
  const struct {
    Add add;
    const char* message;
  } cases[] = {
      {[&] { return b.AllGather(9, 1, 2); }, "op 5 (all_gather): x is value 9, must be in [0, 4]"},
      {[&] { return b.AllGather(x, 1, 9); }, "op 5 (all_gather): ranks is 9, must be 1 to 8"},
      {[&] { return b.AllGather(x, -1, 2); }, "op 5 (all_gather): axis is -1, must be in [0, 1]"},
      {[&] { return b.AllGather(x, 2, 2); }, "op 5 (all_gather): axis is 2, must be in [0, 1]"},
      {[&] { return b.AllGather(one, 0, 2); },
       "op 5 (all_gather): axis is 0, a tensor of rank 0 has none"},
      {[&] { return b.AllGather(x, 0, 2); },
       "op 5 (all_gather): axis 0 of x is M, must be constant: give ranks an axis of their own, "
       "as in [1, M, n] or [ranks, M, n]"},
      {[&] { return b.AllGather(ids, 1, 2); },
       "op 5 (all_gather): dtype of x is s32, must be f32, f16, bf16 or e4m3"},
      {[&] { return b.AllGather(wide, 0, 4); },
       "op 5 (all_gather): dimension 0 is 4294967292, must be in [1, 2^31 - 1] or M"},
      {[&] { return b.ReduceScatter(9, 1, 2); },
       "op 5 (reduce_scatter): x is value 9, must be in [0, 4]"},
      {[&] { return b.ReduceScatter(x, 1, 0); },
       "op 5 (reduce_scatter): ranks is 0, must be 1 to 8"},
      {[&] { return b.ReduceScatter(x, 1, 4); },
       "op 5 (reduce_scatter): axis 1 of x is 18, must be a multiple of ranks, 4: every rank gets "
       "as much of it"},
      {[&] { return b.ReduceScatter(codes, 1, 2); },
       "op 5 (reduce_scatter): dtype of x is e4m3, must be f32, f16 or bf16"},
      {[&] { return b.ReduceScatter(x, 0, 2); },
       "op 5 (reduce_scatter): axis 0 of x is M, must be constant: give ranks an axis of their "
       "own, as in [1, M, n] or [ranks, M, n]"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<ValueId> added = c.add();
    EXPECT_EQ(added.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(added.status().message()), c.message);
    EXPECT_EQ(b.size(), 5);
  }
  ASSERT_TRUE(b.AllGather(codes, 1, 8).ok());
  EXPECT_EQ(std::string(b.ReduceScatter(x, 1, 2).status().message()),
            "op 6 (reduce_scatter): ranks is 2, of op 5 (all_gather) 8: a chain is split over one "
            "group");
}

TEST(AllGather, GivesTheAxisOfAllRanksAndAScatterOfOne) {
  for (int32_t ranks = 2; ranks <= 8; ++ranks) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF16, {C(1), Dim::M(), C(4)}});
    const ValueId all = *b.AllGather(x, 0, ranks);
    EXPECT_EQ(b.TypeOf(all), (TensorType{DType::kF16, {C(ranks), Dim::M(), C(4)}}));
    const ValueId part = *b.ReduceScatter(all, 0, ranks);
    EXPECT_EQ(b.TypeOf(part), b.TypeOf(x));
    ASSERT_TRUE(b.Output(*b.AllGather(part, 2, ranks)).ok());
    const Chain chain = *b.Finish();
    EXPECT_EQ(chain.ranks(), ranks);
    EXPECT_EQ(chain.output_type(0).dims.back(), C(4 * ranks));
    EXPECT_EQ(chain.op(3).axis, 2);
  }
}

// Of one rank a gather and a scatter are casts; the axis and the ranks are part of the key.
TEST(AllGather, AxisAndRanksArePartOfTheKey) {
  std::set<std::string> keys;
  for (const bool gathers : {true, false}) {
    for (const int32_t ranks : {1, 2, 4}) {
      for (const int axis : {1, 2}) {
        ChainBuilder b;
        const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(8), C(8)}});
        ASSERT_TRUE(
            b.Output(gathers ? *b.AllGather(x, axis, ranks) : *b.ReduceScatter(x, axis, ranks))
                .ok());
        const Chain chain = *b.Finish();
        EXPECT_EQ(chain.op(1).kind == OpKind::kCast, ranks == 1);
        keys.insert(chain.CanonicalDigest().Hex());
      }
    }
  }
  EXPECT_EQ(keys.size(), 9u);
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
                           "all_gather rows=M cols=64 ranks=8 dtype=f16",
                           "all_gather rows=M cols=64 ranks=3 along=rows",
                           "reduce_scatter rows=M cols=64 ranks=4 along=cols dtype=f32",
                           "reduce_scatter rows=M cols=64 ranks=5 along=rows",
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
      {"all_gather rows=M cols=64 ranks=2 along=M",
       "all_gather: along is M, must be one of cols rows"},
      {"reduce_scatter rows=M cols=64 ranks=3",
       "reduce_scatter: op 1 (reduce_scatter): axis 1 of x is 64, must be a multiple of ranks, 3: "
       "every rank gets as much of it"},
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
  const std::string gather =
      R"({"schema": 1, "inputs": [{"id": 0, "dtype": "bf16", "dims": ["M", 8]}],
 "ops": [{"id": 1, "op": "all_gather", "in": [0], "ranks": 2)";
  EXPECT_TRUE(ChainFromJson(absl::StrCat(gather, ", \"axis\": 1", tail)).ok());
  EXPECT_NE(ChainFromJson(absl::StrCat(gather, tail)).status().message().find("ops[0].axis"),
            absl::string_view::npos);
  EXPECT_NE(ChainFromJson(absl::StrCat(head, ", \"ranks\": 2, \"axis\": 1", tail))
                .status()
                .message()
                .find("axis"),
            absl::string_view::npos)
      << "of an all_reduce";
  const absl::Status many =
      ChainFromJson(absl::StrCat(head, ", \"ranks\": 4294967298", tail)).status();
  EXPECT_NE(many.message().find("ranks is"), absl::string_view::npos) << many;
}

}  // namespace
}  // namespace sinter
