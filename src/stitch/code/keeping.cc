#include "src/stitch/code/keeping.h"

#include <algorithm>

#include "src/stitch/op_cost.h"

namespace sinter {
namespace {

constexpr double kDearIssue = 5;     // issue slots of an element from which a value is kept
constexpr double kSpecialIssue = 4;  // issue slots of one special function instruction

class Keeper {
 public:
  Keeper(const Chain& body, const Used& used)
      : body_(body), used_(used), precisions_(PrecisionsOf(body)) {
    for (const auto& [operand, readers] : used.reads) {
      if (used.values.count(operand) == 0) continue;
      for (const ElementKey& reader : readers) operands_[reader].push_back(operand);
    }
  }

  std::vector<ElementKey> Choose() {
    std::vector<ElementKey> kept;
    for (const auto& [key, passes] : used_.values) {
      if (passes.size() < 2 || !IsFrontier(key)) continue;
      if (CostOf(key) < kDearIssue) continue;
      kept_.insert(key);
      costs_.clear();
      kept.push_back(key);
    }
    return kept;
  }

 private:
  bool IsShared(const ElementKey& key) const {
    const auto passes = used_.values.find(key);
    return passes != used_.values.end() && passes->second.size() > 1;
  }

  // Whether a value that only one pass computes, or a root, reads it.
  bool IsFrontier(const ElementKey& key) const {
    const auto readers = used_.reads.find(key);
    if (readers == used_.reads.end()) return true;
    return std::any_of(readers->second.begin(), readers->second.end(),
                       [&](const ElementKey& reader) { return !IsShared(reader); });
  }

  // Includes the cost of all operands that are not kept; an operand read twice counts twice.
  double CostOf(const ElementKey& key) {
    const auto known = costs_.find(key);
    if (known != costs_.end()) return known->second;
    const OpCost own = CostOfOp(body_, precisions_, key.first);
    double cost = own.issue + kSpecialIssue * own.special;
    for (const ElementKey& operand : operands_[key]) {
      if (kept_.count(operand) == 0) cost += CostOf(operand);
    }
    return costs_[key] = cost;
  }

  const Chain& body_;
  const Used& used_;
  const std::vector<Precision> precisions_;
  std::map<ElementKey, std::vector<ElementKey>> operands_;
  std::map<ElementKey, double> costs_;
  std::set<ElementKey> kept_;
};

}  // namespace

std::vector<ElementKey> ValuesWorthKeeping(const Chain& body, const Used& used) {
  return Keeper(body, used).Choose();
}

}  // namespace sinter
