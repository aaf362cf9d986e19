#include "src/fusion/chain_parts.h"

#include <algorithm>

#include "src/base/status.h"
#include "src/fusion/fusion.h"
#include "src/fusion/refuse_fit.h"
#include "src/fusion/stitch/body_length.h"

namespace sinter {

absl::StatusOr<std::unique_ptr<ChainParts>> ChainParts::Make(const Chain& chain, int64_t bucket,
                                                             const Absorbed& absorbed,
                                                             bool batch_invariant, Pace* pace) {
  Ask(pace);
  ProductRuns products = FindProductRuns(chain, bucket, pace, absorbed);
  const int64_t bodies = batch_invariant ? RowOrderBucketOf(chain) : bucket;
  const std::vector<GraphRun> runs =
      bodies == bucket ? products.runs : FindProductRuns(chain, bodies, pace, absorbed).runs;
  const bool same = std::equal(runs.begin(), runs.end(), products.runs.begin(), products.runs.end(),
                               [](const GraphRun& a, const GraphRun& b) { return a.end == b.end; });
  if (!same) return RefuseFit("other products have kernels than at ", bodies, " rows");
  StitchGraphOptions options;
  options.pace = pace;
  absl::StatusOr<StitchGraph> graph;
  // Where an output overwrites an input, the input's reader may have to share a vertex with the
  // output's op: contraction then gives an order that the plain graph has not.
  for (const bool contract : {false, true}) {
    options.contract = contract;
    graph = StitchGraph::Make(chain, bodies, runs, options);
    if (graph.ok()) break;
  }
  if (!graph.ok()) return graph.status();
  return std::unique_ptr<ChainParts>(
      new ChainParts(absorbed, std::move(products), *std::move(graph)));
}

const GraphRun* ChainParts::RunOf(const KernelOps& ops) const {
  for (const GraphRun& run : products_.runs) {
    if (ops.values.size() == 1 && run.end == ops.values.front()) return &run;
  }
  return nullptr;
}

bool ChainParts::IsRun(int vertex) const {
  return std::any_of(products_.runs.begin(), products_.runs.end(),
                     [&](const GraphRun& run) { return graph_.VertexOf(run.end) == vertex; });
}

absl::StatusOr<NodeSet> ChainParts::VerticesOf(const KernelOps& ops) const {
  NodeSet vertices(graph_.size());
  for (const ValueId value : ops.values) {
    const bool known = value >= 0 && value < static_cast<ValueId>(graph_.chain().ops().size());
    const int vertex = known ? graph_.VertexOf(value) : -1;
    if (vertex < 0) return RefuseFit("op ", value, " is no op that a kernel is made of");
    if (IsRun(vertex)) return RefuseFit("op ", value, " is of a run of products");
    vertices.Add(vertex);
  }
  return vertices;
}

absl::StatusOr<std::shared_ptr<const StitchBody>> ChainParts::BodyOf(const KernelOps& ops,
                                                                     const NodeSet& vertices) {
  const std::pair<std::vector<ValueId>, bool> key = {ops.values, ops.turned};
  const auto known = bodies_.find(key);
  if (known != bodies_.end()) return known->second;
  SINTER_ASSIGN_OR_RETURN(StitchBody body, ExtractBody(graph_, vertices, ops.turned));
  if (!(body.ops.values == ops.values)) return RefuseFit("its ops are not whole");
  SINTER_RETURN_IF_ERROR(CheckBodyLength(body.body));
  return bodies_.emplace(key, std::make_shared<const StitchBody>(std::move(body))).first->second;
}

}  // namespace sinter
