// Shared by the dataflows in which a cluster owns a row tile: C, or a range of it, stays in the
// cluster; each block has its own columns of C and of E.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_CLUSTER_FAMILY_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_CLUSTER_FAMILY_H_

#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/search/space.h"

namespace sinter {

int64_t KeepsAll(const ProductSequence& sequence, const Schedule& schedule);

// The cluster's columns must cover N and L, and the grid must be one cluster for each row tile, or
// for each range of one.
absl::Status CheckCluster(const ProductSequence& sequence, const Schedule& schedule,
                          const ScheduleSizes& sizes);

// Visits every row shape and cluster size with the columns of a block; skips tiles that are too
// wide.
void ForEachCluster(const SpaceWalk& walk, Dataflow dataflow,
                    const std::function<void(const Schedule&)>& visit);

// Columns of C that a block sends to its peers: the most, and the mean over the cluster.
struct ShuffledColumns {
  double most = 0, mean = 0;
};

// A time line up to the store of E.
struct ClusterLine {
  TimeLine line;
  ProductLoad first;  // of the first product
  double stream2_us;  // of the second product over the C that the cluster keeps, for one turn
  double end_us;      // of a tile of E
};
ClusterLine ClusterLineOf(const ProductSequence& sequence, const Schedule& schedule,
                          const ShuffledColumns& shuffled, const DeviceModel& model);
// For dataflows that shuffle every column of C.
ClusterLine ClusterLineOf(const ProductSequence& sequence, const Schedule& schedule,
                          const DeviceModel& model);
Prediction PredictCluster(const ProductSequence& sequence, const Schedule& schedule,
                          const DeviceModel& model);

// The fields that their rows have in common.
constexpr DataflowRow ClusterRow() {
  DataflowRow row;
  row.how = "dsm_shuffle";
  row.medium = Medium::kDsm;
  row.cluster_owns_rows = true;
  row.kept_columns = KeepsAll;
  row.check = CheckCluster;
  row.predict = PredictCluster;
  return row;
}

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_CLUSTER_FAMILY_H_
