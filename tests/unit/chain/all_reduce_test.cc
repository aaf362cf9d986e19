// Sums over ranks in chains: what is refused, one spelling of one rank, keys, bytes, texts.
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

Chain Parse(const std::string& line) { return Got(ParseProblem(line)).chain; }

// A chain that gives x, bf16[M,16], summed over `ranks`.
Chain SumOver(int32_t ranks) { return ReadChain("x: bf16[M,16]; out all_reduce(x, $0)", ranks); }

TEST(AllReduce, RefusesBadCallsAndStaysAsItWas) {
  ExpectRefusedCalls("all_reduce",
                     "x: bf16[M,16]; ids: s32[M,16]; codes: e4m3[M,16]; all_reduce(x, 4)");
}

TEST(AllGather, RefusesBadCallsAndStaysAsItWas) {
  ExpectRefusedCalls("all_gather and reduce_scatter",
                     "x: bf16[M,18]; ids: s32[M,16]; one: bf16[]; wide: bf16[1073741823];"
                     "codes: e4m3[M,16]");
}

TEST(AllGather, GivesTheAxisOfAllRanksAndAScatterOfOne) {
  for (int32_t ranks = 2; ranks <= 8; ++ranks) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF16, {C(1), Dim::M(), C(4)}});
    const ValueId all = *b.AllGather(x, 0, ranks);
    EXPECT_EQ(b.TypeOf(all), (TensorType{DType::kF16, {C(ranks), Dim::M(), C(4)}}));
    const ValueId part = *b.ReduceScatter(all, 0, ranks);
    EXPECT_EQ(b.TypeOf(part), b.TypeOf(x));
    const Chain chain = Finished(b, {*b.AllGather(part, 2, ranks)});
    EXPECT_EQ(chain.ranks(), ranks);
    EXPECT_EQ(chain.output_type(0).dims.back(), C(4 * ranks));
    EXPECT_EQ(chain.op(3).axis, 2);
  }
}

// With one rank a gather and a scatter are casts; the axis and the ranks are part of the key.
TEST(AllGather, AxisAndRanksArePartOfTheKey) {
  std::set<std::string> keys;
  for (const char* op : {"all_gather", "reduce_scatter"}) {
    for (const int32_t ranks : {1, 2, 4}) {
      for (const int axis : {1, 2}) {
        const Chain chain = ReadChain("x: bf16[M,8,8]; out $0(x, $1, $2)", op, axis, ranks);
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
  EXPECT_THAT(chain.ToString(), HasSubstr("all_reduce 0 ranks=2"));
}

TEST(AllReduce, OverOneRankIsACast) {
  const Chain chain = SumOver(1);
  EXPECT_EQ(chain.ranks(), 1);
  EXPECT_EQ(chain.op(1).kind, OpKind::kCast);
  EXPECT_EQ(chain, ReadChain("x: bf16[M,16]; out bf16(x)"));
}

TEST(AllReduce, RanksArePartOfTheKey) {
  std::set<std::string> keys;
  for (int32_t ranks = 1; ranks <= 8; ++ranks) keys.insert(SumOver(ranks).CanonicalDigest().Hex());
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
    const Chain bytes = Got(ChainFromCanonicalBytes(chain.CanonicalBytes()));
    EXPECT_EQ(bytes, chain);
    EXPECT_EQ(bytes.ranks(), chain.ranks());
    EXPECT_EQ(Got(ChainFromJson(ChainToJson(chain))), chain);
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
  EXPECT_THAT(ChainFromJson(absl::StrCat(head, tail)).status().message(),
              HasSubstr("ops[0].ranks"));
  const std::string gather =
      R"({"schema": 1, "inputs": [{"id": 0, "dtype": "bf16", "dims": ["M", 8]}],
 "ops": [{"id": 1, "op": "all_gather", "in": [0], "ranks": 2)";
  EXPECT_TRUE(ChainFromJson(absl::StrCat(gather, ", \"axis\": 1", tail)).ok());
  EXPECT_THAT(ChainFromJson(absl::StrCat(gather, tail)).status().message(),
              HasSubstr("ops[0].axis"));
  EXPECT_THAT(
      ChainFromJson(absl::StrCat(head, ", \"ranks\": 2, \"axis\": 1", tail)).status().message(),
      HasSubstr("axis"))
      << "of an all_reduce";
  const absl::Status many =
      ChainFromJson(absl::StrCat(head, ", \"ranks\": 4294967298", tail)).status();
  EXPECT_THAT(many.message(), HasSubstr("ranks is")) << many;
}

}  // namespace
}  // namespace sinter
