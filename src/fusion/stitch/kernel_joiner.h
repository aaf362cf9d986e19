// KernelJoiner: puts parts of a cut pattern together again where that is faster.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_JOINER_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_JOINER_H_

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/latency_evaluator.h"

namespace sinter {

// Cuts fall in the middle or at a barrier, wherever the slow op or the refused one is: what lies on
// both sides of a cut and is no part of the trouble belongs together.
class KernelJoiner {
 public:
  static constexpr int kMostVertices = 128;  // of a joined kernel
  static constexpr int kMostTries = 64;      // joined kernels that one joiner looks at
  static constexpr size_t kMostPacked = 8;   // of more kernels only those are tried that hand
                                             // something over or read the same

  KernelJoiner(const StitchGraph& graph, DeltaEvaluator* evaluator, LatencyEvaluator* latency)
      : graph_(graph),
        evaluator_(evaluator),
        latency_(latency),
        costs_(evaluator->model().stitch) {}

  // Joins, one after another, the two of `kernels` whose joined kernel saves most by the
  // latency-evaluator, as long as one saves more than predictions err by. `kernels` are of one
  // legal pattern, in an order in which they can run, and so are the joined ones. Deterministic: of
  // equal savings the first pair.
  void Join(std::vector<CostedKernel>* kernels);

 private:
  using Kernels = std::vector<CostedKernel>;

  Kernels BestJoined(const Kernels& kernels);
  const std::optional<CostedKernel>& Joined(const CostedKernel& a, const CostedKernel& b);
  std::optional<CostedKernel> Try(const NodeSet& both);
  bool Meet(const NodeSet& a, const NodeSet& b) const;

  const StitchGraph& graph_;
  DeltaEvaluator* evaluator_;
  LatencyEvaluator* latency_;
  const StitchConstants& costs_;
  std::unordered_map<NodeSet, std::optional<CostedKernel>, NodeSet::Hash>
      known_;  // by what is joined
  int tries_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_JOINER_H_
