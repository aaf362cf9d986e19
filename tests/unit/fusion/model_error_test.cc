// What a wrong figure of the device model costs: plans chosen by a model that is a tenth off,
// priced by the right one. A model that was measured on a chip may repeat no better.
#include "src/base/device_model.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"
#include "src/product/search/search.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "tests/support/chains.h"
#include "tests/support/drawn.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

const DeviceModel& Right() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

// `key` of the right model times `factor`.
DeviceModel WithError(const std::string& key, double factor) {
  DeviceModel model = Right();
  const std::string text = model.ToText();
  std::string wrong;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, absl::StrCat(key, " = "))) continue;
    line = line.substr(key.size() + 3);
    line = line.substr(0, line.find(" ["));
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      absl::StrAppend(&wrong, wrong.empty() ? "" : " ", std::stod(std::string(word)) * factor);
    }
  }
  EXPECT_TRUE(model.Assign(key, wrong, {Origin::kMeasured, ""}).ok()) << key << " = " << wrong;
  return model;
}

// The price of a plan, by the right model.
double PriceOf(const Plan& plan, int64_t bucket) {
  double us = 0;
  bool behind_product = false;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (StitchOf(kernel.spec) != nullptr) {
      StitchOverlap overlap;
      us += AccountOf(*StitchOf(kernel.spec), bucket, Right(), &overlap)->total_us;
    } else {
      const Prediction alone =
          Predict(ProductOf(kernel.spec).sequence, ProductOf(kernel.spec).schedule, Right());
      us += (behind_product ? BehindProgrammaticEdge(alone, Right()) : alone).total_us;
    }
    behind_product = StitchOf(kernel.spec) == nullptr;
  }
  return us;
}

struct PricedChain {
  std::string name;
  Chain chain;
  int64_t bucket = 1;
  double best_us = 0;  // chosen by the right model
};

void AddPriced(const std::string& name, Chain chain, std::vector<PricedChain>* all) {
  PricedChain one{name, std::move(chain), BucketOf(128), 0};
  if (!one.chain.UsesM()) one.bucket = 1;
  const auto planned = Got(PlanChain(one.chain, one.bucket, Right(), {}), name);
  one.best_us = PriceOf(planned.chosen, one.bucket);
  all->push_back(std::move(one));
}

// The measured products and the smaller of the graphs.
std::vector<PricedChain> PricedChains() {
  std::vector<PricedChain> all;
  const std::string folder = "tests/bench/problems/";
  for (const char* list : {"gemm_chains.txt", "gated_ffn.txt"}) {
    for (const std::string& line : LinesOf(folder + list)) {
      const auto problem = ParseProblem(line);
      if (problem.ok()) AddPriced(line, problem->chain, &all);
    }
  }
  for (const char* graph :
       {"bert_embed_ln", "batchnorm_train", "dien_attention", "qwen3_qknorm_rope"}) {
    AddPriced(graph, *ChainFromJson(FileText(absl::StrCat(folder, "stitch/", graph, ".json"))),
              &all);
  }
  return all;
}

// A third of the figures in an everyday run, which the commit draws.
TEST(ModelError, AFigureThatIsATenthOffLosesLessThanTwoPercent) {
  const std::vector<PricedChain> chains = PricedChains();
  ASSERT_GE(chains.size(), 20u);
  size_t number = 0;
  for (const auto& [key, provenance] : Right().provenance) {
    if (provenance.origin != Origin::kMeasured || key == "resident_clusters") continue;
    if (!IsDrawn(number++, 3)) continue;
    for (const double factor : {0.9, 1.1}) {
      const DeviceModel wrong = WithError(key, factor);
      double sum = 0;
      for (const PricedChain& one : chains) {
        const auto planned = Got(PlanChain(one.chain, one.bucket, wrong, {}), one.name);
        const double loss = PriceOf(planned.chosen, one.bucket) / one.best_us;
        EXPECT_LT(loss, 1.02) << key << " times " << factor << ": " << one.name;
        sum += loss;
      }
      EXPECT_LT(sum / static_cast<double>(chains.size()), 1.005) << key << " times " << factor;
    }
  }
  EXPECT_GT(number, 10u);
}

}  // namespace
}  // namespace sinter
