// ChainParts: what kernels of a chain are made of: its runs of products, the graph of the other
// ops, and bodies found in it.
#ifndef SINTER_SRC_FUSION_CHAIN_PARTS_H_
#define SINTER_SRC_FUSION_CHAIN_PARTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/body.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

// Of one chain at one bucket, with products that absorb what `absorbed` says. Bodies of
// batch-invariant plans are those of RowOrderBucketOf, whatever the bucket is. The chain must
// outlive it. Not thread-safe.
class ChainParts {
 public:
  // FAILED_PRECONDITION where the ops have no order (StitchGraph::Make), or where a batch-invariant
  // plan would have other products than at RowOrderBucketOf. `pace` may be null.
  static absl::StatusOr<std::unique_ptr<ChainParts>> Make(const Chain& chain, int64_t bucket,
                                                          const Absorbed& absorbed,
                                                          bool batch_invariant, Pace* pace);

  const Absorbed& absorbed() const { return absorbed_; }
  const StitchGraph& graph() const { return graph_; }
  // The run whose result `ops` names; null when there is none.
  const GraphRun* RunOf(const KernelOps& ops) const;
  // Whether `vertex` of the graph is a run.
  bool IsRun(int vertex) const;
  // The vertices that compute `ops`. FAILED_PRECONDITION naming a value that is no vertex's.
  absl::StatusOr<NodeSet> VerticesOf(const KernelOps& ops) const;
  // ExtractBody of the vertices; made once for equal `ops`.
  absl::StatusOr<std::shared_ptr<const StitchBody>> BodyOf(const KernelOps& ops,
                                                           const NodeSet& vertices);

 private:
  ChainParts(const Absorbed& absorbed, ProductRuns products, StitchGraph graph)
      : absorbed_(absorbed), products_(std::move(products)), graph_(std::move(graph)) {}

  const Absorbed absorbed_;
  const ProductRuns products_;
  const StitchGraph graph_;
  std::map<std::pair<std::vector<ValueId>, bool>, std::shared_ptr<const StitchBody>> bodies_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_CHAIN_PARTS_H_
