// What the launches of plans bind, against their chains: FindMisbinding of plans of every kind. The
// plans of listed problems are checked where they are planned, in plans_golden_test.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "tests/support/attention_chains.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/recipes/recipe_check.h"
#include "tests/support/split_chain.h"
#include "tests/support/test_day.h"
#include "tests/unit/fusion/assembly/chains.h"

namespace sinter {
namespace {

// Counts the plans that were checked.
class Checked {
 public:
  // All plans of the chain's normal form.
  void Add(const std::string& name, const Chain& chain, int64_t rows, bool for_tuning = false) {
    const auto form = NormalFormOf(std::make_shared<const Chain>(chain));
    ASSERT_TRUE(form.ok()) << name << ": " << form.status();
    ASSERT_EQ(testing::FindMisplacedInput(**form), "") << name << "\n" << chain.ToString();
    const Chain& planned = *(*form)->chain;
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
  const int seeds = IsLongSweep() ? 2000 : 300;
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

// The chain with gaps behind the rows of each input and output, of each another length: a stride
// that is another operand's is seen.
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

TEST(Recipes, OfAttention) {
  Checked checked;
  for (const testing::AttentionForm& form : testing::AttentionForms()) {
    checked.Add(form.Name(), testing::MakeAttention(form), 64);
  }
  checked.Add("encoder layer", testing::MakeEncoderLayer(2, 128, 4, 64), 1);
  EXPECT_GT(checked.plans(), 100);
}

TEST(Recipes, OfSumsOverRanks) {
  Checked checked;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    checked.Add(absl::StrCat("seed ", seed), testing::MakeSplitChain(seed),
                seed % 3 == 0 ? kLargestBucket : 200);
  }
  EXPECT_GT(checked.plans(), 60);
}

}  // namespace
}  // namespace sinter
