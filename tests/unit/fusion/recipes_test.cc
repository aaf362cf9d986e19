// What the launches of plans bind, against their chains: FindMisbinding of plans of every kind. The
// plans of listed problems are checked where they are planned, in plans_golden_test.
#include "tests/support/attention_chains.h"
#include "tests/support/drawn.h"
#include "tests/support/epilogue_chains.h"
#include "tests/support/random_graph.h"
#include "tests/support/split_chain.h"
#include "tests/unit/fusion/assembly/chains.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

// Counts the plans that were checked.
class Checked {
 public:
  // All plans of the chain's normal form.
  void Add(const std::string& name, const Chain& chain, int64_t rows, bool for_tuning = false) {
    const auto form = Got(NormalFormOf(std::make_shared<const Chain>(chain)), name);
    ASSERT_EQ(testing::FindMisplacedInput(*form), "") << name << "\n" << chain.ToString();
    const Chain& planned = *form->chain;
    const int64_t bucket = planned.UsesM() ? BucketOf(planned, rows) : 1;
    for (const Plan& plan : testing::PlansOf(planned, bucket, for_tuning)) {
      ++plans_;
      EXPECT_EQ(testing::FindMisbinding(planned, plan), "")
          << name << " for " << bucket << " rows\n"
          << planned.ToString() << plan.ToText();
    }
  }
  int plans() const { return plans_; }

 private:
  int plans_ = 0;
};

TEST(Recipes, OfRandomGraphs) {
  const int seeds = IsLongSweep() ? 2000 : 150;
  Checked checked;
  for (int seed = 1; seed <= seeds; ++seed) {
    const int64_t rows = testing::RowsOfRandomGraph(static_cast<uint64_t>(seed));
    const auto number = static_cast<uint64_t>(seed);
    const Chain chain = seed % 3 == 0   ? testing::MakeRandomStitchGraph(number)
                        : seed % 3 == 1 ? testing::MakeRandomGraph(number)
                                        : testing::MakeRandomWideGraph(number);
    checked.Add(absl::StrCat("seed ", seed), chain, seed % 7 == 0 ? kLargestBucket : rows);
  }
  std::cout << checked.plans() << " plans of " << seeds << " random graphs\n";
}

TEST(Recipes, OfChainsOfEveryKind) {
  Checked checked;
  for (const testing::NamedChain& of : testing::ChainsOfEveryKind()) {
    for (const int64_t rows : {48, 300, 8192}) {
      checked.Add(of.name, of.chain, rows, /*for_tuning=*/true);
      if (!of.chain.UsesM()) break;
    }
  }
  EXPECT_GT(checked.plans(), 400);
}

// The chain with a gap after each row of each input and output. All gaps differ, so that an operand
// with another operand's stride is seen.
Chain WithGaps(const Chain& chain) {
  ChainBuilder b;
  std::vector<ValueId> values;
  int64_t gap = 0;
  const auto padded = [&](const TensorType& type) {
    std::vector<Dim> dims = type.dims;
    dims.back().value += (gap += 64 / SizeOf(type.dtype));
    return ContiguousStrides(dims);
  };
  const auto may_pad = [](const TensorType& type, const std::vector<Stride>& strides) {
    return type.rank() >= 2 && !type.dims.back().symbolic &&
           strides == ContiguousStrides(type.dims);
  };
  for (const Op& op : chain.ops()) {
    Op copy = op;
    for (ValueId& operand : copy.operands) operand = values[static_cast<size_t>(operand)];
    if (op.kind == OpKind::kInput && may_pad(op.type, op.strides)) copy.strides = padded(op.type);
    values.push_back(*Replay(b, copy, false));
  }
  for (const ChainOutput& out : chain.outputs()) {
    const TensorType& type = chain.op(out.value).type;
    const std::vector<Stride> strides = may_pad(type, out.strides) ? padded(type) : out.strides;
    EXPECT_TRUE(b.Output(values[static_cast<size_t>(out.value)], {strides}).ok());
  }
  return *b.Finish();
}

TEST(Recipes, OfInputsAndOutputsWithGaps) {
  Checked checked;
  int taken = 0;
  std::vector<testing::NamedChain> chains = testing::ChainsOfEveryKind();
  for (testing::NamedChain& listed : testing::ListedChains()) {
    if (taken++ % 20 == 0 || IsLongSweep()) chains.push_back(std::move(listed));
  }
  for (const testing::NamedChain& of : chains) {
    checked.Add(of.name, WithGaps(of.chain), 300, /*for_tuning=*/true);
  }
  EXPECT_GT(checked.plans(), 400);
}

// Widths that rise and fall, so that no region of a run's workspace is as large as its first
// result.
TEST(Recipes, OfSequencesOfProducts) {
  Checked checked;
  std::mt19937 random(1);
  for (int i = 0; i < 24; ++i) {
    const size_t products = 3 + random() % 7;
    std::vector<std::string> n, act, gated;
    for (size_t p = 0; p < products; ++p) {
      n.push_back(absl::StrCat(64 << random() % 4));
      act.push_back(random() % 2 == 0 ? "identity" : "relu");
      gated.push_back(random() % 3 == 0 ? "1" : "0");
    }
    const std::string line = absl::StrCat(
        "products m=64 k=128 n=", absl::StrJoin(n, ","), " act=", absl::StrJoin(act, ","),
        " gated=", absl::StrJoin(gated, ","), " layout=", i % 2 == 0 ? "oi" : "io", " dtype=bf16");
    const Problem problem = Got(ParseProblem(line), line);
    checked.Add(line, WithGaps(problem.chain), i % 3 == 0 ? kLargestBucket : 300, i < 6);
  }
  EXPECT_GT(checked.plans(), 200);
}

// [g, M, k], of which some are taken: where those begin depends on M.
TEST(Recipes, OfSlicesInFrontOfM) {
  Checked checked;
  for (const int start : {0, 1, 2}) {
    for (const char* of_rows : {"exp(rows)", "rows @ {bf16[64,64]}.T"}) {
      const Chain chain =
          ReadChain("x: bf16[4,M,64]; rows = reshape(x[$0:$1, :, :], [M,64]); out bf16($2)", start,
                    start + 1, of_rows);
      checked.Add(absl::StrCat("slice ", start), chain, 64);
    }
  }
  EXPECT_GE(checked.plans(), 6);
}

TEST(Recipes, OfAttention) {
  Checked checked;
  for (const testing::AttentionForm& form : testing::AttentionForms()) {
    checked.Add(form.Name(), testing::MakeAttention(form), 64);
  }
  checked.Add("encoder layer", testing::MakeEncoderLayer(2, 128, 4, 64), 1);
  EXPECT_GT(checked.plans(), 100);
}

// Each line as it is and with gaps, in one pass and in several.
void CheckLines(const std::vector<std::string>& lines, Checked* checked) {
  for (const std::string& line : lines) {
    const Problem problem = Got(ParseProblem(line), line);
    for (const int64_t rows : {8, 300, 8192}) {
      checked->Add(line, problem.chain, rows);
      checked->Add(line + " with gaps", WithGaps(problem.chain), rows);
    }
  }
}

TEST(Recipes, OfExperts) {
  Checked checked;
  CheckLines({"grouped_matmul m=M experts=8 top=2 n=256 k=128",
              "grouped_matmul m=M experts=8 top=2 n=200 k=72 layout=io",
              "grouped_matmul_ends m=M experts=8 n=256 k=128",
              "grouped_gated_ffn m=M experts=8 top=2 n=128 k=256 l=192 act=silu",
              "grouped_gated_ffn m=M experts=8 top=2 n=128 k=256 l=192 act=silu bias1=1 bias2=1",
              "grouped_gated_ffn m=M experts=8 top=4 n=128 k=192 l=256 act=silu layout=io"},
             &checked);
  EXPECT_GT(checked.plans(), 36);
}

TEST(Recipes, OfCodes) {
  Checked checked;
  CheckLines({"scaled_gated_ffn m=M n=256 k=384 l=256 act=silu scales=group quantize=group",
              "scaled_gated_ffn m=M n=512 k=256 l=256 act=silu",
              "rmsnorm_quantize rows=M cols=256 granularity=group"},
             &checked);
  EXPECT_GT(checked.plans(), 36);
}

// Auxiliary results, each with its own stride.
TEST(Recipes, OfEpilogues) {
  Checked checked;
  const auto add = [&](const std::vector<testing::EpilogueChain>& chains) {
    for (const testing::EpilogueChain& of : chains) checked.Add(of.name, WithGaps(of.chain), 8192);
  };
  add(testing::AuxEpilogues({}));
  add(testing::OtherEpilogues(true));
  add(testing::FusedEpilogues({}));
  add(testing::MatrixEpilogues(testing::kMatrixTypes[0]));
  EXPECT_GT(checked.plans(), 60);
}

// A residual that the last kernel of a run reads, and kernels that follow it.
TEST(Recipes, OfLayers) {
  Checked checked;
  for (const int64_t n : {256, 2048}) {
    ChainReader reader("x: bf16[M,256]");
    for (int layer = 0; layer < 3; ++layer) {
      reader.Add(
          "norm = bf16(softmax(f32(x), 1)); c = bf16(relu(norm @ {const bf16[$0,256]}.T)); "
          "x = bf16(c @ {const bf16[256,$0]}.T + f32(x))",
          n);
    }
    reader.Out(reader["x"]);
    const Chain chain = reader.Finish();
    for (const int64_t rows : {16, 300, 8192}) checked.Add("layers", chain, rows, true);
  }
  EXPECT_GT(checked.plans(), 100);
}

TEST(Recipes, OfSumsOverRanks) {
  Checked checked;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    checked.Add(absl::StrCat("seed ", seed), testing::MakeSplitChain(seed),
                seed % 3 == 0 ? kLargestBucket : 200);
  }
  // Without gaps: messages have none.
  for (const char* line :
       {"all_reduce rows=M cols=256 ranks=2 residual=1 dtype=bf16",
        "all_gather rows=M cols=64 ranks=4", "row_parallel m=M n=1024 k=512 ranks=2",
        "row_parallel m=M n=1024 k=512 ranks=8", "reduce_scatter rows=M cols=256 ranks=4"}) {
    for (const int64_t rows : {8, 1024, 8192}) checked.Add(line, ParseProblem(line)->chain, rows);
  }
  checked.Add("f32 messages",
              ReadChain("sum = all_reduce({f32[M,64]}, 2); residual = f32({bf16[M,64]}); y = "
                        "residual + sum; out bf16(y)"),
              kLargestBucket);
  EXPECT_GT(checked.plans(), 60);
}

}  // namespace
}  // namespace sinter
