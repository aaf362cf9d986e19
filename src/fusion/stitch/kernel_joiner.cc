#include "src/fusion/stitch/kernel_joiner.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "src/fusion/stitch/kernel_order.h"

namespace sinter {
// Whether one reads the other's result, or both read one tensor.
bool KernelJoiner::Meet(const NodeSet& a, const NodeSet& b) const {
  std::set<int> tensors;
  a.ForEach([&](int v) {
    tensors.insert(graph_.vertex(v).tensor);
    for (const StitchRead& read : graph_.vertex(v).reads) tensors.insert(read.tensor);
  });
  bool meet = false;
  b.ForEach([&](int v) {
    meet |= tensors.count(graph_.vertex(v).tensor) > 0;
    for (const StitchRead& read : graph_.vertex(v).reads) meet |= tensors.count(read.tensor) > 0;
  });
  return meet;
}

std::optional<CostedKernel> KernelJoiner::Try(const NodeSet& both) {
  if (both.size() > kMostVertices || tries_ == kMostTries) return std::nullopt;
  if (!evaluator_->IsLegal(StitchPattern::Of(graph_, both.ToVector()))) return std::nullopt;
  ++tries_;
  Ask(evaluator_->options().pace);
  absl::StatusOr<CostedKernel> kernel = latency_->Evaluate(graph_, both);
  if (!kernel.ok()) return std::nullopt;
  return *std::move(kernel);
}

// The joined kernel, if there is one.
const std::optional<CostedKernel>& KernelJoiner::Joined(const CostedKernel& a,
                                                        const CostedKernel& b) {
  NodeSet both = a.vertices;
  both.Unite(b.vertices);
  auto known = known_.find(both);
  if (known == known_.end()) known = known_.emplace(both, Try(both)).first;
  return known->second;
}

// `kernels` with the best pair joined; empty when no pair saves anything.
KernelJoiner::Kernels KernelJoiner::BestJoined(const Kernels& kernels) {
  Kernels best;
  double saved = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    for (size_t k = i + 1; k < kernels.size(); ++k) {
      if (kernels.size() > kMostPacked && !Meet(kernels[i].vertices, kernels[k].vertices)) continue;
      const std::optional<CostedKernel>& both = Joined(kernels[i], kernels[k]);
      const double apart = kernels[i].us + kernels[k].us;
      if (!both.has_value() || apart - both->us <= std::max(saved, costs_.error_share * apart))
        continue;
      Kernels joined = kernels;
      joined[i] = *both;
      joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(k));
      if (!OrderKernels(graph_, &joined)) continue;
      saved = apart - both->us;
      best = std::move(joined);
    }
  }
  return best;
}

void KernelJoiner::Join(Kernels* kernels) {
  while (kernels->size() > 1) {
    Kernels joined = BestJoined(*kernels);
    if (joined.empty()) return;
    *kernels = std::move(joined);
  }
}

}  // namespace sinter
