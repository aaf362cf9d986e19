// Cluster exchange, dataflow (b): a cluster owns a row tile and all of N. Each block sends its
// columns of C to every peer through distributed shared memory.
#include "src/product/dataflow/cluster_family.h"

namespace sinter {
namespace {

void EnumerateClusters(const SpaceWalk& w) {
  ForEachCluster(w, Dataflow::kClusterExchange, [&](const Schedule& s) { w.Visit(s); });
}

}  // namespace

constexpr DataflowRow kClusterExchangeRow = [] {
  DataflowRow row = ClusterRow();
  row.dataflow = Dataflow::kClusterExchange;
  row.name = "cluster-exchange";
  row.title = "a cluster owns a row tile and all of n: c stays inside the cluster";
  row.enumerate = EnumerateClusters;
  return row;
}();

}  // namespace sinter
