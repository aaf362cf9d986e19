// Fuzz target over plans: whatever decodes and fits its chain stays inside its buffers, and encodes
// as the same plan.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/fit/plan_fit.h"
#include "tests/fuzz/plan_fit/judged_chains.h"
#include "tests/fuzz/reader.h"
#include "tests/unit/fusion/fit/bound_addresses.h"

namespace {

// A chain, and what judges plans of it.
struct Judge {
  sinter::Chain chain;
  std::unique_ptr<sinter::PlanFit> fit;
};

const sinter::DeviceModel& Model() {
  static const auto* const model = new sinter::DeviceModel(*sinter::BuiltinModel("h200"));
  return *model;
}

const Judge& JudgeAt(size_t i) {
  static const auto* const judges = [] {
    auto* list = new std::vector<Judge>(std::size(sinter::kJudgedChains));
    for (size_t j = 0; j < list->size(); ++j) {
      const sinter::JudgedChain& of = sinter::kJudgedChains[j];
      (*list)[j].chain = sinter::ChainOf(of);
      (*list)[j].fit = std::make_unique<sinter::PlanFit>((*list)[j].chain, of.bucket, Model());
    }
    return list;
  }();
  return (*judges)[i];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto at = static_cast<size_t>(ReaderOf(data[0], std::size(sinter::kJudgedChains)));
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto plan = sinter::Plan::Decode(bytes);
  if (!plan.ok()) return 0;
  const Judge& judge = JudgeAt(at);
  if (!judge.fit->Check(*plan).ok()) return 0;
  const std::string escape = sinter::testing::FindEscape(judge.chain, *plan, Model());
  if (!escape.empty()) {
    std::fprintf(stderr, "%s\n", escape.c_str());
    std::abort();
  }
  const auto again = sinter::Plan::Decode(plan->Encode());
  if (!again.ok() || again->PlanDigest() != plan->PlanDigest()) std::abort();
  return 0;
}
