// The list of dataflows, in the order of their enumerators. To add one: a line, a file in this
// folder that defines k<Name>Row, with a byte of its own, and a kernel in src/device/kernels.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_LIST_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_LIST_H_

#define SINTER_DATAFLOWS(ROW) \
  ROW(Product)                \
  ROW(GridExchange)           \
  ROW(ClusterExchange)        \
  ROW(ClusterRanges)          \
  ROW(ClusterSlab)            \
  ROW(SpatialGate)            \
  ROW(ResidentWeights)

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_LIST_H_
