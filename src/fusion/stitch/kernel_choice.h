// KernelChoice: the latency-evaluator's decision on one plan of the beam.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/stitch/evaluators.h"
#include "src/fusion/stitch/pattern.h"

namespace sinter {

struct ChosenKernels {
  std::vector<CostedKernel>
      kernels;    // in an order in which they can run; runs of products have no body
  double us = 0;  // of all kernels with a body
  std::vector<std::string> refusals;  // why some patterns became several kernels
};

// Makes kernels of a plan's patterns. A pattern that no kernel takes, or whose parts are faster, is
// cut: between its connected components, before its first grid barrier, or in half or where least
// is handed over, whichever is faster. Its parts are cut in the same way. With `join`, parts that
// are faster together are joined again; with `pack`, independent kernels are packed into one
// launch. Vertices in `runs` belong to the product families and get no body; a product outside
// every run is treated like any other op. FAILED_PRECONDITION naming the op when a single vertex is
// refused.
absl::StatusOr<ChosenKernels> ChooseKernels(const StitchGraph& graph, const PatternSet& plan,
                                            const NodeSet& runs, DeltaEvaluator* evaluator,
                                            LatencyEvaluator* latency, bool join = true,
                                            bool pack = false);

// KernelJoiner: joins parts of a cut pattern again where that is faster.

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
      known_;  // by the joined vertices
  int tries_ = 0;
};

// Sorts `kernels` into an executable order, as near to the given one as possible; false when some
// wait for one another.
bool OrderKernels(const StitchGraph& graph, std::vector<CostedKernel>* kernels);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_
