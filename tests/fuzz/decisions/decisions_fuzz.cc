// Fuzz target over decisions: whatever is assembled for its chain stays inside its buffers and, but
// for products of 8-bit operands, computes the chain on the CPU.
#include "src/fusion/assembly.h"
#include "src/plan/family.h"
#include "tests/fuzz/decisions/judged_chains.h"
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"
#include "tests/unit/fusion/assembly/bound_addresses.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter::decisions_fuzz {
namespace {

constexpr double kMostError = 0.05;  // of an output, over its largest value
constexpr int64_t kRows = 3;         // of a launch on the CPU

const sinter::DeviceModel& Model() {
  static const auto* const model = new sinter::DeviceModel(*sinter::BuiltinModel("h200"));
  return *model;
}

struct Judge {
  sinter::Chain chain;
  std::unique_ptr<sinter::Assembly> assembly;
  std::set<sinter::Digest> computed;  // plans that were computed already
};

Judge& JudgeAt(size_t i) {
  static auto* const judges = [] {
    auto* list = new std::vector<Judge>(std::size(sinter::kJudgedChains));
    for (size_t j = 0; j < list->size(); ++j) {
      const sinter::JudgedChain& of = sinter::kJudgedChains[j];
      (*list)[j].chain = sinter::ChainOf(of);
      (*list)[j].assembly =
          std::make_unique<sinter::Assembly>((*list)[j].chain, of.bucket, Model());
    }
    return list;
  }();
  return (*judges)[i];
}

// The interpreter of plans knows no products of 8-bit operands and no other ranks.
bool IsInterpreted(const sinter::Plan& plan) {
  return std::none_of(plan.kernels.begin(), plan.kernels.end(), [](const auto& kernel) {
    const sinter::KernelSpec& spec = kernel.spec;
    if (!HasProducts(spec)) return spec.family->TraitsOf(spec).ranks > 1;
    return sinter::IsCode(ProductOf(spec).sequence.element());
  });
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto at = static_cast<size_t>(ReaderOf(data[0], std::size(sinter::kJudgedChains)));
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto decisions = sinter::DecodeDecisions(bytes);
  if (!decisions.ok()) return 0;
  Require(EncodeDecisions(*decisions) == bytes, "decisions that encode to other bytes");
  Judge& judge = JudgeAt(at);
  const auto assembled = judge.assembly->Assemble(*decisions);
  if (!assembled.ok()) return 0;
  const sinter::Plan& plan = assembled->plan;
  Require(EncodeDecisions(DecisionsOf(plan)) == bytes, "a plan of other decisions");
  if (!judge.computed.insert(plan.PlanDigest()).second) return 0;
  const std::string escape = sinter::testing::FindEscape(judge.chain, plan, Model());
  Require(escape.empty(), escape);
  if (!IsInterpreted(plan)) return 0;
  const int64_t m = judge.chain.UsesM() ? std::min(plan.bucket, kRows) : 1;
  const double error = sinter::testing::WorstError(judge.chain, plan, m, 1);
  Require(error < kMostError, "a plan that computes another chain: " + plan.ToText());
  return 0;
}

}  // namespace sinter::decisions_fuzz
