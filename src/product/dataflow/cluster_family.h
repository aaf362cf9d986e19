// What dataflows have in common in which a cluster owns an M tile: C, or a range of it, stays
// inside; each block has its columns of C and of E.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_CLUSTER_FAMILY_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_CLUSTER_FAMILY_H_

#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/search/space_walk.h"

namespace sinter {

int64_t KeepsAll(const ProductSequence& sequence, const Schedule& schedule);

// The cluster's columns cover N and L, and the grid is a cluster for each M tile, or for each of
// its ranges.
absl::Status CheckCluster(const ProductSequence& sequence, const Schedule& schedule,
                          const ScheduleSizes& sizes);

// The columns of a block for every shape and cluster size; tiles that would be too wide are left
// out.
void ForEachCluster(const SpaceWalk& walk, Dataflow dataflow,
                    const std::function<void(const Schedule&)>& visit);

// Columns of C that a block gives to its peers: the most, and in the mean over the cluster.
struct ShuffledColumns {
  double most = 0, mean = 0;
};

// A time line up to the store of E.
struct ClusterLine {
  TimeLine line;
  ProductLoad first;  // of the first product
  double stream2_us;  // of the second product over what of C the cluster keeps, of one turn
  double end_us;      // of a tile of E
};
ClusterLine ClusterLineOf(const ProductSequence& sequence, const Schedule& schedule,
                          const ShuffledColumns& shuffled, const DeviceModel& model);
// Of dataflows in which every column of C is shuffled.
ClusterLine ClusterLineOf(const ProductSequence& sequence, const Schedule& schedule,
                          const DeviceModel& model);
Prediction PredictCluster(const ProductSequence& sequence, const Schedule& schedule,
                          const DeviceModel& model);

// What they share of their rows.
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
