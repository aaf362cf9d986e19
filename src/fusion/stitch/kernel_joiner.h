// KernelJoiner: joins parts of a cut pattern again where that is faster.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_JOINER_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_JOINER_H_

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/latency_evaluator.h"

namespace sinter {

// A cut is in the middle or at a barrier, wherever the slow or refused op is. Ops on both sides of
// a cut that are not the cause belong together.
class KernelJoiner {
 public:
  static constexpr int kMostVertices = 128;  // of a joined kernel
  static constexpr int kMostTries = 64;      // joined kernels that one joiner evaluates
  static constexpr size_t kMostPacked = 8;   // with more only pairs that share a tensor are tried

  KernelJoiner(const StitchGraph& graph, DeltaEvaluator* evaluator, LatencyEvaluator* latency)
      : graph_(graph),
        evaluator_(evaluator),
        latency_(latency),
        costs_(evaluator->model().stitch) {}

  // Repeatedly joins the two of `kernels` whose joined kernel saves most by the latency-evaluator,
  // while the saving is larger than prediction errors. `kernels` are of one legal pattern, in an
  // executable order, and stay so. Deterministic: of equal savings the first pair.
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
