#include <algorithm>
#include <utility>

#include "src/attention/attention.h"
#include "src/collective/collective.h"
#include "src/fusion/product_runs.h"
#include "src/plan/attention_family.h"
#include "src/plan/collective_family.h"

namespace sinter {
namespace {

std::vector<GraphRun> FindAttentionRuns(const Chain& chain, const std::vector<bool>&,
                                        std::map<ValueId, std::string>* refused) {
  std::vector<GraphRun> runs;
  for (FoundAttention& found : FindAttention(chain, refused)) {
    OwnRun own;
    own.family = &AttentionFamily();
    own.result = found.problem.result;
    own.problem = MakeBody(std::move(found.problem));
    own.text = "attention";
    for (const AttentionInput& input : found.inputs) {
      const int64_t size = SizeOf(chain.op(input.value).type.dtype);
      own.operands.push_back({input.value, static_cast<uint64_t>(input.offset * size)});
    }
    runs.push_back(MakeOwnRun(chain, std::move(own), std::move(found.values), found.end));
  }
  return runs;
}

std::vector<GraphRun> FindCollectiveRuns(const Chain& chain, const std::vector<bool>& claimed,
                                         std::map<ValueId, std::string>* refused) {
  std::vector<GraphRun> runs;
  for (FoundCollective& found : FindCollectives(chain, claimed, refused)) {
    OwnRun own;
    own.family = &CollectiveFamily();
    own.result = found.problem.result;
    for (const ValueId input : found.inputs) own.operands.push_back({input});
    own.problem = MakeBody(found.problem);
    own.text = CollectiveKernels::NoteOf(found.problem);
    runs.push_back(MakeOwnRun(chain, std::move(own), std::move(found.values), found.end));
    if (found.kept >= 0) runs.back().aux.push_back(found.kept);
  }
  return runs;
}

}  // namespace

std::vector<OwnFinder>& OwnFinders() {
  static std::vector<OwnFinder>* const finders = new std::vector<OwnFinder>{
      {FindAttentionRuns, &Absorbed::attention},
      {FindFourBitGroupedRuns, &Absorbed::four_bits},
      {FindQuantizedGroupedRuns, &Absorbed::groups},
      {FindGroupedRuns},
      {FindCollectiveRuns},
  };
  return *finders;
}

std::vector<GraphRun> FindOwnRuns(const Chain& chain, const Absorbed& absorbed,
                                  std::vector<bool>* claimed,
                                  std::map<ValueId, std::string>* refused) {
  std::vector<GraphRun> runs;
  for (const OwnFinder& finder : OwnFinders()) {
    if (finder.optional != nullptr && !(absorbed.*finder.optional)) continue;
    auto* const why = finder.optional == nullptr ? refused : nullptr;
    for (GraphRun& run : finder.find(chain, *claimed, why)) {
      for (const ValueId value : run.values) (*claimed)[static_cast<size_t>(value)] = true;
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

std::map<ValueId, std::string> WhyNotOptional(const Chain& chain,
                                              const std::map<ValueId, std::string>& refused) {
  std::map<ValueId, std::string> why;
  const bool batched = std::any_of(refused.begin(), refused.end(), [&](const auto& product) {
    return chain.op(product.first).type.rank() > 2;
  });
  if (!batched) return why;
  const std::vector<bool> none(chain.ops().size(), false);
  for (const OwnFinder& finder : OwnFinders()) {
    if (finder.optional != nullptr) finder.find(chain, none, &why);
  }
  return why;
}

GraphRun MakeOwnRun(const Chain& chain, OwnRun own, std::vector<ValueId> values, ValueId end) {
  GraphRun run;
  run.values = std::move(values);
  run.end = end;
  std::vector<ProductOperand>& operands = run.matched.operands;
  for (const OwnRun::Operand& operand : own.operands) {
    const bool known = std::any_of(operands.begin(), operands.end(),
                                   [&](const auto& other) { return other.value == operand.value; });
    if (!known) operands.push_back({operand.value, chain.op(operand.value).type});
  }
  run.own = std::move(own);
  return run;
}

GraphRun MakeOwnRun(const Chain& chain, OwnRun own, std::vector<ValueId> values,
                    const GraphRun& product) {
  GraphRun run = MakeOwnRun(chain, std::move(own), std::move(values), product.end);
  for (ProductOperand& operand : run.matched.operands) {
    for (const ProductOperand& known : product.matched.operands) {
      if (known.value == operand.value) operand.type = known.type;
    }
  }
  return run;
}

}  // namespace sinter
