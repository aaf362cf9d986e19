// KernelPacker: kernel packing (FusionStitching 4.1) of a plan's finished kernels: independent ones
// share a launch.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_PACKER_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_PACKER_H_

#include <vector>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/latency_evaluator.h"

namespace sinter {

class KernelPacker {
 public:
  static constexpr int kMostTries = 48;  // packed kernels that one packer evaluates

  // Uses the evaluator's bound of operands and its pace.
  KernelPacker(const StitchGraph& graph, LatencyEvaluator* latency, const DeltaEvaluator& evaluator)
      : graph_(graph),
        latency_(latency),
        options_(evaluator.options()),
        costs_(evaluator.model().stitch) {}

  // Packs independent kernels, first ones first, where that is predicted to be faster, and long
  // texts of independent parts where that is not slower. `kernels` are in an executable order and
  // stay so; those without a body stay alone. Deterministic.
  void Pack(std::vector<CostedKernel>* kernels);

 private:
  using Kernels = std::vector<CostedKernel>;

  // Packs the parts of one long kernel.
  void Shorten(CostedKernel* kernel);
  // `kernels` with the two packed; empty where nothing is gained.
  Kernels Packed(const Kernels& kernels, size_t a, size_t b);
  bool Depend(const NodeSet& a, const NodeSet& b) const;

  const StitchGraph& graph_;
  LatencyEvaluator* latency_;
  const DeltaOptions options_;
  const StitchConstants& costs_;
  int tries_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_PACKER_H_
